"""What a suite says whose question is not time: who is not beaten in the figures that it weighs.

A is beaten where somebody is better in one of these figures and worse in none; figures within 1% are the same. The
reference is what all are put beside, and takes no place among them. A figure that a case's rows do not carry does not
count there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bancada.rows import Row
from bancada.verdicts.comparisons import MOST_CASES, SuiteRows
from bancada.verdicts.figures import SAME, say
from bancada.verdicts.outcomes import Kind, Said
from bancada.verdicts.phrases import below, names
from bancada.verdicts.regions import lower, reference

MOST_CASES_TOLD = 2
MOST_NAMES = 3
MOST_BESIDE = 3
Metric = Mapping[str, Any]


@dataclass(frozen=True)
class Weighing:
    """One case: the figures weighed there, and the rows of who carries all of them, the reference apart."""

    suite: SuiteRows
    case: str
    metrics: Sequence[Metric]
    rows: Mapping[str, Row]

    def ours(self, one: str) -> bool:
        """Whether a contender is ours."""
        return self.suite.entrants[one].ours

    def label(self, one: str) -> str:
        """A contender's name."""
        return self.suite.entrants[one].label

    def values(self, row: Row) -> str:
        """A row's figures."""
        return ", ".join(say(float(row[_key(metric)]), metric) for metric in self.metrics)

    def stood(self, a: str, b: str) -> set[int]:
        """How a stands against b in the figures."""
        return {_stands(metric, self.rows[a], self.rows[b]) for metric in self.metrics}

    def unbeaten(self) -> list[str]:
        """Those whom nobody beats, by the first figure, the best first."""
        first = self.metrics[0]
        sign = 1 if first["better"] == "lower" else -1
        kept = [a for a in self.rows if not any(self.stood(a, b) in ({1}, {0, 1}) for b in self.rows)]
        return sorted(kept, key=lambda one: sign * float(self.rows[one][_key(first)]))


def weighed(suite: SuiteRows) -> Said | None:
    """Who is not beaten in each case; None where no case has two contenders that carry a figure to weigh."""
    weighings = sorted(_weighings(suite), key=lambda one: -len(one.rows))
    if not weighings:
        return None
    fronts = [(one, one.unbeaten()) for one in weighings]
    first, front = fronts[0]
    clauses = [_unbeaten_clause(*pair) for pair in fronts[:MOST_CASES_TOLD]]
    if beside := _beside(first):
        clauses.insert(1, beside)
    clauses += below(len(fronts) - MOST_CASES_TOLD, "case")
    ours = next((one for one in front if first.ours(one)), "")
    clear = sum(len(found) == 1 for _, found in fronts) >= MOST_CASES * len(fronts)
    evidence = tuple(row["row_id"] for one in weighings for row in one.rows.values())
    headline = _headline(first, front, len(fronts) > 1)
    return Said(_kind(fronts), headline, tuple(clauses), clear, ours, evidence)


def _weighings(suite: SuiteRows) -> Iterator[Weighing]:
    """The cases in which two contenders carry the figures."""
    named = {str(metric["name"]): metric for metric in suite.metrics}
    declared = [named[name] for name in suite.weighs if name in named]
    for case in suite.cells:
        rows = {one: row for one in suite.ok(case) if not (row := suite.cells[case][one]).get("reference")}
        metrics = [metric for metric in declared if sum(_key(metric) in row for row in rows.values()) > 1]
        carrying = {one: row for one, row in rows.items() if metrics and all(_key(metric) in row for metric in metrics)}
        if len(carrying) > 1:
            yield Weighing(suite, case, metrics, carrying)


def _key(metric: Metric) -> str:
    return f"measure.{metric['name']}"


def _stands(metric: Metric, a: Row, b: Row) -> int:
    """-1 where a is better than b in a figure, 1 where it is worse, 0 where both are the same within 1%."""
    first, second = float(a[_key(metric)]), float(b[_key(metric)])
    if abs(first - second) <= SAME * max(abs(first), abs(second)):
        return 0
    return -1 if (first < second) == (metric["better"] == "lower") else 1


