"""The objectives: what is predicted, and the mean loss over what counts."""

# ruff: noqa: F722  (axis names in jaxtyping strings are no Python expressions)
from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

from bancada.workloads.packing import IGNORED

if TYPE_CHECKING:
    from jaxtyping import Float, Int64


def shifted(
    logits: Float[Tensor, "rows length vocab"], labels: Int64[Tensor, "rows length"]
) -> tuple[Float[Tensor, "places vocab"], Int64[Tensor, " places"]]:
    """Each token's prediction of the next one, and that next one: `logits[:, :-1]`, `labels[:, 1:]`, flattened."""
    return logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()


def mean_loss(logits: Float[Tensor, "places classes"], labels: Int64[Tensor, " places"]) -> Float[Tensor, ""]:
    """`sum_i -log softmax(logits_i)[label_i] / n` in nats over the n labels that are not -100; 0 where there are none.

    The mean is over all that count in the batch: rows with more tokens weigh more.
    """
    counted = (labels != IGNORED).sum()
    total = F.cross_entropy(logits.float(), labels, ignore_index=IGNORED, reduction="sum")
    return total / counted.clamp(min=1)


def tally(logits: Float[Tensor, "places classes"], labels: Int64[Tensor, " places"]) -> Float[Tensor, " 3"]:
    """The sum of the losses, how many predictions are right, and how many labels count: sums of batches add up."""
    counted = labels != IGNORED
    total = F.cross_entropy(logits.float(), labels, ignore_index=IGNORED, reduction="sum")
    right = (logits.argmax(-1) == labels) & counted
    return torch.stack([total.double(), right.sum().double(), counted.sum().double()])
