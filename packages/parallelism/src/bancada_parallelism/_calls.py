"""Collectives whose names differ between versions of torch."""

from __future__ import annotations

import torch.distributed as dist
from torch import Tensor

# torch 2.13 renamed them, and warns at every call of the old names.
_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
_scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor


def all_gather_flat(flat: Tensor, shard: Tensor, group: dist.ProcessGroup) -> None:
    """Every rank's shard, one after another, in `flat`."""
    _gather(flat, shard, group=group)


def start_reduce_scatter(out: Tensor, flat: Tensor, group: dist.ProcessGroup) -> dist.Work:
    """The start of a sum of `flat` over ranks, of which each rank gets its part in `out`."""
    work: dist.Work | None = _scatter(out, flat, group=group, async_op=True)
    assert work is not None
    return work
