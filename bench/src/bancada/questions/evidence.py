"""The rows of one run on one device, as questions look at them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bancada.rows import Row
from bancada.verdicts.comparisons import SuiteRows, in_order, suites


class Lacking(KeyError):
    """A row does not carry what a question needs of it: there is no sentence without it."""


class Whole(dict[str, Any]):
    """A row, or the axes of a case: what it lacks is asked for in vain, and ends the answer that needs it."""

    def __missing__(self, name: str) -> Any:
        raise Lacking(name)


@dataclass(frozen=True)
class Evidence:
    """Everything a question may look at.

    Args:
        run, device: whose rows they are.
        suites: the suites that have cell rows, by id.
        compiles: (suite, contender) of all whose first call compiles.
        ceilings: the best matrix product by dtype, in operations a second.
    """

    run: str
    device: str
    suites: Mapping[str, SuiteRows]
    compiles: frozenset[tuple[str, str]] = frozenset()
    ceilings: Mapping[str, float] = field(default_factory=dict)

    def suite(self, name: str) -> SuiteRows | None:
        """The rows of a suite; None where nothing of it was measured."""
        found = self.suites.get(name)
        return found if found is not None and any(found.ok(case) for case in found.cells) else None

    def suites_of(self, rows: Iterable[str]) -> tuple[str, ...]:
        """The ids of the suites that these rows are of."""
        named = set(rows)
        return tuple(
            name
            for name, suite in self.suites.items()
            if any(row["row_id"] in named for case in suite.cells.values() for row in case.values())
        )


def gather(rows: Sequence[Row], plan: Mapping[str, Any], catalogue: Mapping[str, Any]) -> list[Evidence]:
    """The evidence of each run and device among rows."""
    compiles = frozenset(
        (suite["id"], contender["id"])
        for suite in catalogue.get("suites", ())
        for contender in suite.get("contenders", ())
        if contender.get("compiles")
    )
    by_place: dict[tuple[str, str, str], dict[str, SuiteRows]] = {}
    for suite in suites(map(Whole, rows), plan, catalogue):
        suite.axes = {case: Whole(axes) for case, axes in suite.axes.items()}
        by_place.setdefault((suite.run, suite.device, suite.device_name), {})[suite.id] = suite
    found = []
    for (run, device, name), inside in by_place.items():
        ceilings: dict[str, float] = {}
        for row in rows:
            if row["kind"] == "ceiling" and row["name"] == "matmul" and (row["run"], row["device"]) == (run, device):
                ceilings[row["dtype"]] = max(float(row["value"]), ceilings.get(row["dtype"], 0.0))
        found.append(Evidence(run, name, inside, compiles, ceilings))
    return found


Slice = dict[Any, str]
"""Cases that differ in one axis alone, by its value, in order."""


def slices(suite: SuiteRows, axis: str, keep: Callable[[str], bool] = lambda case: True) -> list[Slice]:
    """The cases by all axes but one: those with most values of it first, then those with most contenders measured."""
    groups: dict[tuple[Any, ...], Slice] = {}
    for case in suite.cells:
        if axis in suite.axes[case] and suite.ok(case) and keep(case):
            rest = tuple(str(value) for name, value in suite.axes[case].items() if name != axis)
            groups.setdefault(rest, {})[suite.axes[case][axis]] = case
    ordered = [{x: group[x] for x in in_order(group)} for group in groups.values()]
    return sorted(ordered, key=lambda group: (-len(group), -sum(len(suite.ok(case)) for case in group.values())))


def both(suite: SuiteRows, group: Slice, a: str, b: str) -> Slice:
    """The part of a slice where both contenders were measured."""
    return {x: case for x, case in group.items() if a in suite.ok(case) and b in suite.ok(case)}


def decided(suite: SuiteRows, group: Slice, a: str, b: str) -> Slice:
    """The part of a slice where a against b is decided; all of it where that is nowhere so."""
    found = {x: case for x, case in group.items() if (one := suite.compare(case, a, b)) and one.outcome != "open"}
    return found or group


def figures(rows: Sequence[Row], name: str) -> list[float]:
    """A figure of each of these rows, where all of them carry it and it is not 0; else nothing."""
    found = [float(value) for row in rows if (value := row.get(name))]
    return found if len(found) == len(rows) else []


def row_ids(suite: SuiteRows, cases: Iterable[str], contenders: Iterable[str]) -> tuple[str, ...]:
    """The ids of the measured rows of these contenders at these cases."""
    named = set(contenders)
    return tuple(str(suite.cells[case][one]["row_id"]) for case in cases for one in suite.ok(case) if one in named)
