"""Several runs on one page: those of one machine become one, machines stand side by side.

Two machines, and two runs of one machine under other thread counts, are never drawn as one line. Runs of one machine
are one measurement in parts: of a cell that several hold the newest row counts. Comparisons are kept where both cells
come from the run in which they were raced; elsewhere two intervals are all that is known, and the page says so.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from bancada.report.load import Loaded, latest, merged_catalogue
from bancada.rows import Row, cell_key
from bancada.runs import identity

OF_RUN = "of_run"
"""The field of a joined row that names the run it was measured in, where that is not the newest."""
_ONCE = ("run", "end")


def by_machine(runs: Sequence[Loaded]) -> list[Loaded]:
    """One run a machine, in the order in which the machines first come; a run without a head stays alone."""
    groups: dict[Any, list[Loaded]] = {}
    for number, run in enumerate(runs):
        groups.setdefault(identity(run.head) if run.head else number, []).append(run)
    joined: list[Loaded] = []
    for group in groups.values():
        one = _one(sorted(group, key=lambda run: str(run.head.get("time", ""))))
        taken = {other.name for other in joined}
        joined.append(_renamed(one, taken) if one.name in taken else one)
    return joined


def _renamed(run: Loaded, taken: Collection[str]) -> Loaded:
    """A run whose name another machine's has too, under a name of its own."""
    name = next(name for number in itertools.count(2) if (name := f"{run.name} ({number})") not in taken)
    return dataclasses.replace(run, rows=[{OF_RUN: run.name} | row | {"run": name} for row in run.rows])


def _one(group: Sequence[Loaded]) -> Loaded:
    """Runs of one machine, the oldest first, as one of the newest's name."""
    if len(group) == 1:
        return group[0]
    newest = group[-1]
    owner = {cell_key(row): run.name for run in group for row in run.rows if row["kind"] == "cell"}
    rows: list[Row] = []
    for run in group:
        kept = [
            row for row in run.rows if _stays(row, run.name, owner) and not (row["kind"] in _ONCE and run != newest)
        ]
        rows += kept if run is newest else [row | {"run": newest.name, OF_RUN: run.name} for row in kept]
    return dataclasses.replace(
        newest,
        rows=latest(rows),
        plan=newest.plan | {"cells": list(_planned(group))},
        catalogue=merged_catalogue(group[::-1]),
        problems=[f"{run.name}: {problem}" for run in group for problem in run.problems],
    )


def _stays(row: Row, run: str, owner: dict[tuple[Any, ...], str]) -> bool:
    """Whether a row tells of cells that this run is the newest to hold."""
    if row["kind"] in ("cell", "curve", "trial"):
        return owner.get(cell_key(row), run) == run
    if row["kind"] in ("pair", "contrast"):
        both = [(row["suite"], row["case"], row[end]) for end in ("a", "b")]
        return all(owner.get(one, run) == run for one in both)
    return True


def _planned(group: Sequence[Loaded]) -> Iterator[dict[str, Any]]:
    """The planned cells of all, each case once with everybody's contenders; the newest run's come first."""
    cases: dict[tuple[str, str], dict[str, Any]] = {}
    for run in reversed(group):
        for cell in run.plan.get("cells", ()):
            known = cases.setdefault((cell["suite"], cell["case"]), cell | {"contenders": []})
            known["contenders"] = list(dict.fromkeys([*known["contenders"], *cell["contenders"]]))
    yield from cases.values()
