"""Why is the pruned model as large and as slow as before?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bancada.questions.declare import Answer, Chart, Point, Question
from bancada.questions.evidence import Evidence, figures, row_ids, slices
from bancada.questions.words import by_size, label, place, ratio, sentence
from bancada.rows import Row
from bancada.verdicts import regions
from bancada.verdicts.clauses import share
from bancada.verdicts.comparisons import Comparison, Outcome, SuiteRows
from bancada.verdicts.figures import SAME, say_bytes

SUITE, AXIS = "compression.pruned", "keep"
BYTES, ZIPPED = "measure.bytes", "measure.zipped_bytes"
WIDTHS = {"fp32": 4, "bf16": 2}
GONE = {"matrix": "{} of the weights", "2of4": "two of every four weights", "neurons": "{} of the neurons"}


@dataclass(frozen=True)
class Form:
    """A form of the pruned block at one case: its time and its bytes, both over those of zeros in plain layers."""

    case: str
    contender: str
    found: Comparison
    size: float

    @property
    def outcome(self) -> Outcome:
        """Of a form that is smaller what its time says; one that is not saves nothing, however fast."""
        return self.found.outcome if self.size < 1 - SAME else "slower"


def answer(evidence: Evidence) -> Answer | None:
    """The forms that are smaller and faster than zeros in plain layers, and what the others cost."""
    suite = evidence.suite(SUITE)
    zeros = regions.reference(suite) if suite else ""
    if suite is None or not zeros:
        return None
    forms = [form for case in suite.cells for one in suite.ok(case) if (form := _form(suite, case, one, zeros))]
    if not forms:
        return None
    told = _told(forms)
    saving = [form for form in told if form.outcome == "faster"]
    rest = [form for form in told if form.outcome != "faster"]
    undecided = any(form.outcome == "open" for form in rest)
    name = label(suite, zeros)
    if saving:
        text = (
            "Because zeros are stored and multiplied like any number. What saves is another form: "
            f"{_listed(suite, saving, name)}"
        )
        if rest:
            text += f". The rest {'are not shown to' if undecided else 'do not'}: {_listed(suite, rest)}"
    else:
        shown = "is shown to be" if undecided else "is"
        text = f"No form here {shown} both smaller and faster than {name}: {_listed(suite, rest, name)}"
    rows = dict.fromkeys(row for one in forms for row in row_ids(suite, [one.case], [one.contender, zeros]))
    best = (saving or rest)[0]
    turns = [said for one in told if (said := _turns(suite, one.contender, zeros))]
    return Answer(
        sentence(text), _why(suite, best, zeros), tuple(rows), _chart(suite, told, best, zeros), "; ".join(turns),
        _open(suite),
    )  # fmt: skip


def _form(suite: SuiteRows, case: str, one: str, zeros: str) -> Form | None:
    """None for the zeros themselves, and where either was not measured."""
    found = suite.compare(case, one, zeros) if one != zeros else None
    if found is None:
        return None
    sizes = figures([suite.cells[case][one], suite.cells[case][zeros]], BYTES)
    return Form(case, one, found, sizes[0] / sizes[1]) if sizes else None


def _told(forms: Sequence[Form]) -> list[Form]:
    """Of each contender the case where it does best, those that save first, then by time."""

    def order(form: Form) -> tuple[bool, float]:
        return (form.outcome != "faster", form.found.ratio)

    best: dict[str, Form] = {}
    for form in sorted(forms, key=order):
        best.setdefault(form.contender, form)
    return list(best.values())


def _listed(suite: SuiteRows, forms: Sequence[Form], name: str = "") -> str:
    """`neurons cut out 0.41x [0.40, 0.42] and 50%`; where `name` is given, the first says of what."""
    words = [" the time", f" of the bytes of {name}"] if name else ["", ""]
    said = []
    for one in forms:
        size = share(one.size)
        bytes_ = words[1].removeprefix(" of") if size.endswith("x") else words[1]
        who = f"{label(suite, one.contender)}{place(suite, one.case)}"
        said.append(f"{who} {ratio(one.found)}{words[0]} and {size}{bytes_}")
        words = ["", ""]
    return ", ".join(said)


def _why(suite: SuiteRows, best: Form, zeros: str) -> str:
    """What the zeros take, beside what the block would take with none; and what is done in the form that does best."""
    row, axes, parts = suite.cells[best.case][zeros], suite.axes[best.case], []
    kept, width = float(row[BYTES]), WIDTHS.get(axes["dtype"])
    whole = 2 * int(axes["features"]) * int(axes["hidden"]) * width if width else 0
    if abs(kept - whole) <= SAME * whole:
        gone = GONE.get(axes["pattern"], "{} of the weights").format(share(1 - float(axes[AXIS])))
        zipped = f", and only zipped are they less ({say_bytes(float(row[ZIPPED]))})" if _zips(row) else ""
        parts.append(
            f"with {gone} gone, zeros in place of them still take {say_bytes(kept)}, as if nothing were{zipped}"
        )
    if best.outcome == "faster":
        held = say_bytes(float(suite.cells[best.case][best.contender][BYTES]))
        parts.append(f"{label(suite, best.contender)} holds {held} and leaves out the products as well")
    heavy = [one for one in suite.ok(best.case) if float(suite.cells[best.case][one].get(BYTES, 0)) > kept * (1 + SAME)]
    if heavy:
        most = max(heavy, key=lambda one: float(suite.cells[best.case][one][BYTES]))
        held = say_bytes(float(suite.cells[best.case][most][BYTES]))
        parts.append(f"what says where the zeros are costs bytes of its own: {label(suite, most)} keeps {held}")
    return sentence("; ".join(parts)) if parts else ""


def _zips(row: Row) -> bool:
    return 0 < float(row.get(ZIPPED, 0)) < (1 - SAME) * float(row[BYTES])


def _turns(suite: SuiteRows, one: str, zeros: str) -> str:
    """With which shares of the weights a form saves, of the cases with most of them; '' where it ran with one."""
    groups = [
        [form for case in group.values() if (form := _form(suite, case, one, zeros))] for group in slices(suite, AXIS)
    ]
    forms = max(groups, key=len, default=[])
    if len(forms) < 2:
        return ""
    said = [(share(float(suite.axes[form.case][AXIS])), form.outcome) for form in forms]
    words = (f"{verb} with" for verb in ("saves", "saves nothing", "is not decided"))
    return f"{label(suite, one)}{place(suite, forms[0].case, AXIS)}: {by_size(said, *words)} of the weights kept"


def _open(suite: SuiteRows) -> str:
    """Few kept weights are where indices and values pay."""
    keeps = {float(axes[AXIS]) for axes in suite.axes.values()}
    if len(keeps) > 1:
        return ""
    return f"How few weights must stay before another form pays: only {share(keeps.pop())} of them were kept here."


def _chart(suite: SuiteRows, told: Sequence[Form], best: Form, zeros: str) -> Chart:
    """Time against bytes, of each form where it does best, and of the zeros."""
    plain = Point(str(suite.cells[best.case][zeros]["row_id"]), 1.0, x=1.0)
    points = [
        Point(str(suite.cells[one.case][one.contender]["row_id"]), one.found.ratio, one.found.low, one.found.high,
              x=one.size)
        for one in told
    ]  # fmt: skip
    name = label(suite, zeros)
    return Chart(
        "scatter", f"Time against that of {name}", (*points, plain), unit="x", axis=f"bytes against those of {name}",
        x_unit="x",
    )  # fmt: skip


PRUNED = Question(
    "pruned",
    "Why is the pruned model as large and as slow as before?",
    "sparseml 741, nni 2225, Torch-Pruning 149",
    (SUITE,),
    f"--suite {SUITE} --set pattern=matrix,neurons --set keep=0.02,0.1,0.5",
    answer,
)
