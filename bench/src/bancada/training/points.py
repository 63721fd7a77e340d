"""Points of a search space: evenly spread, the same at every call, the middle first."""

from __future__ import annotations

import math

from bancada.suite import Scalar
from bancada.training.declare import Hyper, Range, Space

DIGITS = 4  # significant digits of a tried value: what a row shows is what was used


def radical_inverse(index: int, base: int) -> float:
    """The van der Corput number: the digits of `index` in `base`, mirrored at the point.

    phi_b(sum_k d_k b^k) = sum_k d_k b^(-k-1), in [0, 1).
    """
    value, scale = 0.0, 1.0 / base
    while index:
        index, digit = divmod(index, base)
        value += digit * scale
        scale /= base
    return value


def points(space: Space, trials: int) -> list[Hyper]:
    """The first `trials` distinct points of a space; the first is its middle.

    Halton points, one prime base a hyperparameter, turned (modulo 1) so that the first lies at 1/2 in each:
    u_k = phi_b(k + 1) - phi_b(1) + 1/2. A range is cut at u on its scale, a list of n values at floor(n u).
    A space of fewer points gives all it has, an empty one the one empty point.

    Raises:
        ValueError: `trials` below 1, or a hyperparameter with no value.
    """
    if trials < 1:
        raise ValueError(f"trials={trials!r}: must be at least 1")
    for name, what in space.items():
        if not isinstance(what, Range) and not what:
            raise ValueError(f"space[{name!r}]=(): must hold at least one value")
    wanted = min(trials, size(space))
    bases = _primes(len(space))
    found: list[Hyper] = []
    index = 0
    while len(found) < wanted:
        index += 1
        point = {
            name: _value(what, (radical_inverse(index, base) - 1 / base + 0.5) % 1.0)
            for (name, what), base in zip(space.items(), bases, strict=True)
        }
        if point not in found:
            found.append(point)
    return found


def size(space: Space) -> float:
    """How many points a space has: 1 where it is empty, infinite where it has a range."""
    counts = (math.inf if isinstance(what, Range) else len(set(what)) for what in space.values())
    return math.prod(counts, start=1)


def _value(what: Range | tuple[Scalar, ...], share: float) -> Scalar:
    if not isinstance(what, Range):
        return what[int(share * len(what))]
    if what.scale == "log":
        exact = math.exp(math.log(what.low) + share * (math.log(what.high) - math.log(what.low)))
    else:
        exact = what.low + share * (what.high - what.low)
    return min(max(float(f"{exact:.{DIGITS}g}"), what.low), what.high)


def _primes(count: int) -> list[int]:
    found: list[int] = []
    candidate = 2
    while len(found) < count:
        if all(candidate % prime for prime in found):
            found.append(candidate)
        candidate += 1
    return found
