"""Shouldn't int8 or int4 be faster?"""

from __future__ import annotations

from bancada.questions.charts import times_against
from bancada.questions.declare import Answer, Chart, Question
from bancada.questions.evidence import Evidence, Slice, both, figures, row_ids, slices
from bancada.questions.words import by_size, count, label, sentence
from bancada.verdicts import regions
from bancada.verdicts.clauses import against_words, share, times
from bancada.verdicts.comparisons import Outcome, SuiteRows, in_order
from bancada.verdicts.figures import say_bytes

SUITE, AXIS, UNIT = "compression.speed", "tokens", "tokens"
DENSE, ASKED = "dense-linear", (8, 4)
COPIED = 0.95
"""A call that holds as much more than the dense one as this share of the dense weight makes a copy of it."""


def answer(evidence: Evidence) -> Answer | None:
    """For each number of bits: the quantised product that does best, against the dense one, over tokens."""
    suite = evidence.suite(SUITE)
    plain = regions.reference(suite) if suite else ""
    if suite is None or not plain:
        return None
    found = [one for bits in _bits(suite) if (one := _best(suite, bits, plain))]
    if not found:
        return None
    texts = [_said(suite, bits, group, mine, plain) for bits, group, mine in found]
    outcomes = {outcome for _, group, mine in found for _, outcome in _outcomes(suite, group, mine, plain)}
    start = "It depends on the tokens and the bits: "
    if "faster" not in outcomes:
        start = "Not shown here: " if "open" in outcomes else "Not here: "
    elif outcomes <= {"faster", "open"}:
        start = "Yes, where it is decided: " if "open" in outcomes else "Yes, here: "
    text = sentence(start + "; ".join(texts))
    cases = [case for _, group, _ in found for case in group.values()]
    names = [mine for _, _, mine in found]
    words = ("faster at", "not faster at", "not decided at")
    turns = "; ".join(
        f"{bits} bits: {by_size(_outcomes(suite, group, mine, plain), *words)}" for bits, group, mine in found
    )
    return Answer(
        text, _why(suite, *found[-1][1:], plain), row_ids(suite, cases, [*names, plain]),
        _chart(suite, found, plain), turns,
    )  # fmt: skip


Best = tuple[int, Slice, str]


def _bits(suite: SuiteRows) -> list[int]:
    """Those that are asked about, else all; the most bits first."""
    every = [int(bits) for bits in reversed(in_order({axes.get("bits") for axes in suite.axes.values()})) if bits]
    return [bits for bits in every if bits in ASKED] or every


def _best(suite: SuiteRows, bits: int, plain: str) -> Best | None:
    """Of one number of bits: who is the fastest at the fewest tokens, where a quantised product should shine."""
    groups = slices(suite, AXIS, lambda case: suite.axes[case].get("bits") == bits and plain in suite.ok(case))
    if not groups:
        return None
    group = groups[0]
    small = next(iter(group.values()))
    rows = suite.cells[small]
    quantised = [one for one in suite.ok(small) if rows[one]["technique"] != DENSE]
    mine = regions.fastest(suite, quantised, [small])
    return (bits, both(suite, group, mine, plain), mine) if mine else None


def _outcomes(suite: SuiteRows, group: Slice, mine: str, plain: str) -> list[tuple[str, Outcome]]:
    found = ((x, suite.compare(case, mine, plain)) for x, case in group.items())
    return [(count(x, UNIT), one.outcome) for x, one in found if one is not None]


def _said(suite: SuiteRows, bits: int, group: Slice, mine: str, plain: str) -> str:
    """`with 8 bits, int8 (ours) is ... at 1 token and ... at 256 tokens`."""
    ends = list(dict.fromkeys((next(iter(group)), list(group)[-1])))
    said = [f"{against_words(suite, mine, plain, [group[x]])} at {count(x, UNIT)}" for x in ends]
    return f"the fastest with {bits} bits, {label(suite, mine)}, {', and '.join(said)}"


def _why(suite: SuiteRows, group: Slice, mine: str, plain: str) -> str:
    """The bytes of the weights, how near to its limit the dense product is, and whether the weights are unpacked."""
    few, many = next(iter(group)), list(group)[-1]
    row, dense = suite.cells[group[few]][mine], suite.cells[group[few]][plain]
    kept = figures([row, dense], "measure.bytes")
    parts = []
    if kept:
        parts.append(f"of the bytes of the dense weights {label(suite, mine)} keeps {share(kept[0] / kept[1])} "
                     f"({say_bytes(kept[0])}), and does the same multiplications")  # fmt: skip
    shares = figures([suite.cells[group[x]][plain] for x in (few, many)], "compute_share")
    if len(shares) == 2 and shares[0] < shares[1]:
        parts.append(
            f"the dense product reaches {shares[0]:.0%} of this machine's arithmetic at {count(few, UNIT)}, where "
            f"fewer bytes can help, and {shares[1]:.0%} at {count(many, UNIT)}, where they help less"
        )
    held = float(row.get("peak_bytes", 0))
    part = (held - float(dense.get("peak_bytes", 0))) / kept[1] if kept else 0.0
    if part >= COPIED:
        whole = "as much as" if part < 1.05 else times(part)
        parts.append(
            f"a call holds {say_bytes(held)} beside its inputs, {whole} the whole dense weight: the weights are "
            "unpacked before they are multiplied, which moves bytes instead of saving them"
        )
    elif held and kept:
        parts.append(f"a call holds {say_bytes(held)} beside its inputs: the weights are never unpacked whole")
    return sentence("; ".join(parts)) if parts else ""


def _chart(suite: SuiteRows, found: list[Best], plain: str) -> Chart:
    lines = [(mine, group, f"{label(suite, mine)}, {bits} bits") for bits, group, mine in found]
    return times_against(suite, plain, AXIS, lines)


QUANTISED = Question(
    "quantised-speed",
    "Shouldn't int8 or int4 be faster?",
    "LLaVA 941, FastChat 1698, mlx 846, GPTQ-for-LLaMa 252, transformers 24762",
    (SUITE,),
    f"--suite {SUITE} --set tokens=1,16,256 --set bits=4,8",
    answer,
)
