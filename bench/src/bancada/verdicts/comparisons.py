"""Rows put side by side: who ran what in a suite, and how two contenders compare over the cases both ran.

Pure functions over the rows of `bancada.rows`; nothing here measures, draws or writes.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from bancada.rows import Row

Outcome = Literal["faster", "slower", "tie", "open", "mixed"]
"""Of one case `faster`, `slower`, `tie` (level) or `open` (not decided); of several cases also `mixed`."""
Worth = Literal["better", "worse", "too close to call"]
EDGE = 0.01
"""A difference counts where its interval lies wholly above 1 + this or below 1 / (1 + this), as `stats.BAND` has it."""
WORTH_NAMING = 1.05
"""Two are level where the interval excludes a difference as large as this; where it does not, nothing is decided."""
MOST_CASES = 2 / 3
FLUKES = 0.05
"""A contender holds a size where it leads in `MOST_CASES` of its cases, and another leads in `FLUKES` at most."""
_WORDS: dict[str, Outcome] = {"faster": "faster", "slower": "slower"}


@dataclass(frozen=True)
class Mean:
    """A geometric mean of ratios with its interval, the number of cases in it, and their extremes."""

    value: float
    low: float
    high: float
    cases: int
    least: float
    most: float

    @property
    def outcome(self) -> Outcome:
        """What the mean of time(a)/time(b) says about a."""
        return outcome_of(self.low, self.high)

    def inverse(self) -> Mean:
        """The same, of b against a."""
        return Mean(1 / self.value, 1 / self.high, 1 / self.low, self.cases, 1 / self.most, 1 / self.least)


@dataclass(frozen=True)
class Comparison:
    """time(a)/time(b) of one case, with its interval; `rounds` is 0 where only the two single times are known."""

    ratio: float
    low: float
    high: float
    outcome: Outcome
    rounds: int = 0


def outcome_of(low: float, high: float) -> Outcome:
    """What the interval of a ratio time(a)/time(b) says of a."""
    return "faster" if high < 1 / (1 + EDGE) else "slower" if low > 1 + EDGE else _undecided(low, high)


def said_of(pair: Row) -> Outcome:
    """What the row of a comparison says of its a: by its verdict, and where that is open by its interval."""
    return _WORDS.get(pair["verdict"]) or _undecided(pair["low"], pair["high"])


def _undecided(low: float, high: float) -> Outcome:
    """Level, or not even that: an interval that reaches far has shown nothing."""
    return "tie" if low > 1 / WORTH_NAMING and high < WORTH_NAMING else "open"


def geometric_mean(comparisons: Sequence[Comparison]) -> Mean | None:
    """exp(mean log ratio) over the given cases, or None without any.

    The interval carries the noise of measuring these very cases (half-widths of the logarithms, added in
    squares); how the cases differ from one another is told by `least` and `most`.
    """
    if not comparisons:
        return None
    logs = [math.log(c.ratio) for c in comparisons]
    middle, number = math.fsum(logs) / len(logs), len(logs)
    below = math.hypot(*(math.log(c.ratio / c.low) for c in comparisons)) / number
    above = math.hypot(*(math.log(c.high / c.ratio) for c in comparisons)) / number
    ends = math.exp(middle - below), math.exp(middle + above)
    return Mean(math.exp(middle), *ends, number, math.exp(min(logs)), math.exp(max(logs)))


@dataclass(frozen=True)
class Entrant:
    """What the report needs to know of a contender."""

    id: str
    label: str
    ours: bool
    reference: bool


@dataclass(frozen=True)
class Contrast:
    """outcome(a) - outcome(b) of one case over its seeds, with its interval, and what that says of a."""

    difference: float
    low: float
    high: float
    verdict: Worth
    seeds: int


@dataclass
class SuiteRows:
    """All the rows of one suite on one device in one run.

    `cells[case][contender]` is a cell row, `axes[case]` the values that all of the case's rows share, and
    `pairs[case, a, b]` compares the times of a and b, `contrasts[case, measure, a, b]` their outcomes (both orders
    are there); `planned` counts the cells the plan names, `metrics` are the suite's own figures as declared,
    `configuration` the axes among whose values a compile suite lets choose,
    `weighs` the names of the figures that decide in place of time.
    """

    id: str
    run: str
    device: str
    device_name: str
    title: str
    family: str
    x_axis: str
    unit: str
    entrants: dict[str, Entrant]
    cells: dict[str, dict[str, Row]] = field(default_factory=dict)
    axes: dict[str, dict[str, Any]] = field(default_factory=dict)
    pairs: dict[tuple[str, str, str], Comparison] = field(default_factory=dict)
    planned: int = 0
    kind: str = "kernel"
    metrics: tuple[Mapping[str, Any], ...] = ()
    configuration: tuple[str, ...] = ()
    weighs: tuple[str, ...] = ()
    contrasts: dict[tuple[str, str, str, str], Contrast] = field(default_factory=dict)

    def ok(self, case: str) -> list[str]:
        """The contenders that were measured at this case; what was compiled alone was not."""
        return [one for one, row in self.cells.get(case, {}).items() if _timed(row)]

    def x(self, case: str) -> Any:
        """Its value on the axis that matters; None where the rows lack it."""
        return self.axes[case].get(self.x_axis)

    def xs(self, cases: Iterable[str] | None = None) -> list[Any]:
        """The values of that axis, in order."""
        return in_order({self.x(case) for case in (self.cells if cases is None else cases)})

    def compare(self, case: str, a: str, b: str) -> Comparison | None:
        """a against b at one case: their paired rounds, or else the two intervals; None unless both were measured."""
        first, second = self.cells[case].get(a, {}), self.cells[case].get(b, {})
        if not (_timed(first) and _timed(second)):
            return None
        if (found := self.pairs.get((case, a, b))) is not None:
            return found
        low, high = low_s(first) / high_s(second), high_s(first) / low_s(second)
        return Comparison(first["time_s"] / second["time_s"], low, high, outcome_of(low, high))

    def common(self, a: str, b: str, cases: Iterable[str] | None = None) -> list[Comparison]:
        """a against b at every case, of those given, where both were measured."""
        found = (self.compare(case, a, b) for case in (self.cells if cases is None else cases))
        return [comparison for comparison in found if comparison is not None]

    def unbeaten(self, case: str) -> list[str]:
        """The measured contenders that no other beats at this case."""
        ok = self.ok(case)
        return [a for a in ok if not any(a != b and self._loses(case, a, b) for b in ok)]

    def _loses(self, case: str, a: str, b: str) -> bool:
        comparison = self.compare(case, a, b)
        return comparison is not None and comparison.outcome == "slower"

    def only(self, cases: Iterable[str]) -> SuiteRows:
        """The same suite with these cases alone."""
        kept = set(cases)
        return dataclasses.replace(self, cells={case: row for case, row in self.cells.items() if case in kept})


def _timed(row: Row) -> bool:
    return row.get("status") == "ok" and "time_s" in row


def joint(comparisons: Sequence[Comparison]) -> Outcome | None:
    """What several cases say together; None without any."""
    if not comparisons:
        return None
    counted = Counter(comparison.outcome for comparison in comparisons)
    most, few = MOST_CASES * len(comparisons), FLUKES * len(comparisons)
    if counted["faster"] >= most and counted["slower"] <= few:
        return "faster"
    if counted["slower"] >= most and counted["faster"] <= few:
        return "slower"
    if counted["tie"] >= most:
        return "tie"
    return "open" if counted["tie"] + counted["open"] >= most else "mixed"


def low_s(row: Row) -> float:
    """The lower end of a measured cell's time."""
    return float(row["time_low_s"] if "time_low_s" in row else row["time_s"])


