"""What adapting a model gained on new data and lost on old, from losses before and after."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import torch
from torch import Tensor

from bancada_peft._check import check_count, check_number

Losses = Tensor | Sequence[float]
_AT_ONCE = 1 << 22  # numbers drawn at a time: 32 MB


@dataclass(frozen=True)
class Interval:
    """An estimate and the interval that holds the true value with the stated confidence."""

    estimate: float
    low: float
    high: float

    def __str__(self) -> str:
        """For a log."""
        return f"{self.estimate:+.4f} [{self.low:+.4f}, {self.high:+.4f}]"


@dataclass(frozen=True)
class Forgetting:
    """`gain`: how much the new data's loss fell; `forgetting`: how much the old data's loss rose."""

    gain: Interval
    forgetting: Interval
    confidence: float

    def __str__(self) -> str:
        """One line for a log."""
        return f"gain {self.gain}, forgetting {self.forgetting} ({self.confidence:.0%} intervals)"


def forgetting(
    old_before: Losses,
    old_after: Losses,
    new_before: Losses,
    new_after: Losses,
    *,
    old_weights: Losses | None = None,
    new_weights: Losses | None = None,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Forgetting:
    """Gain on new data and forgetting on old, with paired bootstrap intervals over examples.

        forgetting = sum_i w_i (after_i - before_i) / sum_i w_i over the old data,
        gain       = sum_i w_i (before_i - after_i) / sum_i w_i over the new data.

    Examples are drawn with replacement, each with its two losses and its weight, so that what makes an example hard
    in itself cancels. The percentiles of the drawn estimates are spread about the estimate by
    t_{n-1} / z * sqrt(n / (n - 1)), without which intervals of few examples are too narrow.

    Args:
        old_before, old_after: the loss of each example (or batch) of the old data, before and after adapting.
        new_before, new_after: the same of the new data.
        old_weights, new_weights: such as the tokens of each example; None: all alike.
        confidence: in (0, 1).
        resamples: draws, at least 100.
        seed: of the draws; the same seed gives the same intervals.

    Raises:
        ValueError: fewer than two examples, losses of different lengths or not finite, weights that are not positive, a
            confidence or a count outside its range.

    Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapter 13; the spread: after Hesterberg, arXiv
    1411.5279. Learning and forgetting of LoRA and full fine-tuning: Biderman et al., arXiv 2405.09673.
    """
    check_number("confidence", confidence, 0.0, 1.0)
    if confidence == 0:
        raise ValueError("confidence=0: must be above 0 and below 1")
    if check_count("resamples", resamples) < 100:
        raise ValueError(f"resamples={resamples}: must be at least 100")
    old = _differences("old", old_before, old_after, old_weights)
    new = _differences("new", new_before, new_after, new_weights)
    generator = torch.Generator().manual_seed(seed)
    lost = _interval(*old, confidence, resamples, generator)
    fell = _interval(*new, confidence, resamples, generator)
    return Forgetting(Interval(-fell.estimate, -fell.high, -fell.low), lost, confidence)


def _differences(which: str, before: Losses, after: Losses, weights: Losses | None) -> tuple[Tensor, Tensor]:
    """after - before and the weights, in float64 on the CPU."""
    found: dict[str, Tensor] = {}
    given = {f"{which}_before": before, f"{which}_after": after, f"{which}_weights": weights}
    for name, losses in given.items():
        if losses is None:
            continue
        tensor = torch.as_tensor(losses).detach().to("cpu", torch.float64)
        if tensor.dim() != 1 or len(tensor) < 2:
            raise ValueError(f"{name}: of shape {list(tensor.shape)}; must be one number an example, of two at least")
        if not torch.isfinite(tensor).all():
            raise ValueError(f"{name}: has numbers that are not finite")
        found[name] = tensor
    first = found[f"{which}_before"]
    for name, tensor in found.items():
        if len(tensor) != len(first):
            raise ValueError(f"{name}: {len(tensor)} numbers; {which}_before has {len(first)}, and they are compared")
    w = found.get(f"{which}_weights", torch.ones_like(first))
    if not (w > 0).all():
        raise ValueError(f"{which}_weights: must be above 0")
    return found[f"{which}_after"] - first, w


def _interval(d: Tensor, w: Tensor, confidence: float, resamples: int, generator: torch.Generator) -> Interval:
    estimate, n = float((w * d).sum() / w.sum()), len(d)
    drawn = []
    for begin in range(0, resamples, step := max(1, _AT_ONCE // n)):
        at = torch.randint(n, (min(step, resamples - begin), n), generator=generator)
        drawn.append((w * d)[at].sum(1) / w[at].sum(1))
    tail = (1 - confidence) / 2
    low, high = torch.quantile(torch.cat(drawn), torch.tensor([tail, 1 - tail], dtype=d.dtype)).tolist()
    spread = t_quantile(1 - tail, n - 1) / NormalDist().inv_cdf(1 - tail) * math.sqrt(n / (n - 1))
    return Interval(estimate, estimate + spread * (low - estimate), estimate + spread * (high - estimate))


def t_quantile(p: float, freedom: int) -> float:
    """The p-quantile of Student's t: exact for 1 and 2 degrees of freedom, else within 1% for p up to 0.995.

    Abramowitz and Stegun, 26.7.5.
    """
    if freedom == 1:
        return math.tan(math.pi * (p - 0.5))
    if freedom == 2:
        return (2 * p - 1) * math.sqrt(2 / (4 * p * (1 - p)))
    z = NormalDist().inv_cdf(p)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return float(z + sum(term / freedom**power for power, term in enumerate(terms, 1)))
