"""What the rows say, in sentences a person would say aloud: used at the end of a sweep and on the report's cards."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from bancada import regions
from bancada.comparisons import MOST_CASES, Mean, SuiteRows, geometric_mean, joint, suites
from bancada.regions import cases_at, lower, where
from bancada.rows import Row

Kind = Literal["win", "tie", "peer wins", "no data"]


@dataclass(frozen=True)
class Fact:
    """One figure of a card: what it is, the figure, and where and against whom."""

    name: str
    value: str
    against: str


@dataclass(frozen=True)
class Verdict:
    """What one suite on one device says.

    Args:
        kind: `win` where one of ours beats all others at some size, `tie` where the best of ours is level
            with the best of the others, `peer wins` where it is slower, `no data` where nothing can be compared.
        headline: who is fastest where.
        clauses: the best of ours against the reference and the best peer, with intervals: one sentence, or one
            for each value of the axis on which the answer depends.
        clear: one contender is fastest, with no other level, in two thirds of the cases.
        ours: the contender the sentence is about, or ''.
        evidence: the ids of the cell rows that the sentence rests on.
    """

    suite: str
    title: str
    family: str
    run: str
    device: str
    kind: Kind
    headline: str
    clauses: tuple[str, ...]
    clear: bool
    ours: str = ""
    facts: tuple[Fact, ...] = ()
    evidence: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """All of it in one go."""
        return " ".join(self.clauses)


def verdicts(rows: Iterable[Row], plan: Mapping[str, Any], catalogue: Mapping[str, Any]) -> list[Verdict]:
    """One verdict for each suite and device that has a cell row, in the catalogue's order."""
    return [_verdict(suite) for suite in suites(rows, plan, catalogue)]


def as_text(found: Sequence[Verdict]) -> str:
    """The verdicts for a terminal: a title, the headline and the sentence each."""
    several = len({verdict.device for verdict in found}) > 1
    parts = []
    for verdict in found:
        where = f" on {verdict.device}" if several else ""
        parts.append(f"{verdict.title}{where} [{verdict.kind}]\n  {verdict.headline}\n  {verdict.sentence}")
    return "\n\n".join(parts)


def times(value: float) -> str:
    """A ratio as people say it: `1.04x`, `3.6x`, `12x`."""
    return f"{value:.{_decimals(value)}f}x" if value < 1000 else f"{value:,.0f}x"


def _decimals(value: float) -> int:
    return 2 if value < 1.995 else 1 if value < 9.95 else 0


def _verdict(suite: SuiteRows) -> Verdict:
    decided = [case for case in suite.cells if len(suite.ok(case)) > 1]
    ours = regions.best_of_ours(suite)
    kind = _kind(suite, ours, decided)
    clauses: tuple[str, ...] = (_no_data(suite),)
    if decided:
        clauses = _clauses(suite, ours, kind) if ours else (_without_ours(suite),)
    headline = _headline(suite) if decided else "Nothing to compare"
    alone = Counter(winners[0] for case in decided if len(winners := suite.unbeaten(case)) == 1)
    clear = bool(decided) and max(alone.values(), default=0) >= MOST_CASES * len(decided)
    facts = _facts(suite, ours) if ours and decided else ()
    evidence = tuple(row["row_id"] for case in decided for row in suite.cells[case].values() if row["status"] == "ok")
    place = suite.id, suite.title, suite.family, suite.run, suite.device_name
    return Verdict(*place, kind, headline, clauses, clear, ours, facts, evidence)


def _rivals(suite: SuiteRows) -> list[str]:
    return regions.measured(suite, regions.others(suite))


def _yardstick(suite: SuiteRows) -> str:
    """The reference where it was measured, else the fastest peer; '' without either."""
    rivals, reference = _rivals(suite), regions.reference(suite)
    return reference if reference in rivals else regions.fastest(suite, rivals)


def _top_peer(suite: SuiteRows, cases: Sequence[str] | None = None) -> str:
    return regions.fastest(suite, [rival for rival in _rivals(suite) if rival != _yardstick(suite)], cases)


def _parts(suite: SuiteRows, ours: str) -> list[regions.Part]:
    rivals = [rival for rival in (_yardstick(suite), _top_peer(suite)) if rival and suite.common(ours, rival)]
    return regions.parts(suite, ours, rivals) if rivals else [regions.Part("", suite)]


def _kind(suite: SuiteRows, ours: str, decided: Sequence[str]) -> Kind:
    rivals = _rivals(suite)
    if not decided or not rivals:
        return "no data"
    if not ours:
        return "peer wins"
    if any(regions.region(part.suite, ours, rivals) for part in _parts(suite, ours)):
        return "win"
    mean = geometric_mean(suite.common(ours, regions.fastest(suite, rivals)))
    kinds: dict[str, Kind] = {"faster": "win", "slower": "peer wins"}
    return "no data" if mean is None else kinds.get(mean.outcome, "tie")


