"""When does compiling pay? The number of calls after which a first call that compiles has been won back."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bancada.questions.declare import Answer, Chart, Point, Question
from bancada.questions.evidence import Evidence, row_ids, slices
from bancada.questions.words import count, label, ratio, sentence
from bancada.rows import Row
from bancada.verdicts import regions
from bancada.verdicts.comparisons import Comparison, SuiteRows
from bancada.verdicts.figures import say_time

MOST = 3


@dataclass(frozen=True)
class Paid:
    """One contender that compiles, at one case: calls until it has paid, with the interval of the saving.

    `calls` is None where a call saves nothing for certain; `high` is infinite where it may save next to nothing.
    """

    suite: SuiteRows
    case: str
    contender: str
    plain: str
    extra_s: float
    found: Comparison
    calls: float | None
    low: float = 0.0
    high: float = 0.0


def _start(row: Row) -> float:
    """Seconds until a first result is there."""
    return float(row.get("build_s", 0.0)) + float(row.get("first_call_s", 0.0))


def _plain(suite: SuiteRows, case: str, one: str, compiling: set[str]) -> str:
    """What it is compiled from: the reference where that is the same technique, else the fastest of those."""
    rest = [other for other in suite.ok(case) if other not in compiling]
    technique = suite.cells[case][one]["technique"]
    alike = [other for other in rest if suite.cells[case][other]["technique"] == technique]
    reference = regions.reference(suite)
    if reference in alike or not alike:
        return reference if reference in rest else ""
    return regions.fastest(suite, alike, [case])


def paid(suite: SuiteRows, case: str, one: str, compiling: set[str]) -> Paid | None:
    """What compiling costs a contender at a case, and what a call then saves; None where nothing is beside it."""
    plain, row = _plain(suite, case, one, compiling), suite.cells[case][one]
    found = suite.compare(case, one, plain) if plain else None
    if found is None or "first_call_s" not in row:
        return None
    # The least of the others' starts: the first to import a library pays for all of them.
    usual = min(_start(suite.cells[case][other]) for other in suite.ok(case) if other not in compiling)
    extra, call = max(0.0, _start(row) - usual), float(suite.cells[case][plain]["time_s"])
    if found.outcome != "faster":
        return Paid(suite, case, one, plain, extra, found, None)
    calls, low, high = (extra / (call * (1 - r)) for r in (found.ratio, found.low, found.high))
    return Paid(suite, case, one, plain, extra, found, calls, low, high)


def answer(evidence: Evidence) -> Answer | None:
    """Over all suites: what compiles, after how many calls it has paid, and who needs no compiler."""
    every = [one for suite in evidence.suites.values() if suite.kind == "kernel" and suite.family != "harness"
             for one in _of(suite, evidence.compiles)]  # fmt: skip
    if not every:
        return None
    by_contender: dict[tuple[str, str], list[Paid]] = {}
    for one in every:
        by_contender.setdefault((one.suite.id, one.contender), []).append(one)
    ordered = sorted(
        by_contender.values(), key=lambda group: (-sum(one.calls is not None for one in group), _first(group))
    )
    winning = [group for group in ordered if any(one.calls is not None for one in group)]
    said = [_said(group) for group in ordered[:MOST]]
    if len(ordered) > MOST:
        said.append(
            f"{count(len(ordered) - MOST, 'more')} {'are' if len(ordered) - MOST > 1 else 'is'} in the sections below"
        )
    start = "" if winning else "Never in this run: "
    best = _best(winning[0] if winning else ordered[0])
    text = sentence(start + "; ".join(said)) + _without(best, evidence.compiles)
    rows = tuple(dict.fromkeys(
        row for one in every for row in row_ids(one.suite, [one.case], [one.contender, one.plain])
    ))  # fmt: skip
    return Answer(text, _why(best), rows, _chart(winning), _turns(winning[0] if winning else ordered[0]))


def _of(suite: SuiteRows, compiles: Iterable[tuple[str, str]]) -> list[Paid]:
    compiling = {contender for name, contender in compiles if name == suite.id}
    found = (paid(suite, case, one, compiling) for case in suite.cells for one in suite.ok(case) if one in compiling)
    return [one for one in found if one is not None]


def _first(group: Sequence[Paid]) -> float:
    return min((one.calls for one in group if one.calls is not None), default=float("inf"))


def _best(group: Sequence[Paid]) -> Paid:
    return min(group, key=lambda one: one.calls if one.calls is not None else float("inf"))


def _said(group: Sequence[Paid]) -> str:
    """`FlexAttention pays after 43 to 900 calls (in 1 of 5 cases never)`."""
    name, calls = label(group[0].suite, group[0].contender), [one for one in group if one.calls is not None]
    title = group[0].suite.title.lower() if group[0].suite.family not in name.lower() else ""
    place = f" ({title})" if title else ""
    if not calls:
        found = group[0].found
        word = "never pays" if all(one.found.outcome == "slower" for one in group) else "is not shown to pay"
        return f"{name}{place} {word}: it takes {ratio(found)} the time of {label(group[0].suite, group[0].plain)}"
    least, most = min(calls, key=_calls), max(calls, key=_calls)
    if _calls(most) <= 1:
        return f"{name}{place} starts as soon as what compiles nothing here, and pays from its first call"
    span = _whole(least)
    if _ceil(_calls(least)) != _ceil(_calls(most)):
        span = f"{_ceil(_calls(least)):,} to {_ceil(_calls(most)):,} calls by case"
    without = len(group) - len(calls)
    never = f" (in {without} of {len(group)} cases no saving is shown)" if without else ""
    return f"{name}{place} pays after {span}{never}"


def _ceil(calls: float) -> int:
    """Only whole calls can be made; rounding adds none."""
    return math.ceil(calls - 1e-6)


def _whole(one: Paid) -> str:
    """`50 [44, 61] calls`."""
    return f"{_ceil(_calls(one)):,} [{_ceil(one.low):,}, {_ceil(one.high):,}] calls"


def _calls(one: Paid) -> float:
    return one.calls if one.calls is not None else float("inf")


def _without(best: Paid, compiles: Iterable[tuple[str, str]]) -> str:
    """Whether something that compiles nothing is faster still."""
    suite, compiling = best.suite, {contender for name, contender in compiles if name == best.suite.id}
    rest = [one for one in suite.ok(best.case) if one not in compiling and one != best.plain]
    rival = regions.fastest(suite, rest, [best.case])
    found = suite.compare(best.case, rival, best.contender) if rival else None
    if found is None or found.outcome != "faster":
        return ""
    name = label(suite, best.contender)
    return f" At {best.case} {label(suite, rival)}, which compiles nothing, takes {ratio(found)} the time of {name}."


def _why(best: Paid) -> str:
    row, plain = best.suite.cells[best.case][best.contender], best.suite.cells[best.case][best.plain]
    saved = float(plain["time_s"]) - float(row["time_s"])
    text = (
        f"At {best.case} {label(best.suite, best.contender)} needs {say_time(_start(row))} until its first result, "
        f"{say_time(best.extra_s)} more than what does not compile; "
    )
    if best.calls is None:
        return text + f"a call then takes {say_time(float(row['time_s']))} against {say_time(float(plain['time_s']))}."
    return text + (
        f"a call then saves {say_time(saved)} of {label(best.suite, best.plain)}'s {say_time(float(plain['time_s']))}. "
        "A compiler's cache left by an earlier run shortens the first call."
    )


def _turns(group: Sequence[Paid]) -> str:
    best = _best(group)
    if best.calls is None:
        return "nowhere in the cases measured: no number of calls wins back what is slower, or not told apart"
    name = label(best.suite, best.contender)
    return f"at {_whole(best)} of {name} at {best.case}"


def _chart(winning: Sequence[Sequence[Paid]]) -> Chart | None:
    """Calls to break even against the suite's axis, for the suite that holds the first to pay."""
    if not winning:
        return None
    suite = winning[0][0].suite
    keep = {(one.contender, one.case): one for group in winning for one in group if one.suite is suite}
    cases = {case for _, case in keep}
    [group, *_] = slices(suite, suite.x_axis, lambda case: case in cases) or [{}]
    points = [
        Point(str(suite.cells[case][one]["row_id"]), found.calls, found.low, found.high, x=x)
        for x, case in group.items()
        for one in dict.fromkeys(name for name, _ in keep)
        if (found := keep.get((one, case))) is not None and found.calls is not None
    ]
    title = "Calls until compiling has paid (fewer is better)"
    return Chart("lines", title, tuple(points), unit="calls", axis=suite.x_axis) if points else None


COMPILE = Question(
    "compile",
    "When does torch.compile pay?",
    "",
    ("attention.forward", "optimizers.step"),
    "--suite attention.forward --set seq_len=256,1024 --set causal=true",
    answer,
)
