"""The published cost of an all-reduce, in closed form: what the tables and the counted bytes are checked against."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from bancada_parallelism._check import check_choice, check_count


@dataclass(frozen=True)
class Cost:
    """Steps in sequence, bytes sent by all ranks together, and bytes sent by the rank that sends most."""

    steps: int
    total_bytes: Fraction
    most_bytes: Fraction


def all_reduce_cost(algorithm: str, ranks: int, nbytes: int) -> Cost:
    """Steps and bytes of an all-reduce of S = `nbytes` bytes over n = `ranks`, exact where n divides the elements.

    ring: 2(n-1) steps, 2(n-1)/n S a rank. tree (binomial): 2 ceil(log2 n) steps, 2(n-1)S in all, the root sends
    ceil(log2 n) S. halving-doubling, n a power of two: 2 log2 n steps, 2(n-1)/n S a rank; otherwise two more steps, S
    in and S out for each rank beyond the power p, and 2(p-1)/p S a rank among the p.

    Raises:
        ValueError: an unknown algorithm, no rank, or negative bytes.
    """
    n, S = check_count("ranks", ranks), check_count("nbytes", nbytes, 0)
    check_choice("algorithm", algorithm, ("ring", "tree", "halving-doubling"))
    log = (n - 1).bit_length()
    if algorithm == "ring":
        return Cost(2 * (n - 1), Fraction(2 * (n - 1) * S), Fraction(2 * (n - 1) * S, n))
    if algorithm == "tree":
        return Cost(2 * log, Fraction(2 * (n - 1) * S), Fraction(max(log, int(n > 1)) * S))
    p = 1 << (n.bit_length() - 1)
    extra, each = n - p, Fraction(2 * (p - 1) * S, p)
    steps = 2 * (p.bit_length() - 1) + 2 * (extra > 0)
    return Cost(steps, p * each + 2 * extra * S, each + (S if extra else 0))
