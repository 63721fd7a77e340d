"""The soft-target loss, number by number: the oracle of `loss.py`."""

from __future__ import annotations

import math


def softmax_reference(logits: list[float], temperature: float) -> list[float]:
    """exp(z / T) / sum exp(z / T)."""
    top = max(logits)
    weights = [math.exp((z - top) / temperature) for z in logits]
    return [w / sum(weights) for w in weights]


def soft_target_reference(
    student: list[list[float]], teacher: list[list[float]], temperature: float, counted: list[bool], direction: str
) -> float:
    """T^2 times the mean over counted tokens of sum over classes of p (log p - log q); p is the teacher's forward."""
    total = 0.0
    for s, t, use in zip(student, teacher, counted, strict=True):
        if use:
            p, q = softmax_reference(t, temperature), softmax_reference(s, temperature)
            if direction == "reverse":
                p, q = q, p
            total += sum(a * (math.log(a) - math.log(b)) for a, b in zip(p, q, strict=True) if a > 0)
    return temperature**2 * total / sum(counted) if any(counted) else 0.0
