"""Whether a contender kept its place through a race: drift between its first and last thirds, and two-humped samples.

What the whole machine does is everybody's, and paired rounds cancel it. So a contender is judged by its log-times
against the median of the others of the same round,

    r_t = (log t - med(log t)) - med over the others of (log t' - med(log t')),

and is unstable where that moved. Of two contenders the one whose own time moved more is told, for their ratio cannot
say which it was. A single contender has nobody to be held against: how its own time drifted is told as noise, no more.

Drift: the rounds of the last third over those of the first, pair by pair, with Yuen's interval at 99.9% wholly beyond
3% either way. Two humps: the split of the samples with the least squares within (each part a fifth of them at
least), its means apart by 5% or more and by Ashman's D = sqrt(2) |m1 - m2| / sqrt(s1^2 + s2^2) > 5, over which one
normal hump cannot get (2.7) nor a flat one (3.5). `bancada trust` prints how often recorded races of identical
contenders are called unstable by this, and how many with a planted drift or a second hump are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bancada.stats import Floats, trimmed

Flags = NDArray[np.bool_]
DRIFT = math.log(1.03)
DRIFT_CONFIDENCE = 0.999
FEWEST_FOR_DRIFT = 15  # five rounds in a third
HUMPS_APART = math.log(1.05)
ASHMAN = 5.0
LEAST_SHARE = 0.2
FEWEST_FOR_HUMPS = 24
TINIEST = 1e-12  # a variance of logarithms that no clock resolves


@dataclass(frozen=True)
class Shape:
    """How series of log-times [contenders, rounds] moved, for each: drift with interval, and the best two humps."""

    drift: Floats
    low: Floats
    high: Floats
    apart: Floats
    ashman: Floats
    upper_share: Floats

    @property
    def drifted(self) -> Flags:
        """Where the drift's interval lies beyond `DRIFT`."""
        return (self.low > DRIFT) | (self.high < -DRIFT)

    @property
    def two_humped(self) -> Flags:
        """Where there are two humps."""
        return (self.ashman > ASHMAN) & (self.apart > HUMPS_APART)


def thirds(series: Floats) -> tuple[Floats, Floats, Floats]:
    """The last third of the rounds over the first: log-ratio, low, high; 0 and unbounded with too few rounds."""
    rounds = series.shape[-1]
    if rounds < FEWEST_FOR_DRIFT:
        nothing = np.zeros(series.shape[:-1])
        return nothing, nothing - math.inf, nothing + math.inf
    part = rounds // 3
    return trimmed(series[..., -part:] - series[..., :part], DRIFT_CONFIDENCE)


def humps(series: Floats) -> tuple[Floats, Floats, Floats]:
    """The best split of samples in two: distance of the means, Ashman's D, share of the upper; 0 with too few."""
    rounds = series.shape[-1]
    if rounds < FEWEST_FOR_HUMPS:
        nothing = np.zeros(series.shape[:-1])
        return nothing, nothing, nothing
    ordered = np.sort(series, axis=-1)
    ordered = ordered - ordered.mean(axis=-1, keepdims=True)  # so that squares lose no digits
    below = np.arange(math.ceil(LEAST_SHARE * rounds), rounds - math.ceil(LEAST_SHARE * rounds) + 1)
    sums, squares = np.cumsum(ordered, axis=-1), np.cumsum(ordered**2, axis=-1)
    first = sums[..., below - 1] / below
    second = (sums[..., -1:] - sums[..., below - 1]) / (rounds - below)
    first_var = np.maximum(squares[..., below - 1] / below - first**2, 0)
    second_var = np.maximum((squares[..., -1:] - squares[..., below - 1]) / (rounds - below) - second**2, 0)
    best = np.argmin(below * first_var + (rounds - below) * second_var, axis=-1)[..., None]
    apart, spread = (np.take_along_axis(found, best, -1)[..., 0] for found in (second - first, first_var + second_var))
    return apart, math.sqrt(2) * apart / np.sqrt(spread + TINIEST), 1 - below[best[..., 0]] / rounds


def shape(series: Floats) -> Shape:
    """How each of the series moved."""
    return Shape(*thirds(series), *humps(series))


def relative(times: Floats) -> Floats:
    """r_t of every contender, from seconds [contenders, rounds]; ValueError with fewer than two contenders."""
    if len(times) < 2:
        raise ValueError(f"times has {len(times)} contenders: 2 or more are needed, to hold one against the others")
    logs = np.log(times)
    logs = logs - np.median(logs, axis=-1, keepdims=True)
    return np.array([logs[i] - np.median(np.delete(logs, i, axis=0), axis=0) for i in range(len(logs))])


def unstable(times: Floats) -> list[str]:
    """Why each contender is unstable, from seconds [contenders, rounds]; an empty text where it is not.

    The worst is told and left out before the others are judged, for it moves the median that they are held against.
    """
    reasons, left = [""] * len(times), list(range(len(times)))
    while len(left) > 1:
        held = shape(relative(times[left]))
        worst = _worst(held, times[left])
        if worst is None:
            break
        reasons[left.pop(worst)] = _why(held, worst, times.shape[1])
    return reasons


def _worst(held: Shape, times: Floats) -> int | None:
    if not (held.drifted | held.two_humped).any():
        return None
    drifted = bool(held.drifted.any())
    told = held.drifted if drifted else held.two_humped
    moved = shape(np.log(times)) if len(times) == 2 else held  # of two, what moved of itself
    size = np.abs(moved.drift) if drifted else moved.apart
    return int(np.argmax(np.where(told, size, -1.0)))


def _why(held: Shape, i: int, rounds: int) -> str:
    if held.drifted[i]:
        drift, low, high = (math.expm1(float(part[i])) for part in (held.drift, held.low, held.high))
        return (
            f"its time against the others' changed by {drift:+.1%} [{low:+.1%}, {high:+.1%}] "
            f"between the first and the last third of {rounds} rounds"
        )
    if held.two_humped[i]:
        return (
            f"its times against the others' have two humps, {math.expm1(float(held.apart[i])):.1%} apart, "
            f"with {held.upper_share[i]:.0%} of {rounds} rounds in the slower one"
        )
    return ""


def own_drift(samples: Floats) -> float | None:
    """A contender's time in the last third of the rounds over the first, less 1; None with too few rounds.

    The machine's drift is in it: it says how noisy the surroundings were, and nothing of the contender.
    """
    return None if len(samples) < FEWEST_FOR_DRIFT else math.expm1(float(thirds(np.log(samples))[0]))