def high_s(row: Row) -> float:
    """The upper end."""
    return float(row["time_high_s"] if "time_high_s" in row else row["time_s"])


def axes_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """The `axis.*` fields of a row."""
    return {name.removeprefix("axis."): value for name, value in row.items() if name.startswith("axis.")}


def in_order(values: Iterable[Any]) -> list[Any]:
    """Numbers by size, then words by the alphabet, then what is missing."""

    def key(value: Any) -> tuple[bool, bool, float, str]:
        return value is None, isinstance(value, str), value if isinstance(value, (int, float)) else 0, str(value)

    return sorted(values, key=key)


def suites(rows: Iterable[Row], plan: Mapping[str, Any], catalogue: Mapping[str, Any]) -> list[SuiteRows]:
    """The rows by suite and device, in the catalogue's order; suites the catalogue does not know come last."""
    known = {suite["id"]: suite for suite in catalogue.get("suites", ())}
    found: dict[tuple[str, str, str], SuiteRows] = {}
    kept = list(rows)
    for row in kept:
        if row["kind"] == "cell":
            key = row["run"], row["device"], row["suite"]
            suite = found.setdefault(key, _empty(row, known.get(row["suite"], {})))
            if row["case"] not in suite.cells:
                suite.cells[row["case"]], suite.axes[row["case"]] = {}, axes_of(row)
            suite.cells[row["case"]][row["contender"]] = row
            suite.entrants.setdefault(row["contender"], _entrant_of(row))
    for row in kept:
        if row["kind"] == "pair" and (owner := found.get((row["run"], row["device"], row["suite"]))) is not None:
            _add_pair(owner, row)
        if row["kind"] == "contrast" and (owner := found.get((row["run"], row["device"], row["suite"]))) is not None:
            _add_contrast(owner, row)
    for suite in found.values():
        suite.planned = sum(len(c["contenders"]) for c in plan.get("cells", ()) if c["suite"] == suite.id)
        if not suite.x_axis:
            suite.x_axis = _likely_x(suite)
    place = {suite_id: number for number, suite_id in enumerate(known)}
    return sorted(found.values(), key=lambda s: (place.get(s.id, len(place)), s.id, s.device_name, s.run))