def _headline(suite: SuiteRows) -> str:
    runs: list[tuple[tuple[str, ...], list[Any]]] = []
    for x in suite.xs():
        if not any(suite.ok(case) for case in cases_at(suite, [x])):
            continue
        holders = regions.holders(suite, x)
        if runs and runs[-1][0] == holders:
            runs[-1][1].append(x)
        else:
            runs.append((holders, [x]))
    names = [_named(suite, holders) or regions.depends(suite, xs) for holders, xs in runs]
    if len(runs) == 1:
        return f"Fastest: {names[0]}"
    if len(runs) > 3:
        return f"Fastest: it changes with size; {lower(where(suite, runs[-1][1]))}, {names[-1]}"
    return "Fastest: " + "; ".join(
        f"{lower(where(suite, xs))}, {name}" for name, (_, xs) in zip(names, runs, strict=True)
    )


def _named(suite: SuiteRows, holders: Sequence[str]) -> str:
    if len(holders) > 3:
        return f"{len(holders)} are level"
    return " or ".join(suite.entrants[holder].label for holder in holders) + (" (level)" if len(holders) > 1 else "")


def _interval(mean: Mean) -> str:
    """`3.6x [3.4, 3.8]`, with as many decimals as tell the ends apart, two at most."""
    decimals = _decimals(mean.value)
    while decimals < 2 and f"{mean.low:.{decimals}f}" == f"{mean.high:.{decimals}f}":
        decimals += 1
    return f"{mean.value:.{decimals}f}x [{mean.low:.{decimals}f}, {mean.high:.{decimals}f}]"


def _amount(mean: Mean, word: str, label: str) -> str:
    """How much faster or slower, of a mean above 1; the range by case where the cases differ."""
    if mean.cases == 1:
        return f"{_interval(mean)} {word} than {label}"
    if mean.most / mean.least > 1.3 and mean.least > 1:
        return f"{times(mean.least)} to {times(mean.most)} {word} than {label} by case (mean {_interval(mean)})"
    return f"{_interval(mean)} {word} than {label}"


def _clauses(suite: SuiteRows, ours: str, kind: Kind) -> tuple[str, ...]:
    against = _yardstick(suite)
    if not against:
        return (f"Only {suite.entrants[ours].label} was measured: there is nothing to compare it with.",)
    if not suite.common(ours, against):
        both = f"{suite.entrants[ours].label} and {suite.entrants[against].label}"
        return (f"{both} were never measured at the same case, so they cannot be compared.",)
    said = tuple(_clause(part, ours, against) for part in _parts(suite, ours))
    return (*said, "Nothing of ours is fastest here.") if kind == "peer wins" else said


def _clause(part: regions.Part, ours: str, against: str) -> str:
    """`At 4,096 tokens and more, flash (tiled) is ... than eager attention and ...; torch SDPA is ....`"""
    suite, label = part.suite, part.suite.entrants[ours].label
    xs = regions.region(suite, ours, [against]) or suite.xs()
    cases = cases_at(suite, xs)
    place = where(suite, xs)
    text = f"{part.prefix}{lower(place) if part.prefix else place}, {label} {_against(suite, ours, against, cases)}"
    text += _memory_words(suite, ours, against, cases)
    peer = _top_peer(suite, cases)
    if peer and peer != against and suite.common(ours, peer, cases):
        text += f"; {_peer(suite, ours, peer, cases)}"
    return text + "." + _elsewhere(suite, ours, against, xs)


def _against(suite: SuiteRows, a: str, b: str, cases: Sequence[str]) -> str:
    """`is 3.6x [3.4, 3.8] faster than eager attention`."""
    found = suite.common(a, b, cases)
    mean, label = geometric_mean(found), suite.entrants[b].label
    assert mean is not None, "callers look for common cases first"
    said = joint(found)
    if said == "tie" or (mean.cases == 1 and mean.outcome == "tie"):
        return f"is level with {label} (too close to call: {_interval(mean)} of its time)"
    if said == "mixed":
        faster, slower = (sum(c.outcome == word for c in found) for word in ("faster", "slower"))
        span = f"({times(mean.least)} to {times(mean.most)} of its time)"
        if not faster or not slower:
            word = "faster" if faster else "slower"
            return f"is {word} than {label} in {faster or slower} of {mean.cases} cases and level in the others {span}"
        return f"is faster than {label} in {faster} of {mean.cases} cases and slower in {slower} {span}"
    shown, word = (mean.inverse(), "faster") if mean.value < 1 else (mean, "slower")
    return f"is {_amount(shown, word, label)}"


