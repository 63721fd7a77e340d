"""The soft-target loss: the student's distribution is drawn to the teacher's, both softened by a temperature.

Hinton et al., Distilling the Knowledge in a Neural Network, arXiv 1503.02531, section 2.
"""

# ruff: noqa: F722  (axis names in jaxtyping strings are no Python expressions)

from __future__ import annotations

from typing import Literal

import torch

from bancada_compression._check import FLOATS, check_choice, check_positive
from bancada_compression._typing import Float, Int, Tensor


def soft_target_loss(
    student: Float[Tensor, "*tokens classes"],
    teacher: Float[Tensor, "*tokens classes"],
    temperature: float = 2.0,
    labels: Int[Tensor, "*tokens"] | None = None,
    ignore_index: int = -100,
    direction: Literal["forward", "reverse"] = "forward",
) -> Float[Tensor, ""]:
    """T^2 * KL(p || q), summed over classes, averaged over the tokens that count.

    p = softmax(teacher / T) and q = softmax(student / T); T^2 keeps the gradients' size as T changes. `reverse` is
    T^2 * KL(q || p), which draws the student to one mode of the teacher.

    Args:
        student: logits (not normalised), any floating dtype; the sum is taken in float32 or better.
        teacher: logits of the same shape; no gradient flows to them.
        temperature: T, above 0.
        labels: tokens whose label is `ignore_index` (padding) are in neither the sum nor the count, whatever their
            logits hold; None: every token counts. For a causal model, shift logits and labels first.
        ignore_index: see labels.
        direction: of the divergence.

    Returns:
        A scalar, at least 0; 0 (with gradients of 0) where no token counts.

    Raises:
        ValueError: shapes differ, a dtype is not floating (labels: not whole), or T or direction is not allowed.

    Paper: Hinton et al., arXiv 1503.02531.
    """
    _check(student, teacher, labels)
    check_positive("temperature", temperature)
    check_choice("direction", direction, ("forward", "reverse"))
    summing = torch.promote_types(torch.promote_types(student.dtype, teacher.dtype), torch.float32)
    s, t = student.flatten(0, -2), teacher.detach().flatten(0, -2)
    if labels is not None:
        # Chosen, not multiplied by 0: a NaN in a padded token's logits must not come through.
        counted = labels.flatten() != ignore_index
        s, t = s[counted], t[counted]
    log_q = torch.log_softmax(s.to(summing) / temperature, dim=-1)
    log_p = torch.log_softmax(t.to(summing) / temperature, dim=-1)
    if direction == "reverse":
        log_p, log_q = log_q, log_p
    # A class of probability 0 adds nothing: its log is -inf, and 0 * inf would be NaN, in the gradient too.
    ratio = torch.where(log_p == -torch.inf, 0.0, log_p - log_q)
    return temperature**2 * (log_p.exp() * ratio).sum() / max(s.shape[0], 1)


def _check(student: Tensor, teacher: Tensor, labels: Tensor | None) -> None:
    for name, value in (("student", student), ("teacher", teacher)):
        if not isinstance(value, Tensor) or value.dtype not in FLOATS or value.dim() < 2 or value.shape[-1] == 0:
            raise ValueError(f"{name}: {getattr(value, 'dtype', value)} {list(getattr(value, 'shape', ()))}; "
                             "must be floating logits [..., tokens, classes]")  # fmt: skip
    if student.shape != teacher.shape:
        raise ValueError(f"teacher: shape {list(teacher.shape)}; must be that of student, {list(student.shape)}")
    if labels is None:
        return
    if not isinstance(labels, Tensor) or labels.is_floating_point() or labels.dtype == torch.bool:
        raise ValueError(f"labels: {getattr(labels, 'dtype', labels)}; must be a tensor of whole numbers, or None")
    if labels.shape != student.shape[:-1]:
        raise ValueError(f"labels: shape {list(labels.shape)}; must be student's without classes, "
                         f"{list(student.shape[:-1])}")  # fmt: skip
