"""Is flash attention exact, and is it slower on short sequences?"""

from __future__ import annotations

from bancada.questions.charts import times_against
from bancada.questions.declare import Answer, Chart, Question
from bancada.questions.evidence import Evidence, Slice, both, decided, figures, row_ids, slices
from bancada.questions.words import count, label, place, portion, sentence, turn
from bancada.verdicts import regions
from bancada.verdicts.clauses import against_words
from bancada.verdicts.comparisons import SuiteRows
from bancada.verdicts.figures import say_bytes

SUITE, TECHNIQUE, AXIS, UNIT = "attention.forward", "flash-attention", "seq_len", "tokens"
ALLOWED = 2.0
"""An error of at most this many times the plain computation's is rounding: the rule that suites hold everybody to."""


def _flash(suite: SuiteRows, ours: bool) -> list[str]:
    rows = (row for case in suite.cells.values() for row in case.values())
    return list(dict.fromkeys(
        row["contender"] for row in rows
        if row["technique"] == TECHNIQUE and (row["origin"] == "bancada") == ours and row["status"] == "ok"
    ))  # fmt: skip


def answer(evidence: Evidence) -> Answer | None:
    """Errors of all cases, times of the slice with most lengths."""
    suite = evidence.suite(SUITE)
    plain = regions.reference(suite) if suite else ""
    if suite is None or not plain:
        return None
    mine = regions.fastest(suite, _flash(suite, True)) or regions.fastest(suite, _flash(suite, False))
    groups = [group for one in slices(suite, AXIS) if (group := both(suite, one, mine, plain))]
    if not groups:
        return None
    group = groups[0]
    peer = regions.fastest(suite, [one for one in _flash(suite, False) if one != mine], group.values())
    drawn = [one for one in (mine, peer) if one]
    return Answer(
        sentence=f"{_exact(suite, mine, plain)} {_speed(suite, group, mine, plain)}",
        why=_why(suite, group, mine, plain),
        rows=row_ids(suite, (case for one in groups for case in one.values()), [mine, plain, peer]),
        chart=_chart(suite, group, drawn, plain),
        turns=_turns(suite, group, mine, plain),
    )


def _exact(suite: SuiteRows, mine: str, plain: str) -> str:
    wrong = [case for case, rows in suite.cells.items() if rows.get(mine, {}).get("status") == "incorrect"]
    if wrong:
        return f"Not exact here: {label(suite, mine)} was incorrect in {count(len(wrong), 'cases')} ({wrong[0]})."
    found = [
        (float(suite.cells[case][mine]["error_max"]), float(suite.cells[case][plain]["error_max"]), case)
        for case in suite.cells
        if {mine, plain} <= set(suite.ok(case))
        and suite.cells[case][plain].get("error_max")
        and "error_max" in suite.cells[case][mine]
    ]
    if not found:
        return f"These rows hold no error of both to set it beside {label(suite, plain)}'s."
    error, usual, case = max(found, key=lambda one: one[0] / one[1])
    beside = f"{error:.1e} against {usual:.1e} at {case}"
    if error / usual > ALLOWED:
        most = f"up to {portion(error / usual, 'its error')} against float64"
        return f"Less exact than {label(suite, plain)}: {most} ({beside})."
    most = f"at most {portion(error / usual, 'its error')} against float64 in {count(len(found), 'cases')}"
    return f"As exact as {label(suite, plain)}: {most} ({beside})."


def _speed(suite: SuiteRows, group: Slice, mine: str, plain: str) -> str:
    """Who is faster at the shortest length, and at the longest at which it is decided."""
    told = decided(suite, group, mine, plain)
    lengths = [next(iter(group)), list(told)[-1]]
    parts = [f"at {count(x, UNIT)} {label(suite, mine)} {against_words(suite, mine, plain, [group[x]])}"
             for x in dict.fromkeys(lengths)]  # fmt: skip
    if list(group)[-1] != lengths[-1]:
        parts.append(f"at {count(list(group)[-1], UNIT)} nothing is decided between the two")
    first = suite.compare(group[lengths[0]], mine, plain)
    assert first is not None, "both were measured there"
    slow = {"slower": "Yes, on short ones", "faster": "Not slower on short ones", "tie": "Level on short ones"}
    start = slow.get(first.outcome, "On short ones it is not decided")
    return sentence(f"{start}{place(suite, group[lengths[0]], AXIS)}: {'; '.join(parts)}")


def _turns(suite: SuiteRows, group: Slice, mine: str, plain: str) -> str:
    found = ((x, suite.compare(case, mine, plain)) for x, case in group.items())
    said = [(x, one.outcome) for x, one in found if one is not None]
    return turn(said, UNIT, f"{label(suite, mine)} is faster")


def _why(suite: SuiteRows, group: Slice, mine: str, plain: str) -> str:
    """Bytes: the matrix of scores grows with the square of the length, and is never whole in flash attention."""
    names, said, less = [label(suite, one) for one in (plain, mine)], [], False
    for x in dict.fromkeys((next(iter(group)), list(group)[-1])):
        held = figures([suite.cells[group[x]][one] for one in (plain, mine)], "peak_bytes")
        if not held:
            return "The peak memory of these calls was not measured, and so neither was what flash attention saves."
        usual, own = map(say_bytes, held)
        said.append(
            f"at {count(x, UNIT)} {names[0]} holds {usual}, {names[1]} {own} ({portion(held[1] / held[0], 'it')})"
        )
        less = held[1] < held[0]
    start = "the matrix of scores is not kept" if less else "and no fewer bytes are held"
    return f"The sums are the same, {start}: {'; '.join(reversed(said))}."


def _chart(suite: SuiteRows, group: Slice, contenders: list[str], plain: str) -> Chart:
    return times_against(suite, plain, AXIS, [(one, group, "") for one in contenders])


FLASH = Question(
    "flash-attention",
    "Is flash attention exact? Is it slower on short sequences?",
    "",
    (SUITE,),
    f"--suite {SUITE} --set seq_len=64,128,256,512,1024,2048 --set causal=true",
    answer,
)