def _empty(row: Row, known: Mapping[str, Any]) -> SuiteRows:
    x_axis = str(known.get("x_axis", ""))
    unit = next((str(axis.get("unit", "")) for axis in known.get("axes", ()) if axis["name"] == x_axis), "")
    entrants = {
        c["id"]: Entrant(c["id"], c.get("label") or c["id"], c.get("origin") == "bancada", bool(c.get("reference")))
        for c in known.get("contenders", ())
    }
    title = str(known.get("title") or row["suite"])
    place = row["run"], row["device"], row["device_name"]
    kind, metrics = str(known.get("kind", "kernel")), tuple(known.get("metrics", ()))
    found = SuiteRows(row["suite"], *place, title, row["family"], x_axis, unit, entrants, kind=kind, metrics=metrics)
    found.configuration, found.weighs = tuple(known.get("configuration", ())), tuple(known.get("weighs", ()))
    return found


def _entrant_of(row: Row) -> Entrant:
    label = row.get("label") or row["contender"]
    return Entrant(row["contender"], label, row["origin"] == "bancada", bool(row.get("reference")))


def _add_pair(suite: SuiteRows, row: Row) -> None:
    case, a, b = row["case"], row["a"], row["b"]
    turned: dict[Outcome, Outcome] = {"faster": "slower", "slower": "faster"}
    ratio, low, high, rounds = row["ratio"], row["low"], row["high"], row["rounds"]
    outcome = said_of(row)
    suite.pairs[case, a, b] = Comparison(ratio, low, high, outcome, rounds)
    suite.pairs[case, b, a] = Comparison(1 / ratio, 1 / high, 1 / low, turned.get(outcome, outcome), rounds)


def _add_contrast(suite: SuiteRows, row: Row) -> None:
    verdict, case, measure, a, b = row["verdict"], row["case"], row["measure"], row["a"], row["b"]
    turned: dict[str, Worth] = {"better": "worse", "worse": "better"}
    difference, low, high, seeds = row["difference"], row["low"], row["high"], row["seeds"]
    suite.contrasts[case, measure, a, b] = Contrast(difference, low, high, verdict, seeds)
    suite.contrasts[case, measure, b, a] = Contrast(
        -difference, -high, -low, turned.get(verdict, "too close to call"), seeds
    )


def _likely_x(suite: SuiteRows) -> str:
    """Without a catalogue: the number axis with the most values."""
    values: dict[str, set[Any]] = {}
    for case in suite.cells:
        for name, value in suite.axes[case].items():
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                values.setdefault(name, set()).add(value)
    return max(values, key=lambda name: len(values[name]), default="")
