"""The two conjugate operators of Megatron-LM (arXiv 1909.08053, section 3): f before a cut layer, g after it."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


class _Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: dist.ProcessGroup) -> Tensor:
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        total = gradients[0].contiguous().clone()
        dist.all_reduce(total, group=ctx.group)
        return total, None


class _Reduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: dist.ProcessGroup) -> Tensor:
        total = x.contiguous().clone()
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0], None


def copy_to_ranks(x: Tensor, group: dist.ProcessGroup) -> Tensor:
    """f: x itself forward, the sum of the ranks' gradients backward; for an input that every rank has whole."""
    found: Tensor = _Copy.apply(x, group)  # type: ignore[no-untyped-call]
    return found


def reduce_from_ranks(x: Tensor, group: dist.ProcessGroup) -> Tensor:
    """g: the sum of the ranks' x forward, the gradient itself backward; for partial results."""
    found: Tensor = _Reduce.apply(x, group)  # type: ignore[no-untyped-call]
    return found
