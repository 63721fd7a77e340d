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
from bancada.verdicts.regions import lower

MOST, FIRST = 3, "first_call_s"


@dataclass(frozen=True)
class Paid:
    """One contender that compiles, at one case: calls until it has paid, with the interval of the saving.

    `calls` is None where no call is certain to save anything.
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
    return float(row.get("build_s", 0.0)) + float(row[FIRST])


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
    found = suite.compare(case, one, plain)
    others = [suite.cells[case][other] for other in suite.ok(case) if other not in compiling]
    starts = [_start(other) for other in others if FIRST in other]
    if found is None or FIRST not in row or not starts:
        return None
    # The least of the others' starts: the first to import a library pays for all of them.
    usual = min(starts)
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
        by_contender.values(), key=lambda group: (-sum(one.calls is not None for one in group), _calls(_best(group)))
    )
    winning = [group for group in ordered if any(one.calls is not None for one in group)]
    said = [_said(group) for group in ordered[:MOST]]
    if len(ordered) > MOST:
        said.append(
            f"{count(len(ordered) - MOST, 'more')} {'are' if len(ordered) - MOST > 1 else 'is'} in the sections below"
        )
    never = all(one.found.outcome == "slower" for one in every)
    start = "" if winning else "Never in this run: " if never else "Not shown in this run: "
    best = _best(ordered[0])
    text = sentence(start + "; ".join(said)) + _without(best, evidence.compiles)
    rows = tuple(dict.fromkeys(
        row for one in every for row in row_ids(one.suite, [one.case], [one.contender, one.plain])
    ))  # fmt: skip
    return Answer(text, _why(best), rows, _chart(winning), _turns(best))


def _of(suite: SuiteRows, compiles: Iterable[tuple[str, str]]) -> list[Paid]:
    compiling = {contender for name, contender in compiles if name == suite.id}
    found = (paid(suite, case, one, compiling) for case in suite.cells for one in suite.ok(case) if one in compiling)
    return [one for one in found if one is not None]


def _best(group: Sequence[Paid]) -> Paid:
    return min(group, key=_calls)


def _said(group: Sequence[Paid]) -> str:
    """`FlexAttention pays after 43 to 900 calls (in 1 of 5 cases never)`."""
    suite, calls = group[0].suite, [one for one in group if one.calls is not None]
    name = f"{label(suite, group[0].contender)} ({lower(suite.title)})"
    if not calls:
        found = group[0].found
        word = "never pays" if all(one.found.outcome == "slower" for one in group) else "is not shown to pay"
        return f"{name} {word}: it takes {ratio(found)} the time of {label(suite, group[0].plain)}{_at(group[0])}"
    least, most = min(calls, key=_calls), max(calls, key=_calls)
    span = f"pays after {_whole(least)}"
    if not most.extra_s:
        span = "starts as soon as what compiles nothing, and pays from its first call"
    elif _ceil(_calls(least)) != _ceil(_calls(most)):
        span = f"pays after {_ceil(_calls(least)):,} to {_ceil(_calls(most)):,} calls by case"
    without = len(group) - len(calls)
    return f"{name} {span}" + (f" (in {without} of {len(group)} cases no saving is shown)" if without else "")


def _at(one: Paid) -> str:
    return f" at {one.case}" if len(one.suite.cells) > 1 else ""


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
    found = suite.compare(best.case, rival, best.contender)
    if found is None or found.outcome != "faster":
        return ""
    name = label(suite, best.contender)
    return f" At {best.case} {label(suite, rival)}, which compiles nothing, takes {ratio(found)} the time of {name}."


def _why(best: Paid) -> str:
    row, plain = best.suite.cells[best.case][best.contender], best.suite.cells[best.case][best.plain]
    text = f"At {best.case} {label(best.suite, best.contender)} needs {say_time(_start(row))} until its first result, "
    text += (
        f"{say_time(best.extra_s)} more than what does not compile; " if best.extra_s else "no more than the others; "
    )
    usual = float(plain["time_s"])
    if best.calls is None:
        return text + f"a call then takes {say_time(float(row['time_s']))} against {say_time(usual)}."
    return text + (
        f"a call then saves {say_time(usual * (1 - best.found.ratio))} of {label(best.suite, best.plain)}'s "
        f"{say_time(usual)}. A compiler's cache left by an earlier run shortens the first call."
    )


def _turns(best: Paid) -> str:
    if best.calls is None:
        return "nowhere in the cases measured: no number of calls wins back what is slower, or not told apart"
    when = _whole(best) if best.extra_s else "the first call"
    return f"at {when} of {label(best.suite, best.contender)} at {best.case}"


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
        if (found := keep.get((one, case))) is not None and found.calls
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
