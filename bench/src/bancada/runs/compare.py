"""Two runs put side by side: which cells became slower or faster from run A to run B, and how sure that is."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bancada import rows, runs
from bancada.rows import Row
from bancada.verdicts.comparisons import EDGE, Comparison, high_s, low_s, outcome_of

Key = tuple[str, str, str]
FAILED = ("incorrect", "out_of_memory", "timeout", "crashed")
COVERAGE = 0.98
"""The share of cells of unchanged code that must not be called slower or faster."""
FEWEST = 20
"""Fewer cells of unchanged code than this tell too little of how much two runs differ as wholes."""
USUAL_WIDENING = 2.5
"""The least factor then: recorded CPU sweeps of the same code, minutes to hours apart, needed 1.5 to 3.5."""
FARTHEST = 690.0
"""The largest logarithm of a ratio: a float holds no more."""
_ORDER = {"slower": 0, "open": 1, "tie": 2, "faster": 3}


@dataclass(frozen=True)
class Side:
    """One of the two runs: its name, its `run` row, its cells by suite, case and contender (the last of each)."""

    name: str
    head: Row
    cells: Mapping[Key, Row]
    problems: Sequence[str]

    @property
    def measured(self) -> dict[Key, Row]:
        """The cells with a time; what was only compiled has none."""
        return {key: row for key, row in self.cells.items() if row["status"] == "ok" and "time_s" in row}


@dataclass(frozen=True)
class Change:
    """A cell in both runs: time in B over time in A, with the interval and what it says of B."""

    before: Row
    after: Row
    times: Comparison


@dataclass(frozen=True)
class Compared:
    """What two runs say of each other.

    Args:
        a: the earlier of the two, by the order in which they were named.
        b: the other.
        changes: the cells that both have measured, the worst first.
        lost: cells that A has measured and B has not, with B's row (it failed, is unsupported there, or unstable).
        only_a: cells that B holds no row of.
        only_b: cells that A holds no row of.
        controls: cells whose code is the same in both runs.
        shift: the median ratio of their times, B over A: what changed was not the code.
        widening: by how much their intervals are wider than those within a run.
        across: whether the two machines differ.
    """

    a: Side
    b: Side
    changes: Sequence[Change]
    lost: Sequence[tuple[Row, Row]]
    only_a: Sequence[Row]
    only_b: Sequence[Row]
    controls: int
    shift: float
    widening: float
    across: bool

    def slower_than(self, limit: float) -> list[Change]:
        """Cells slower in B by more than `limit` (0.05: 5%) with their whole interval."""
        return [change for change in self.changes if change.times.low > 1 + limit]

    @property
    def broken(self) -> list[tuple[Row, Row]]:
        """Cells that A has measured and that failed in B: what has no time any more is not as fast as before."""
        return [(before, after) for before, after in self.lost if after["status"] in FAILED]


def side(path: Path) -> Side:
    """A run or a baseline, read from its file of rows."""
    read = rows.read(path)
    return Side(runs.name_of(path), rows.head(read.rows), cells_of(read.rows), read.problems)


def cells_of(found: Sequence[Row]) -> dict[Key, Row]:
    """The cells among rows by suite, case and contender, the last of each."""
    return {rows.cell_key(row): row for row in found if row["kind"] == "cell"}


def compare(a: Side, b: Side, across_machines: bool = False) -> Compared:
    """Every cell that both runs hold, B against A.

    Raises:
        ValueError: a run without a cell, two runs that share none, or runs of different machines (by device, cores and
            threads, not by clock) where `across_machines` does not say that this is meant.
    """
    for one in (a, b):
        if not one.cells:
            more = f" and {len(one.problems) - 1} more" if len(one.problems) > 1 else ""
            why = f" ({one.problems[0]}{more})" if one.problems else ""
            raise ValueError(f"run={one.name!r}: it holds no cell{why}, so there is nothing to compare")
    across = runs.identity(a.head) != runs.identity(b.head)
    if across and not across_machines:
        raise ValueError(
            f"{a.name} is of {runs.machine_words(a.head)}, {b.name} of {runs.machine_words(b.head)}: their times "
            "compare two machines, not two versions of the code; say --across-machines if that is what you want"
        )
    common = [key for key in a.cells if key in b.cells]
    if not common:
        raise ValueError(f"{a.name} and {b.name} share no cell: they measured other suites, cases or contenders")
    first, second = a.measured, b.measured
    both = [(first[key], second[key]) for key in common if key in first and key in second]
    same = [] if across else [pair for pair in both if unchanged(*pair)]
    factor = widening(same)
    changes = [Change(before, after, _times(before, after, factor)) for before, after in both]
    changes.sort(key=lambda change: (_ORDER[change.times.outcome], -change.times.ratio))
    return Compared(
        a,
        b,
        changes,
        lost=[(first[key], b.cells[key]) for key in common if key in first and key not in second],
        only_a=[row for key, row in a.cells.items() if key not in b.cells],
        only_b=[row for key, row in b.cells.items() if key not in a.cells],
        controls=len(same),
        shift=_exp(statistics.median(_log_ratio(*pair) for pair in same)) if same else 1.0,
        widening=factor,
        across=across,
    )


def unchanged(before: Row, after: Row) -> bool:
    """Whether a cell's code is the same in both runs: a peer's, with every library but this project at its version."""
    return before["origin"] == "peer" and _foreign(before["versions"]) == _foreign(after["versions"])


def _foreign(versions: str) -> set[str]:
    return {one for one in versions.split() if not one.startswith("bancada")}


def widening(same: Sequence[tuple[Row, Row]]) -> float:
    """How much wider than within a run an interval between two runs must be.

    Within a run contenders are raced in paired rounds; two runs are minutes or months apart, and nothing is paired.
    What disturbs a run for shorter than itself is in the interval of its median (bootstrapped over its rounds); the
    two half-widths, of logarithms, are added in squares, with 1% as the least. What differs between the runs as wholes
    (the hour, the neighbours, where memory lay) shows in the cells whose code is the same in both: together they are
    an A/A race of the two runs. The factor is the least that lets the intervals of 98% of them hold 1: the
    ceil(0.98 (n + 1))-th smallest |log ratio| / half-width, the largest where there are fewer; 1 at least. Of fewer
    than 20 it is twice the largest, 2.5 at least. On two recorded CPU sweeps without it 18% of 68 peers were called
    different; with it, learnt from half of them, 1.2% of the other half. Learnt from 4 to 7 peers on six more pairs of
    runs it let 10% pass, which is why it is doubled there: then 3%.
    """
    scores = sorted(abs(_log_ratio(*pair)) / _half_width(*pair) for pair in same)
    if not scores:
        return USUAL_WIDENING
    place = min(len(scores), math.ceil(COVERAGE * (len(scores) + 1)))
    return max(scores[place - 1], 1.0) if len(scores) >= FEWEST else max(2 * scores[-1], USUAL_WIDENING)


def _log_ratio(before: Row, after: Row) -> float:
    return math.log(after["time_s"]) - math.log(before["time_s"])  # the quotient may be more than a float holds


def _half_width(before: Row, after: Row) -> float:
    halves = ((math.log(high_s(row)) - math.log(low_s(row))) / 2 for row in (before, after))
    return math.hypot(*halves, math.log1p(EDGE))


def _times(before: Row, after: Row, factor: float) -> Comparison:
    middle, half = _log_ratio(before, after), factor * _half_width(before, after)
    low, ratio, high = (_exp(log) for log in (middle - half, middle, middle + half))
    return Comparison(ratio, low, high, outcome_of(low, high))


def _exp(log: float) -> float:
    return math.exp(min(max(log, -FARTHEST), FARTHEST))


def limit_of(text: str) -> float:
    """`5%` or `0.05` as 0.05; ValueError for anything that is no share of 0 or more."""
    number, percent = text.strip().removesuffix("%"), text.strip().endswith("%")
    try:
        value = float(number) / (100 if percent else 1)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf or (not percent and value >= 1):
        raise ValueError(f"fail-if-slower={text!r}: write a share, as 5% or 0.05")
    return value