def _peer(suite: SuiteRows, ours: str, peer: str, cases: Sequence[str]) -> str:
    found = suite.common(ours, peer, cases)
    mean, label = geometric_mean(found), suite.entrants[peer].label
    assert mean is not None, "callers look for common cases first"
    said = joint(found)
    if said == "tie":
        return f"{label} is level with it (too close to call)"
    if said == "mixed":
        slower = sum(c.outcome == "slower" for c in found)
        return f"{label} is faster than it in {slower} of {mean.cases} cases"
    if said == "slower":
        return f"{label} is still {times(mean.value)} faster than it"
    return f"it is {_interval(mean.inverse())} faster than {label}, the fastest peer"


def _elsewhere(suite: SuiteRows, ours: str, against: str, xs: Sequence[Any]) -> str:
    """What holds at the other sizes, in a few words."""
    rest = [x for x in suite.xs() if x not in xs]
    found = suite.common(ours, against, cases_at(suite, rest))
    mean, label = geometric_mean(found), suite.entrants[against].label
    if mean is None:
        return ""
    beyond = "Elsewhere"
    if all(isinstance(x, (int, float)) for x in [*rest, *xs]):
        beyond = "Below that" if rest[-1] < xs[0] else "Above that" if rest[0] > xs[-1] else beyond
    said = joint(found)
    if said == "slower":
        return f" {beyond}, {label} is {times(mean.value)} faster."
    return f" {beyond}, the two are too close to call." if said == "tie" else f" {beyond}, it depends on the case."


def _median_ratio(suite: SuiteRows, a: str, b: str, cases: Iterable[str], measure: str) -> float | None:
    """The median over the common cases of measure(a)/measure(b), where both are above 0."""
    ratios = []
    for case in cases:
        if a in suite.ok(case) and b in suite.ok(case):
            first, second = suite.cells[case][a].get(measure), suite.cells[case][b].get(measure)
            if first and second:
                ratios.append(first / second)
    return statistics.median(ratios) if ratios else None


def _top_cases(suite: SuiteRows, a: str, b: str, cases: Iterable[str]) -> list[str]:
    """The common cases of the largest size: there memory decides."""
    both = [case for case in cases if suite.compare(case, a, b) is not None]
    return cases_at(suite.only(both), suite.xs(both)[-1:]) if both else []


def _memory_words(suite: SuiteRows, ours: str, against: str, cases: Sequence[str]) -> str:
    top = _top_cases(suite, ours, against, cases)
    ratio = _median_ratio(suite, ours, against, top, "peak_bytes")
    if ratio is None:
        return ""
    amount = "as much memory" if abs(ratio - 1) <= 0.05 else f"{_share(ratio)} of its memory"
    at = f" {lower(where(suite, suite.xs(top)))}" if len(suite.xs(cases)) > 1 else ""
    return f" and needs {amount}{at}"


def _share(ratio: float) -> str:
    return times(ratio) if ratio >= 1.05 else f"{ratio:.0%}" if ratio >= 0.02 else f"{ratio:.1%}"


def _facts(suite: SuiteRows, ours: str) -> tuple[Fact, ...]:
    against = _yardstick(suite)
    cases = _top_cases(suite, ours, against, suite.cells) if against else []
    mean = geometric_mean(suite.common(ours, against, cases)) if cases else None
    if mean is None:
        return ()
    place = f"{where(suite, suite.xs(cases))}, {suite.entrants[ours].label} against {suite.entrants[against].label}"
    facts = [Fact("time", "level" if mean.outcome == "tie" else times(mean.value), place)]
    if (memory := _median_ratio(suite, ours, against, cases, "peak_bytes")) is not None:
        facts.append(Fact("memory", _share(memory), place))
    if (error := _median_ratio(suite, ours, against, cases, "error_max")) is not None:
        facts.append(Fact("error", times(error), place))
    return tuple(facts)


def _reasons(rows: Iterable[Row]) -> str:
    counted = Counter((row["status"].replace("_", " "), row["reason"]) for row in rows if row["status"] != "ok")
    return "; ".join(f"{number} {status} ({reason})" for (status, reason), number in counted.most_common(2))


def _no_data(suite: SuiteRows) -> str:
    rows = [row for case in suite.cells.values() for row in case.values()]
    ran = [suite.entrants[i].label for i in regions.measured(suite, suite.entrants)]
    why = f": {reasons}" if (reasons := _reasons(rows)) else ""
    if ran:
        return f"Measured: {', '.join(ran)}. No case has two contenders to compare{why}."
    return f"None of the {len(rows)} cells could be measured{why}."


def _without_ours(suite: SuiteRows) -> str:
    every = (row for case in suite.cells.values() for row in case.values())
    rows = [row for row in every if row["origin"] == "bancada" and not row.get("reference")]
    why = f"Nothing of ours was measured here: {_reasons(rows)}." if rows else "Nothing of ours takes part here."
    reference, best = _yardstick(suite), regions.fastest(suite, _rivals(suite))
    if reference == best or not suite.common(best, reference):
        return f"{why} {suite.entrants[best].label} is the fastest of the others."
    return f"{why} Of the others, {suite.entrants[best].label} {_against(suite, best, reference, list(suite.cells))}."