def _kind(fronts: Sequence[tuple[Weighing, Sequence[str]]]) -> Kind:
    """`win` where one of ours is not beaten and no peer is as good, `peer wins` where all of ours are beaten."""
    if all(weighing.ours(one) for weighing, _ in fronts for one in weighing.rows):
        return "only ours"
    found: set[Kind] = set()
    for weighing, front in fronts:
        peers = [one for one in weighing.rows if not weighing.ours(one)]
        mine = [one for one in front if weighing.ours(one)]
        alone = [one for one in mine if not any(weighing.stood(one, peer) == {0} for peer in peers)]
        found.add("win" if alone else "tie" if mine else "peer wins")
    return "win" if "win" in found else "peer wins" if found == {"peer wins"} else "tie"


def _headline(weighing: Weighing, front: Sequence[str], several: bool) -> str:
    place = f"at {weighing.case}, " if several else ""
    labels = [weighing.label(one) for one in front]
    if len(weighing.metrics) == 1:
        (metric,) = weighing.metrics
        level = " (level)" if len(front) > 1 else ""
        way = "Lowest" if metric["better"] == "lower" else "Highest"
        who = f"{names(labels, MOST_NAMES, ' or ')}{level}, {weighing.values(weighing.rows[front[0]])}"
        return f"{way} {lower(metric['title'])}: {place}{who}"
    titles = " together with ".join(lower(metric["title"]) for metric in weighing.metrics)
    return f"Not beaten in {titles}: {place}{names(labels, MOST_NAMES, '; ')}"


def _unbeaten_clause(weighing: Weighing, front: Sequence[str]) -> str:
    """Who is not beaten, with figures."""
    each = [f"{weighing.label(one)} ({weighing.values(weighing.rows[one])})" for one in front]
    plain = reference(weighing.suite)
    row = weighing.suite.cells[weighing.case][plain] if plain in weighing.suite.ok(weighing.case) else {}
    carries = all(_key(metric) in row for metric in weighing.metrics)
    beside = f", beside {weighing.label(plain)}'s {weighing.values(row)}" if carries else ""
    return f"At {weighing.case}, nobody beats {names(each, MOST_NAMES, ', ')}{beside}."


def _beside(weighing: Weighing) -> str:
    """Ours beside the peers of the same technique; '' where there are none."""
    pairs = [(one, peer) for one in weighing.rows if (peer := _peer(weighing, one))]
    told = [_against(weighing, *pair) for pair in pairs[:MOST_BESIDE]]
    return f"Beside the same technique of others: {'; '.join(told)}." if told else ""


def _peer(weighing: Weighing, one: str) -> str:
    """The peer of the same technique whose figures are nearest; '' for a peer, and where there is none."""
    if not weighing.ours(one):
        return ""
    mine = weighing.rows[one]

    def apart(peer: str) -> float:
        keys = [_key(metric) for metric in weighing.metrics]
        values = [(float(mine[key]), float(weighing.rows[peer][key])) for key in keys]
        return sum(abs(a - b) / max(abs(a), abs(b), 1e-300) for a, b in values)

    alike = [peer for peer, row in weighing.rows.items() if row["technique"] == mine["technique"]]
    return min((peer for peer in alike if not weighing.ours(peer)), key=apart, default="")


def _against(weighing: Weighing, one: str, peer: str) -> str:
    """`int4 (ours) against torchao int4, 0.78x its bytes of the model and 0.81x its KL`."""
    labels = weighing.label(one), weighing.label(peer)
    if weighing.stood(one, peer) == {0}:
        return f"{labels[0]} is level with {labels[1]}"
    told = [_apart(metric, weighing.rows[one], weighing.rows[peer]) for metric in weighing.metrics]
    return f"{labels[0]} against {labels[1]}, {' and '.join(told)}"


def _apart(metric: Metric, mine: Row, its: Row) -> str:
    a, b, title = float(mine[_key(metric)]), float(its[_key(metric)]), lower(metric["title"])
    if not _stands(metric, mine, its):
        return f"the same {title}"
    if metric.get("scale") == "log" and b:
        return f"{a / b:.2f}x its {title}"
    return f"{a - b:+.2g} {metric['unit']}".rstrip() + f" in {title}"
