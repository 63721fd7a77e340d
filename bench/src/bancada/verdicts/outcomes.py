"""What training runs say, in sentences: quality with its price."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from bancada.verdicts.comparisons import MOST_CASES, Contrast, SuiteRows
from bancada.verdicts.figures import say
from bancada.verdicts.phrases import below
from bancada.verdicts.regions import lower

Kind = Literal["win", "tie", "not decided", "peer wins", "only ours", "no data", "compiled"]
MOST_CLAUSES = 3
MOST_NAMES = 3
LEVEL = 0.01
"""Two outcomes are level where the interval of their difference lies within this share of either."""


@dataclass(frozen=True)
class Said:
    """The parts of a verdict: see `bancada.verdicts.Verdict`."""

    kind: Kind
    headline: str
    clauses: tuple[str, ...]
    clear: bool
    ours: str
    evidence: tuple[str, ...]


def training(suite: SuiteRows) -> Said | None:
    """Who learns best in each case, at what price; None where no case has two contenders to compare."""
    cases = [case for case in suite.cells if len(_finals(suite, case)) > 1]
    if not cases:
        return None
    best = {case: _unbeaten(suite, case) for case in cases}
    alone = Counter(winners[0] for winners in best.values() if len(winners) == 1)
    ours = {case: _best(suite, case, ours=True) for case in cases}
    clauses = [_training_clause(suite, case, ours[case]) for case in cases[:MOST_CLAUSES]]
    clauses += below(len(cases) - MOST_CLAUSES, "case")
    first = next((one for one in ours.values() if one), "")
    evidence = tuple(suite.cells[case][one]["row_id"] for case in cases for one in _finals(suite, case))
    clear = max(alone.values(), default=0) >= MOST_CASES * len(cases)
    return Said(_training_kind(suite, ours), _training_headline(suite, best), tuple(clauses), clear, first, evidence)


def _metric(suite: SuiteRows) -> Mapping[str, Any]:
    return suite.metrics[0] if suite.metrics else {"name": "loss", "title": "loss", "better": "lower", "unit": ""}


def _final(suite: SuiteRows) -> str:
    return f"measure.final.{_metric(suite)['name']}"


def _finals(suite: SuiteRows, case: str) -> list[str]:
    """The contenders measured at a case that have a final value, the best first."""
    name, sign = _final(suite), 1 if _metric(suite)["better"] == "lower" else -1
    ok = [one for one in suite.ok(case) if name in suite.cells[case][one]]
    return sorted(ok, key=lambda one: sign * float(suite.cells[case][one][name]))


def _contrast(suite: SuiteRows, case: str, a: str, b: str) -> Contrast | None:
    """Final values of the judged metric, a against b."""
    return suite.contrasts.get((case, f"final.{_metric(suite)['name']}", a, b))


def _beats(suite: SuiteRows, case: str, a: str, b: str) -> bool:
    found = _contrast(suite, case, a, b)
    return found is not None and found.verdict == "better"


def level(found: Contrast, size: float) -> bool:
    """Whether two outcomes of about this size are as good as equal: more than that nobody has told them apart."""
    return max(abs(found.low), abs(found.high)) <= LEVEL * abs(size)


def _level(suite: SuiteRows, case: str, a: str, b: str) -> bool:
    found = _contrast(suite, case, a, b)
    return found is not None and level(found, float(suite.cells[case][a][_final(suite)]))


def _all_level(suite: SuiteRows, case: str, names: Sequence[str]) -> bool:
    return all(_level(suite, case, a, b) for a in names for b in names if a != b)


def _unbeaten(suite: SuiteRows, case: str) -> list[str]:
    ranked = _finals(suite, case)
    return [a for a in ranked if not any(_beats(suite, case, b, a) for b in ranked if b != a)]


def _best(suite: SuiteRows, case: str, ours: bool) -> str:
    """The best of ours, or of the peers, that is not the reference; '' where there is none."""
    entrants = suite.entrants
    return next((a for a in _finals(suite, case) if entrants[a].ours == ours and not entrants[a].reference), "")


def _training_kind(suite: SuiteRows, ours: Mapping[str, str]) -> Kind:
    """`win` where at some case the best of ours beats every other's, `peer wins` where it is beaten at every case."""
    judged = []
    for case, mine in ours.items():
        others = [one for one in _finals(suite, case) if not suite.entrants[one].ours]
        if mine and others:
            rivals = [other for other in others if not _beats(suite, case, mine, other)]
            if not rivals:
                judged.append("win")
            elif any(_beats(suite, case, other, mine) for other in rivals):
                judged.append("loses")
            else:
                judged.append("tie" if all(_level(suite, case, mine, other) for other in rivals) else "not decided")
    if not judged:
        return "no data"
    if set(judged) == {"loses"}:
        return "peer wins"
    return "win" if "win" in judged else "tie" if set(judged) == {"tie"} else "not decided"


def _training_headline(suite: SuiteRows, best: Mapping[str, Sequence[str]]) -> str:
    title = lower(str(_metric(suite)["title"]))
    parts = []
    for case, winners in list(best.items())[:MOST_CLAUSES]:
        names = [suite.entrants[one].label for one in winners]
        word = "" if len(names) < 2 else "level" if _all_level(suite, case, winners) else "not decided"
        who = " or ".join(names) + (f" ({word})" if word else "")
        if len(names) > MOST_NAMES:
            who = f"{len(names)} are level" if word == "level" else f"not decided between {len(names)}"
        parts.append(f"{_where(suite, case)}{who}" if len(best) > 1 else who)
    return f"Best {title}: {'; '.join(parts)}"


