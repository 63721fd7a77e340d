"""Near-duplicates by exact Jaccard similarity of word shingles: no hashing, so none is missed by chance."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence, Set

from bancada.workloads.cleaning import words

SHINGLE = 3
THRESHOLD = 0.5

Shingles = frozenset[tuple[str, ...]]


def shingles(text: str, size: int = SHINGLE) -> Shingles:
    """The set of a text's runs of `size` words (in lower case, letters only); a shorter text is one shingle."""
    found = words(text)
    return frozenset(tuple(found[i : i + size]) for i in range(max(1, len(found) - size + 1)))


def jaccard(a: str, b: str, size: int = SHINGLE) -> float:
    """How much two texts share: |S_a & S_b| / |S_a | S_b|, S their shingles."""
    return _similarity(shingles(a, size), shingles(b, size))


def near_duplicates(texts: Sequence[str], threshold: float = THRESHOLD, size: int = SHINGLE) -> list[int | None]:
    """For each text the index of an earlier, kept one that it nearly repeats, or None where it is kept.

    `J(a, b) = |S_a & S_b| / |S_a | S_b| >= threshold`, S the shingles. The kept texts are pairwise below the threshold.
    Candidates come from prefix filtering, which is exact: with every set sorted rarest shingle first, two sets with
    J >= t share one among the first |S| - ceil(t |S|) + 1 of each.

    Args:
        texts: in order of precedence.
        threshold: in (0, 1].
        size: words a shingle, at least 1.

    Raises:
        ValueError: a threshold or a size out of range.

    Papers: Broder 1997 (shingles); Chaudhuri et al., ICDE 2006; Bayardo et al., WWW 2007 (prefix filtering);
    Lee et al. 2022, arXiv 2107.06499 (why language models need it).
    """
    if not 0 < threshold <= 1:
        raise ValueError(f"threshold is {threshold}, it must be above 0 and at most 1")
    if size < 1:
        raise ValueError(f"size is {size}, it must be at least 1")
    found = [shingles(text, size) for text in texts]
    counts = Counter(shingle for one in found for shingle in one)
    # Equally rare shingles come in any one order: it decides what is compared, and not what is found.
    rank = {shingle: index for index, shingle in enumerate(sorted(counts, key=counts.__getitem__))}
    once = list(counts.values()).count(1)  # those come first, and can join no two texts
    sets = [frozenset(rank[shingle] for shingle in one) for one in found]
    kept_with: dict[int, list[int]] = {}
    result: list[int | None] = []
    for index, one in enumerate(sets):
        # A whisker below, so that rounding cannot shorten a prefix: a longer one only costs comparisons.
        length = len(one) - math.ceil(threshold * len(one) - 1e-9) + 1
        prefix = [shingle for shingle in sorted(one)[:length] if shingle >= once]
        candidates = sorted({earlier for shingle in prefix for earlier in kept_with.get(shingle, ())})
        match = next((earlier for earlier in candidates if _similarity(one, sets[earlier]) >= threshold), None)
        result.append(match)
        if match is None:
            for shingle in prefix:
                kept_with.setdefault(shingle, []).append(index)
    return result


def _similarity(a: Set[object], b: Set[object]) -> float:
    common = len(a & b)
    return common / (len(a) + len(b) - common)
