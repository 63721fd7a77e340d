"""How the attention functions behave under `torch.autocast`: as torch's scaled_dot_product_attention does."""

from __future__ import annotations

import contextlib

import torch
from torch import Tensor


def autocast_inputs(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """q, k, v in autocast's dtype where autocast is on for their device; float64 is left alone."""
    tensors = (q, k, v)
    if not all(isinstance(x, Tensor) and x.dim() > 0 for x in tensors):
        return tensors
    if not torch.amp.is_autocast_available(q.device.type) or not torch.is_autocast_enabled(q.device.type):
        return tensors
    dtype = torch.get_autocast_dtype(q.device.type)
    q, k, v = (x.to(dtype) if x.is_floating_point() and x.dtype != torch.float64 else x for x in tensors)
    return q, k, v


def without_autocast(device_type: str) -> contextlib.AbstractContextManager[object]:
    """A context in which no operation is autocast, also for devices that have no autocast (meta)."""
    if not torch.amp.is_autocast_available(device_type):
        return contextlib.nullcontext()
    return torch.autocast(device_type, enabled=False)


def accumulator(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which products are summed: float64 for float64, float32 for everything else."""
    return torch.float64 if dtype == torch.float64 else torch.float32
