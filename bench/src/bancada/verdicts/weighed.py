"""What a suite says whose question is not time: who is not beaten in the figures that it weighs.

A is beaten where somebody is better in one of these figures and worse in none; figures within 1% are the same. The
reference is what all are put beside, and takes no place among them. A figure that a case's rows do not carry does not
count there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bancada.rows import Row
from bancada.verdicts.comparisons import MOST_CASES, SuiteRows
from bancada.verdicts.figures import SAME, say
from bancada.verdicts.outcomes import Kind, Said

MOST_CASES_TOLD = 2
MOST_NAMES = 3
MOST_BESIDE = 3
Metric = Mapping[str, Any]


def weighed(suite: SuiteRows) -> Said | None:
    """Who is not beaten in each case; None where no case has two contenders that carry a figure to weigh."""
    cases = sorted(_judged(suite), key=lambda case: -len(_carrying(suite, case)))
    if not cases:
        return None
    first = cases[0]
    best = {case: _unbeaten(suite, case) for case in cases}
    clauses = [_unbeaten_clause(suite, case, best[case]) for case in cases[:MOST_CASES_TOLD]]
    if beside := _beside(suite, first):
        clauses.insert(1, beside)
    if more := len(cases) - MOST_CASES_TOLD:
        clauses += [f"{more} more {'case is' if more == 1 else 'cases are'} in the section below."] if more > 0 else []
    ours = next((one for one in best[first] if suite.entrants[one].ours), "")
    clear = sum(len(best[case]) == 1 for case in cases) >= MOST_CASES * len(cases)
    evidence = tuple(suite.cells[case][one]["row_id"] for case in cases for one in _carrying(suite, case))
    headline = _headline(suite, first, best[first], len(cases) > 1)
    return Said(_kind(suite, best), headline, tuple(clauses), clear, ours, evidence)


def _metrics(suite: SuiteRows, case: str) -> list[Metric]:
    """The figures to weigh that two contenders of this case carry, besides the reference."""
    named = {str(metric["name"]): metric for metric in suite.metrics}
    rows = [row for one in suite.ok(case) if not (row := suite.cells[case][one]).get("reference")]
    known = (named[name] for name in suite.weighs if name in named)
    return [metric for metric in known if sum(_key(metric) in row for row in rows) > 1]


def _key(metric: Metric) -> str:
    return f"measure.{metric['name']}"


def _carrying(suite: SuiteRows, case: str) -> list[str]:
    """The contenders of a case that carry every figure weighed there, the reference apart."""
    keys = [_key(metric) for metric in _metrics(suite, case)]
    rows = {one: suite.cells[case][one] for one in suite.ok(case)}
    return [one for one, row in rows.items() if keys and not row.get("reference") and all(key in row for key in keys)]


def _judged(suite: SuiteRows) -> Iterator[str]:
    return (case for case in suite.cells if len(_carrying(suite, case)) > 1)


def _stands(metric: Metric, a: Row, b: Row) -> int:
    """-1 where a is better than b in a figure, 1 where it is worse, 0 where both are the same within 1%."""
    first, second = float(a[_key(metric)]), float(b[_key(metric)])
    if abs(first - second) <= SAME * max(abs(first), abs(second)):
        return 0
    return -1 if (first < second) == (metric["better"] == "lower") else 1


def _stood(suite: SuiteRows, case: str, a: str, b: str) -> set[int]:
    """How a stands against b in the figures weighed."""
    rows = suite.cells[case]
    return {_stands(metric, rows[a], rows[b]) for metric in _metrics(suite, case)}


def _unbeaten(suite: SuiteRows, case: str) -> list[str]:
    """Those whom nobody beats, by the first figure, the best first."""
    names, (first, *_) = _carrying(suite, case), _metrics(suite, case)
    sign = 1 if first["better"] == "lower" else -1
    beaten = [a for a in names if any(_stood(suite, case, a, b) in ({1}, {0, 1}) for b in names)]
    kept = [a for a in names if a not in beaten]
    return sorted(kept, key=lambda one: sign * float(suite.cells[case][one][_key(first)]))


def _kind(suite: SuiteRows, best: Mapping[str, Sequence[str]]) -> Kind:
    """`win` where one of ours is not beaten and no peer is as good, `peer wins` where all of ours are beaten."""
    everybody = {case: _carrying(suite, case) for case in best}
    if all(suite.entrants[one].ours for names in everybody.values() for one in names):
        return "only ours"
    found: set[Kind] = set()
    for case, front in best.items():
        peers = [one for one in everybody[case] if not suite.entrants[one].ours]
        mine = [one for one in front if suite.entrants[one].ours]
        alone = [one for one in mine if not any(_stood(suite, case, one, peer) == {0} for peer in peers)]
        found.add("win" if alone else "tie" if mine else "peer wins")
    return "win" if "win" in found else "peer wins" if found == {"peer wins"} else "tie"


def _headline(suite: SuiteRows, case: str, front: Sequence[str], several: bool) -> str:
    metrics = _metrics(suite, case)
    place = f"at {case}, " if several else ""
    if len(metrics) == 1:
        level = " (level)" if len(front) > 1 else ""
        value = say(float(suite.cells[case][front[0]][_key(metrics[0])]), metrics[0])
        way = "Lowest" if metrics[0]["better"] == "lower" else "Highest"
        return f"{way} {_lowered(metrics[0]['title'])}: {place}{_names(suite, front, ' or ')}{level}, {value}"
    return f"Not beaten in {_titles(metrics)}: {place}{_names(suite, front, '; ')}"


def _lowered(title: str) -> str:
    """A small first letter, but in `KL`."""
    return title if title[1:2].isupper() else title[:1].lower() + title[1:]


def _titles(metrics: Sequence[Metric]) -> str:
    """`bytes of the model together with KL`."""
    return " together with ".join(_lowered(metric["title"]) for metric in metrics)


def _names(suite: SuiteRows, names: Sequence[str], joiner: str) -> str:
    labels = [suite.entrants[one].label for one in names]
    return joiner.join(labels[:MOST_NAMES]) + _more(labels)


def _more(names: Sequence[str]) -> str:
    return f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""


def _values(suite: SuiteRows, case: str, one: str) -> str:
    return ", ".join(say(float(suite.cells[case][one][_key(metric)]), metric) for metric in _metrics(suite, case))


def _unbeaten_clause(suite: SuiteRows, case: str, front: Sequence[str]) -> str:
    """Who is not beaten, with figures."""
    each = [f"{suite.entrants[one].label} ({_values(suite, case, one)})" for one in front[:MOST_NAMES]]
    reference = next((one for one in suite.ok(case) if suite.entrants[one].reference), "")
    carries = reference and all(_key(metric) in suite.cells[case][reference] for metric in _metrics(suite, case))
    beside = f", beside {suite.entrants[reference].label}'s {_values(suite, case, reference)}" if carries else ""
    return f"At {case}, nobody beats {', '.join(each)}{_more(front)}{beside}."


def _beside(suite: SuiteRows, case: str) -> str:
    """Ours beside the peers of the same technique; '' where there are none."""
    pairs = [(one, peer) for one in _carrying(suite, case) if (peer := _peer(suite, case, one))]
    told = [_against(suite, case, *pair) for pair in pairs[:MOST_BESIDE]]
    return f"Beside the same technique of others: {'; '.join(told)}." if told else ""


def _peer(suite: SuiteRows, case: str, one: str) -> str:
    """The peer of the same technique whose figures are nearest; '' for a peer, and where there is none."""
    mine, metrics = suite.cells[case][one], _metrics(suite, case)

    def apart(peer: str) -> float:
        values = [(float(mine[_key(m)]), float(suite.cells[case][peer][_key(m)])) for m in metrics]
        return sum(abs(a - b) / max(abs(a), abs(b), 1e-300) for a, b in values)

    peers = [p for p in _carrying(suite, case)
             if not suite.entrants[p].ours and suite.cells[case][p]["technique"] == mine["technique"]]  # fmt: skip
    return min(peers, key=apart, default="") if suite.entrants[one].ours else ""


def _against(suite: SuiteRows, case: str, one: str, peer: str) -> str:
    """`int8 (ours) has as much bytes of the model and 0.97x of the KL of torchao int8`."""
    metrics = _metrics(suite, case)
    names = suite.entrants[one].label, suite.entrants[peer].label
    if _stood(suite, case, one, peer) == {0}:
        return f"{names[0]} is level with {names[1]}"
    told = [_apart(metric, suite.cells[case][one], suite.cells[case][peer]) for metric in metrics]
    return f"{names[0]} against {names[1]}, {' and '.join(told)}"


def _apart(metric: Metric, mine: Row, its: Row) -> str:
    a, b, title = float(mine[_key(metric)]), float(its[_key(metric)]), _lowered(metric["title"])
    if not _stands(metric, mine, its):
        return f"the same {title}"
    if metric.get("scale") == "log" and b:
        return f"{a / b:.2f}x its {title}"
    return f"{a - b:+.2g} {metric['unit']}".rstrip() + f" in {title}"
