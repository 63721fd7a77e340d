"""Scores and masks, number by number: the oracle of `scores.py` and `masks.py`."""

from __future__ import annotations

import math


def wanda_scores_reference(weight: list[list[float]], inputs: list[list[float]]) -> list[list[float]]:
    """|w[i][j]| * sqrt(sum over tokens of x[t][j]^2)."""
    norms = [math.sqrt(sum(token[j] ** 2 for token in inputs)) for j in range(len(weight[0]))]
    return [[abs(w) * norm for w, norm in zip(row, norms, strict=True)] for row in weight]


def keep_reference(scores: list[float], removed: int) -> list[bool]:
    """False for the `removed` lowest scores; of equal ones, the first go first."""
    order = sorted(range(len(scores)), key=lambda i: (scores[i], i))
    gone = set(order[:removed])
    return [i not in gone for i in range(len(scores))]
