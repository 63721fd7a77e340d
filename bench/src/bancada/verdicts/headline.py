"""Who is fastest where, in one line: by size, or by the axis that sets another task at each of its values."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from bancada.verdicts import regions
from bancada.verdicts.comparisons import SuiteRows, joint
from bancada.verdicts.phrases import names
from bancada.verdicts.regions import cases_at, lower, where

MOST_RUNS, MOST_NAMES = 3, 3
MOST_SHOWN = 4
Runs = list[tuple[tuple[str, ...], list[Any]]]
"""Sizes side by side at which the same are fastest; nobody, where that depends on the case."""


def headline(suite: SuiteRows) -> str:
    """`Fastest: at 128 tokens, torch SDPA; at 256 tokens and more, flash (tiled)`."""
    runs = _runs(suite)
    if not all(holders for holders, _ in runs) and (by_axis := _by_axis(suite)):
        return f"Fastest: {by_axis}"
    names = [_named(suite, holders, xs) for holders, xs in runs]
    if len(runs) == 1:
        return f"Fastest: {names[0]}"
    if len(runs) > MOST_RUNS:
        return f"Fastest: it changes with size; {lower(where(suite, runs[-1][1]))}, {names[-1]}"
    return "Fastest: " + "; ".join(
        f"{lower(where(suite, xs))}, {name}" for name, (_, xs) in zip(names, runs, strict=True)
    )


def _runs(suite: SuiteRows) -> Runs:
    runs: Runs = []
    for x in suite.xs():
        if not any(suite.ok(case) for case in cases_at(suite, [x])):
            continue
        holders = regions.holders(suite, x)
        if runs and runs[-1][0] == holders:
            runs[-1][1].append(x)
        else:
            runs.append((holders, [x]))
    return runs


def _by_axis(suite: SuiteRows) -> str:
    """`with rule adamw, AdamW or torch AdamW (level); with rule lion, Lion`; '' where no axis makes it clear."""
    for name, groups in regions.splits(suite, list(suite.cells), regions.MOST_VALUES):
        alike: dict[str, list[str]] = {}
        for value, cases in groups.items():
            if runs := _runs(part := suite.only(cases)):
                alike.setdefault(_at_the_end(part, runs), []).append(regions.with_axis(name, value))
        if len(alike) < 2 or "" in alike:
            continue
        said = [f"with {' or '.join(values)}, {text}" for text, values in alike.items()]
        more = [f"{len(said) - MOST_SHOWN} more below"] if len(said) > MOST_SHOWN else []
        return "; ".join(said[:MOST_SHOWN] + more)
    return ""


def _at_the_end(suite: SuiteRows, runs: Runs) -> str:
    """Who is fastest at the largest sizes, which are named where others are at the smaller ones; '' for nobody."""
    holders, xs = runs[-1]
    if not holders:
        return ""
    return _named(suite, holders, xs) if len(runs) == 1 else f"{lower(where(suite, xs))}, {_named(suite, holders, xs)}"


def _named(suite: SuiteRows, holders: Sequence[str], xs: Sequence[Any]) -> str:
    """Who is fastest at these sizes; where it is several, whether they are level or nothing is decided among them."""
    if not holders:
        return "it depends on the case"
    cases = cases_at(suite, xs)
    said = {joint(suite.common(a, b, cases)) for a, b in itertools.combinations(holders, 2)}
    labels = [suite.entrants[holder].label for holder in holders]
    if len(holders) > MOST_NAMES:
        few = names(labels, MOST_NAMES, "; ")
        return f"{few} (level)" if said == {"tie"} else f"not decided between {few}"
    word = "" if len(holders) < 2 else " (level)" if said == {"tie"} else " (not decided)"
    return " or ".join(labels) + word
