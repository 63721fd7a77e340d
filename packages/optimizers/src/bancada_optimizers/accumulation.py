"""Gradient accumulation whose result does not depend on how a batch was cut into micro-batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from bancada_optimizers import _check

Batch = TypeVar("Batch")


def count_labels(labels: Tensor, ignore_index: int = -100) -> int:
    """How many labels count: those that are not `ignore_index`."""
    return int((labels != ignore_index).sum())


def windows(batches: Iterable[Batch], size: int) -> Iterator[list[Batch]]:
    """Micro-batches in windows of `size`, one window an update; the last window may be shorter.

    ValueError for a size below 1.
    """
    _check.whole("size", size, least=1)

    def cut() -> Iterator[list[Batch]]:
        window: list[Batch] = []
        for batch in batches:
            window.append(batch)
            if len(window) == size:
                yield window
                window = []
        if window:
            yield window

    return cut()


def accumulate(
    batches: Sequence[Batch],
    loss_sum: Callable[[Batch], Tensor],
    tokens: Callable[[Batch], int],
    *,
    backward: Callable[[Tensor], object] = Tensor.backward,
) -> Tensor:
    """Adds the gradients of one update, exact by token, and returns the loss: sum of losses / sum of tokens.

    A mean of the micro-batches' means weighs a token in a short micro-batch more than one in a long one; here every
    token of the window weighs the same, so the gradient is that of the whole batch at once.

    Args:
        batches: the micro-batches of one update; a partial last window is right as it is.
        loss_sum: the sum (not the mean) of a micro-batch's token losses, label smoothing included
            (`F.cross_entropy(..., reduction="sum")`).
        tokens: how many tokens that sum is over (`count_labels`); all are counted before the first backward pass.
        backward: takes the scaled loss; `lambda loss: scaler.scale(loss).backward()` with a `DynamicLossScaler`.

    Raises:
        ValueError: no micro-batch, no token in all of them, or a negative count, before any gradient is added.
    """
    counts = [_check.whole("tokens", tokens(batch)) for batch in batches]
    total = sum(counts)
    if total == 0:
        raise ValueError(f"tokens: 0 in {len(counts)} micro-batches; must be at least 1 in all")
    losses: list[Tensor] = []
    for batch, count in zip(batches, counts, strict=True):
        if count:  # without a token the sum has nothing to give, and may not even depend on the model
            loss = loss_sum(batch) / total
            backward(loss)
            losses.append(loss.detach())
    return torch.stack(losses).sum()
