"""Clauses of a verdict: how one contender does against another, in words, with intervals."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from bancada.verdicts import regions
from bancada.verdicts.comparisons import Mean, SuiteRows, geometric_mean, joint
from bancada.verdicts.figures import say_bytes
from bancada.verdicts.regions import cases_at, lower, where

MOST_TIMES = 100
"""Amounts that are further apart are told as they are."""


def times(value: float) -> str:
    """A ratio as people say it: `1.04x`, `3.6x`, `12x`."""
    return f"{value:.{_decimals(value)}f}x" if value < 1000 else f"{value:,.0f}x"


def _decimals(value: float) -> int:
    return 2 if value < 1.995 else 1 if value < 9.95 else 0


def interval(mean: Mean) -> str:
    """`3.6x [3.4, 3.8]`, with as many decimals as tell the ends apart, two at most."""
    decimals = _decimals(mean.value)
    while decimals < 2 and f"{mean.low:.{decimals}f}" == f"{mean.high:.{decimals}f}":
        decimals += 1
    return f"{mean.value:.{decimals}f}x [{mean.low:.{decimals}f}, {mean.high:.{decimals}f}]"


def _amount(mean: Mean, word: str, label: str) -> str:
    """How much faster or slower, of a mean above 1; the range by case where the cases differ."""
    if mean.most / mean.least > 1.3 and mean.least > 1:
        return f"{times(mean.least)} to {times(mean.most)} {word} than {label} by case (mean {interval(mean)})"
    return f"{interval(mean)} {word} than {label}"


def clause(part: regions.Part, ours: str, against: str) -> str:
    """`At 4,096 tokens and more, flash (tiled) is ... than eager attention and ...; torch SDPA is ....`"""
    suite, label = part.suite, part.suite.entrants[ours].label
    together = [x for x in suite.xs() if suite.common(ours, against, cases_at(suite, [x]))]
    xs = regions.region(suite, ours, [against]) or together
    cases = cases_at(suite, xs)
    place = where(suite, xs)
    text = (
        f"{part.prefix}{lower(place) if part.prefix else place}, {label} {against_words(suite, ours, against, cases)}"
    )
    text += _memory_words(suite, ours, against, cases)
    peer = regions.top_peer(suite, ours, cases)
    shared = [case for case in cases if {ours, peer} <= set(suite.ok(case))]
    if peer and shared:
        there = "" if suite.xs(shared) == suite.xs(cases) else f"{lower(where(suite, suite.xs(shared)))}, "
        text += f"; {there}{_peer(suite, ours, peer, shared)}"
    return text + "." + _elsewhere(suite, ours, against, xs)


def against_words(suite: SuiteRows, a: str, b: str, cases: Sequence[str]) -> str:
    """`is 3.6x [3.4, 3.8] faster than eager attention`."""
    found = suite.common(a, b, cases)
    mean, label = geometric_mean(found), suite.entrants[b].label
    assert mean is not None, "callers look for common cases first"
    said = joint(found)
    span = f"{times(mean.least)} to {times(mean.most)} of its time"
    faster, slower, undecided = (sum(c.outcome == word for c in found) for word in ("faster", "slower", "open"))
    if said == "tie":
        return f"is level with {label} (too close to call: {interval(mean)} of its time)"
    if said == "open":
        how = f" in {undecided} of {mean.cases} cases: {span}" if mean.cases > 1 else f": {interval(mean)} of its time"
        return f"cannot be told from {label} (not decided{how})"
    if said == "mixed":
        if not faster or not slower:
            word, rest = "faster" if faster else "slower", "not decided" if undecided else "level"
            number = faster or slower
            others = "the other" if mean.cases - number == 1 else "the others"
            return f"is {word} than {label} in {number} of {mean.cases} cases and {rest} in {others} ({span})"
        return f"is faster than {label} in {faster} of {mean.cases} cases and slower in {slower} ({span})"
    shown, word = (mean.inverse(), "faster") if mean.value < 1 else (mean, "slower")
    return f"is {_amount(shown, word, label)}"


def _peer(suite: SuiteRows, ours: str, peer: str, cases: Sequence[str]) -> str:
    found = suite.common(ours, peer, cases)
    mean, label = geometric_mean(found), suite.entrants[peer].label
    assert mean is not None, "callers look for common cases first"
    said = joint(found)
    if said == "tie":
        return f"{label} is level with it (too close to call)"
    if said == "open":
        return f"against {label} nothing is decided"
    if said == "mixed":
        faster, slower = (sum(c.outcome == word for c in found) for word in ("faster", "slower"))
        who = f"{label} is faster than it in {slower}" if slower else f"it is faster than {label} in {faster}"
        return f"{who} of {mean.cases} cases"
    over = f" (mean of {mean.cases} cases)" if mean.cases > 1 else ""
    if said == "slower":
        return f"{label} is still {times(mean.value)} faster than it{over}"
    place = "fastest" if regions.yardstick(suite, ours) == regions.reference(suite) else "next"
    return f"it is {interval(mean.inverse())} faster than {label}, the {place} peer{over}"


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
    if said == "open":
        return f" {beyond}, nothing is decided between the two."
    return f" {beyond}, the two are too close to call." if said == "tie" else f" {beyond}, it depends on the case."


def amounts(suite: SuiteRows, a: str, b: str, cases: Iterable[str], measure: str) -> tuple[float, float, float] | None:
    """measure(a)/measure(b) and the two themselves, each the median over the common cases where both are above 0."""
    both = [
        (float(first), float(second))
        for case in cases
        if {a, b} <= set(suite.ok(case))
        and (first := suite.cells[case][a].get(measure))
        and (second := suite.cells[case][b].get(measure))
    ]
    if not both:
        return None
    firsts, seconds = zip(*both, strict=True)
    ratio = statistics.median(first / second for first, second in both)
    return ratio, statistics.median(firsts), statistics.median(seconds)


def median_ratio(suite: SuiteRows, a: str, b: str, cases: Iterable[str], measure: str) -> float | None:
    """The median over the common cases of measure(a)/measure(b), where both are above 0."""
    found = amounts(suite, a, b, cases, measure)
    return found[0] if found else None


def top_cases(suite: SuiteRows, a: str, b: str, cases: Iterable[str]) -> list[str]:
    """The common cases of the largest size: there memory decides."""
    both = [case for case in cases if suite.compare(case, a, b) is not None]
    return cases_at(suite.only(both), suite.xs(both)[-1:]) if both else []


def _memory_words(suite: SuiteRows, ours: str, against: str, cases: Sequence[str]) -> str:
    top = top_cases(suite, ours, against, cases)
    found = amounts(suite, ours, against, top, "peak_bytes")
    if found is None:
        return ""
    ratio, mine, its = found
    at = f" {lower(where(suite, suite.xs(top)))}" if len(suite.xs(cases)) > 1 else ""
    if not comparable(ratio):
        return f" and takes {say_bytes(mine)} beside its inputs{at} in place of {say_bytes(its)}"
    return f" and needs {'as much memory' if abs(ratio - 1) <= 0.05 else portion(ratio, 'its memory')}{at}"


def comparable(ratio: float) -> bool:
    """Whether a ratio tells more than the two amounts: 12 bytes beside a MiB are no share of it that helps anybody."""
    return 1 / MOST_TIMES <= ratio <= MOST_TIMES


def share(ratio: float) -> str:
    """A ratio of amounts: a multiple, or a percentage where it is below 1."""
    if ratio >= 1.05:
        return times(ratio)
    return f"{ratio:.0%}" if ratio >= 0.02 else f"{ratio:.1%}" if ratio >= 0.0005 else "less than 0.1%"


def portion(value: float, what: str) -> str:
    """`28% of its memory`, `1.3x its memory`."""
    said = share(value)
    return f"{said} {what}" if said.endswith("x") else f"{said} of {what}"
