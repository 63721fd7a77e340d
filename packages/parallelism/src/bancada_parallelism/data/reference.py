"""What data parallelism computes, in one process: the gradient of the mean over every token of every rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from torch import Tensor, nn

Batch = TypeVar("Batch")


def average_gradients(
    module: nn.Module, loss_sum: Callable[[nn.Module, Batch], tuple[Tensor, int]], batches: Sequence[Batch]
) -> tuple[Tensor, dict[str, Tensor]]:
    """Loss and gradients of (sum_b sum of losses of batch b) / (sum_b tokens of batch b).

    Args:
        loss_sum: of a batch, the sum of its tokens' losses and their number.
        batches: those of all ranks and micro-batches, of any sizes; one without tokens adds nothing.

    Raises:
        ValueError: no tokens at all.
    """
    sums, counts = zip(*(loss_sum(module, batch) for batch in batches), strict=True)
    if not sum(counts):
        raise ValueError(f"batches: {len(batches)} without a token; must hold one at least")
    loss = torch.stack(list(sums)).sum() / sum(counts)
    named = {name: p for name, p in module.named_parameters() if p.requires_grad}
    found = torch.autograd.grad(loss, list(named.values()), allow_unused=True)
    return loss.detach(), {
        name: torch.zeros_like(p) if g is None else g for (name, p), g in zip(named.items(), found, strict=True)
    }
