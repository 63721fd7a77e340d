"""Which parameters travel together: buckets of about a size, in the order in which gradients come."""

from __future__ import annotations

from collections.abc import Mapping

from torch import nn

from bancada_parallelism._check import check_count

Named = dict[str, nn.Parameter]


def assign_buckets(parameters: Mapping[str, nn.Parameter], bucket_bytes: int) -> list[Named]:
    """The trainable parameters, last first, in buckets of at most `bucket_bytes` and one dtype and device.

    A parameter larger than that has a bucket of its own; frozen ones are in none (pytorch 104690).

    Raises:
        ValueError: `bucket_bytes` is no whole number of at least 1.
    """
    check_count("bucket_bytes", bucket_bytes)
    buckets: list[Named] = []
    size = 0
    for name, parameter in reversed(list(parameters.items())):
        if not parameter.requires_grad:
            continue
        nbytes = parameter.numel() * parameter.element_size()
        like = next(iter(buckets[-1].values())) if buckets else parameter
        fits = size + nbytes <= bucket_bytes and (like.dtype, like.device) == (parameter.dtype, parameter.device)
        if not buckets or not fits:
            buckets.append({})
            size = 0
        buckets[-1][name] = parameter
        size += nbytes
    return buckets
