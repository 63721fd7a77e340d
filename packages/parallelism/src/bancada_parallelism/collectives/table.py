"""The three all-reduce algorithms as tables: step by step, which rank sends which elements to which.

A table is a list of steps, a step a list of transfers that happen at once. A transfer either adds to what the
receiver has (the reduction) or replaces it (the distribution of the sum). All adding steps come first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bancada_parallelism._check import check_choice, check_count


@dataclass(frozen=True)
class Transfer:
    """Elements [first, last) go from rank `source` to rank `target`, which adds them or takes them over."""

    source: int
    target: int
    first: int
    last: int
    adds: bool


Step = tuple[Transfer, ...]
Table = tuple[Step, ...]


def all_reduce_table(algorithm: str, ranks: int, length: int) -> Table:
    """The table of an all-reduce of `length` elements over `ranks`.

    Args:
        algorithm: `ring` (2(n-1) steps), `tree` (binomial, 2 ceil(log2 n)) or `halving-doubling` (2 log2 n, and two
            more where n is no power of two).

    Raises:
        ValueError: an unknown algorithm, no rank, or a negative length.

    Paper: Thakur, Rabenseifner, Gropp, Optimization of Collective Communication Operations in MPICH, 2005.
    """
    check_choice("algorithm", algorithm, ALGORITHMS)
    return ALGORITHMS[algorithm](check_count("ranks", ranks), check_count("length", length, 0))


def _ring(n: int, length: int) -> Table:
    """Chunk c starts at rank c, collects a term at each of n-1 hops, and its sum goes round in n-1 more."""
    bounds = [c * length // n for c in range(n + 1)]

    def step(hop: int, adds: bool, offset: int) -> Step:
        chunks = [(r, (r + offset - hop) % n) for r in range(n)]
        return tuple(Transfer(r, (r + 1) % n, bounds[c], bounds[c + 1], adds) for r, c in chunks)

    reduce = tuple(step(hop, True, 0) for hop in range(n - 1))
    gather = tuple(step(hop, False, 1) for hop in range(n - 1))
    return reduce + gather


def _tree(n: int, length: int) -> Table:
    """A binomial tree: sums flow to rank 0, doubling the distance at each step, and the total flows back."""
    distances = [1 << k for k in range((n - 1).bit_length())]
    pairs = [[(low + d, low) for low in range(0, n - d, 2 * d)] for d in distances]
    reduce = tuple(tuple(Transfer(high, low, 0, length, True) for high, low in step) for step in pairs)
    spread = tuple(tuple(Transfer(low, high, 0, length, False) for high, low in step) for step in reversed(pairs))
    return reduce + spread


def _halving_doubling(n: int, length: int) -> Table:
    """Partners exchange halves, then quarters...: a reduce-scatter; the way back is an all-gather.

    The ranks beyond the largest power of two fold into the first ones before, and get the sum after.
    """
    power = 1 << (n.bit_length() - 1)
    extra = [(power + r, r) for r in range(n - power)]
    fold_in: Table = (tuple(Transfer(high, low, 0, length, True) for high, low in extra),) if extra else ()
    fold_out: Table = (tuple(Transfer(low, high, 0, length, False) for high, low in extra),) if extra else ()
    own = [(0, length)] * power
    halving, doubling, distance = [], [], power // 2
    while distance:
        kept = []
        for r, (first, last) in enumerate(own):
            middle = (first + last) // 2
            kept.append((middle, last) if r & distance else (first, middle))
        exchange = [(r, r ^ distance) for r in range(power)]
        halving.append(tuple(Transfer(r, other, *kept[other], True) for r, other in exchange))
        doubling.append(tuple(Transfer(r, other, *kept[r], False) for r, other in exchange))
        own, distance = kept, distance // 2
    return fold_in + tuple(halving) + tuple(reversed(doubling)) + fold_out


ALGORITHMS: dict[str, Callable[[int, int], Table]] = {
    "ring": _ring,
    "tree": _tree,
    "halving-doubling": _halving_doubling,
}
