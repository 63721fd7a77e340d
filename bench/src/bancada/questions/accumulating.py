"""Is accumulation the same as a large batch?"""

from __future__ import annotations

from bancada.questions.declare import Answer, Chart, Point, Question
from bancada.questions.evidence import Evidence, figures, row_ids
from bancada.questions.words import label, portion, sentence
from bancada.verdicts import regions
from bancada.verdicts.clauses import against_words
from bancada.verdicts.comparisons import SuiteRows

SUITE, ERROR = "optimizers.accumulation", "grad_error_rel"
SAME = 1e-3
"""A difference of less than this share of the gradient's norm is rounding."""


def answer(evidence: Evidence) -> Answer | None:
    """How far each rule's gradient is from the whole batch's, with unequal and with equal numbers of tokens."""
    suite = evidence.suite(SUITE)
    plain = regions.reference(suite) if suite else ""
    if suite is None or not plain:
        return None
    found = {lengths: case for lengths in ("equal", "unequal") if (case := _case(suite, lengths, plain))}
    if "unequal" not in found:
        return None
    case = found["unequal"]
    rules = [one for one in suite.ok(case) if one != plain and ERROR in suite.cells[case][one]]
    off = {one: float(suite.cells[case][one][ERROR]) for one in rules}
    if not off:
        return None
    text = _said(suite, off, plain)
    points = tuple(Point(str(suite.cells[case][one]["row_id"]), float(suite.cells[case][one][ERROR]))
                   for one in suite.ok(case) if suite.cells[case][one].get(ERROR))  # fmt: skip
    chart = Chart("lines", "Distance from the large batch's gradient in float64, share of its norm", points)
    return Answer(text, _why(suite, case, plain), row_ids(suite, found.values(), [*rules, plain]), chart,
                  _turns(suite, found, rules))  # fmt: skip


def _case(suite: SuiteRows, lengths: str, plain: str) -> str:
    """The case of these lengths with most micro-batches."""
    known = [c for c in suite.cells if suite.axes[c].get("lengths") == lengths and plain in suite.ok(c)]
    return max(known, key=lambda one: float(suite.axes[one].get("micro_batches", 0)), default="")


def _distance(value: float) -> str:
    return f"{value:.0%}" if value >= 0.1 else f"{value:.2%}" if value >= SAME else f"{value:.1e}"


def _said(suite: SuiteRows, off: dict[str, float], plain: str) -> str:
    same = [one for one, value in off.items() if value < SAME]
    other = [one for one, value in off.items() if value >= SAME]
    start = "Yes" if not other else "Only where every token weighs the same" if same else "No"
    parts = []
    if same:
        each = " and ".join(f"{label(suite, one)} ({off[one]:.1e} of its norm)" for one in same)
        gives = "gives" if len(same) == 1 else "give"
        parts.append(f"with unequal numbers of tokens, {each} {gives} the gradient of {label(suite, plain)}")
    if other:
        each = " and ".join(f"{label(suite, one)} is {_distance(off[one])} of its norm away" for one in other)
        parts.append(each if same else f"with unequal numbers of tokens, {each} from {label(suite, plain)}")
    return sentence(f"{start}: {'; '.join(parts)}")


def _why(suite: SuiteRows, case: str, plain: str) -> str:
    axes = suite.axes[case]
    number = int(axes["micro_batches"])
    text = (
        f"A mean of means weighs a token by the company it keeps. Here {number} micro-batches hold "
        f"{axes['tokens']} tokens and then half as many each, so a token of the shortest counts "
        f"{2 ** (number - 1)} times one of the longest; with equal lengths both rules are one"
    )
    ours = next((one for one in suite.ok(case) if suite.entrants[one].ours), "")
    if ours:
        rows = suite.cells[case]
        memory = figures([rows[one] for one in (ours, plain)], "peak_bytes")
        held = f" and holds {portion(memory[0] / memory[1], 'its memory')}" if memory else ""
        text += ". " + sentence(f"{label(suite, ours)} {against_words(suite, ours, plain, [case])}{held}")
    return sentence(text)


def _turns(suite: SuiteRows, found: dict[str, str], rules: list[str]) -> str:
    """What equal lengths change."""
    if "equal" not in found:
        return ""
    rows = suite.cells[found["equal"]]
    said = [
        f"{_distance(float(rows[one][ERROR]))} for {label(suite, one)}" for one in rules if ERROR in rows.get(one, {})
    ]
    return f"with the lengths: where all are equal, the distance is {' and '.join(said)}" if said else ""


ACCUMULATION = Question(
    "accumulation",
    "Is accumulation the same as a large batch?",
    "transformers 34191",
    (SUITE,),
    f"--suite {SUITE} --set lengths=equal,unequal",
    answer,
)