def _where(suite: SuiteRows, case: str) -> str:
    """The axis values that tell a case from the suite's others, as `task digits: `; one is enough where it differs."""
    every = {name: {str(axes.get(name)) for axes in suite.axes.values()} for name in suite.axes[case]}
    told = [name for name, values in every.items() if len(values) > 1]
    alone = [name for name in told if len(every[name]) == len(suite.axes)]
    return f"{', '.join(f'{name} {suite.axes[case][name]}' for name in alone[:1] or told)}: " if told else ""


def _training_clause(suite: SuiteRows, case: str, ours: str) -> str:
    """`After 200 updates, Muon reaches a loss of 3.41 [3.39, 3.43], 0.12 [0.10, 0.14] better than ...`."""
    cells, metric = suite.cells[case], _metric(suite)
    mine = ours or _finals(suite, case)[0]
    place = _where(suite, case)
    row = cells[mine]
    budget = f"after {row['measure.updates']:,.0f} updates, " if "measure.updates" in row else ""
    value, low, high = (row.get(f"{_final(suite)}{end}") for end in ("", ".low", ".high"))
    value = spread(value, low, high, unit=_unit(metric))
    text = f"{place}{budget}{suite.entrants[mine].label} reaches {_title(metric)} of {value}"
    reference = next((one for one in cells if suite.entrants[one].reference and one in suite.ok(case)), "")
    peer = _best(suite, case, ours=False)
    others = dict.fromkeys(one for one in (reference, peer) if one and one != mine)
    if others:
        text += ": " + ", ".join(_against(suite, case, mine, other) for other in others)
    text += "." + _other_figures(suite, case, mine, reference or peer) + _targets(suite, case, mine, reference or peer)
    return text[0].upper() + text[1:] + ("" if ours else " Nothing of ours was measured here.")


def _title(metric: Mapping[str, Any]) -> str:
    title = lower(str(metric["title"]))
    return f"{'an' if title[0].lower() in 'aeiou' else 'a'} {title}"


def _unit(metric: Mapping[str, Any]) -> str:
    return str(metric.get("unit", ""))


def _against(suite: SuiteRows, case: str, mine: str, other: str) -> str:
    """`0.12 [0.10, 0.14] better than torch AdamW (1.4x its time an update)`."""
    label = suite.entrants[other].label
    found = _contrast(suite, case, mine, other)
    size = float(suite.cells[case][mine][_final(suite)])
    unit = _unit(_metric(suite))
    said = f"not compared with {label}" if found is None else difference(found, label, size, unit)
    times = suite.compare(case, mine, other)
    return said + (f" ({times.ratio:.2f}x its time an update)" if times is not None else "")


def difference(found: Contrast, label: str, size: float, unit: str = "") -> str:
    """`0.12 [0.10, 0.14] nats better than torch AdamW`, where the outcomes themselves are of about this `size`."""
    if found.verdict == "too close to call":
        word = "level with" if level(found, size) else "not decided against"
        return f"{word} {label}, {spread(found.difference, found.low, found.high, '+', unit)}"
    ends = sorted((abs(found.low), abs(found.high)))
    return f"{spread(abs(found.difference), ends[0], ends[1], unit=unit)} {found.verdict} than {label}"


def spread(value: Any, low: Any, high: Any, sign: str = "", unit: str = "") -> str:
    """`0.12 [0.10, 0.14] nats`: with as many decimals as two digits of the interval's half-width take."""
    if low is None or high is None:
        return f"{value:{sign}.4g} {unit}".rstrip()
    half = abs(high - low) / 2
    if half and half < 1e-4:  # such as +1e-06 between two that are one
        return f"{value:{sign}.2g} [{low:{sign}.2g}, {high:{sign}.2g}] {unit}".rstrip()
    decimals = max(0, 1 - math.floor(math.log10(half) + 1e-9)) if half else 2
    said = (f"{round(end, decimals) + 0.0:{sign}.{decimals}f}" for end in (value, low, high))  # + 0.0: never -0.00
    return "{} [{}, {}] {}".format(*said, unit).rstrip()


def _other_figures(suite: SuiteRows, case: str, mine: str, other: str) -> str:
    """` Forgetting: 0.32 (full fine-tuning: 0.33).`: the suite's other metrics that are worth a chart."""
    parts = []
    for metric in suite.metrics[1:]:
        name = f"measure.final.{metric['name']}"
        if not metric.get("drawn", True) or name not in suite.cells[case][mine]:
            continue
        theirs = suite.cells[case][other].get(name) if other and other != mine else None
        beside = "" if theirs is None else f" ({suite.entrants[other].label}: {say(float(theirs), metric)})"
        parts.append(f"{metric['title']}: {say(float(suite.cells[case][mine][name]), metric)}{beside}")
    return f" {'; '.join(parts)}." if parts else ""


def _targets(suite: SuiteRows, case: str, mine: str, other: str) -> str:
    """` Updates to the target: 120 (torch AdamW: 170).`; a miss stays a miss."""
    if not any("measure.seeds_on_target" in row for row in suite.cells[case].values()):
        return ""

    def said(one: str) -> str:
        row = suite.cells[case][one]
        if "measure.updates_to_target" in row:
            return f"{row['measure.updates_to_target']:,.0f}"
        seeds, reached = (float(row.get(f"measure.{name}", 0)) for name in ("seeds", "seeds_on_target"))
        return f"reached by {reached:.0f} of {seeds:.0f} seeds only" if reached else f"never in {seeds:.0f} seeds"

    beside = f" ({suite.entrants[other].label}: {said(other)})" if other and other in suite.ok(case) else ""
    return f" Updates to the target: {said(mine)}{beside}."
