"""Does checkpointing slow training down?"""

from __future__ import annotations

import math

from bancada.questions.declare import Answer, Chart, Point, Question
from bancada.questions.evidence import Evidence, Slice, both, figures, row_ids, slices
from bancada.questions.words import count, label, portion, ratio, sentence
from bancada.rows import Row
from bancada.verdicts import regions
from bancada.verdicts.clauses import against_words, median_ratio
from bancada.verdicts.comparisons import SuiteRows, high_s, low_s, outcome_of
from bancada.verdicts.figures import say_bytes

SUITE, AXIS, UNIT = "parallelism.checkpointing", "layers", "layers"
TECHNIQUE = "activation-checkpointing"
ABOUT_EQUAL = 1.02
"""Memory within this factor of another's is equal to it."""
FORWARD_AGAIN = 8 / 6
"""Products of a step: two forward and four backward; two more where forward runs again."""


def answer(evidence: Evidence) -> Answer | None:
    """Time and memory at equal batch; throughput at equal memory where several batches were measured."""
    suite = evidence.suite(SUITE)
    plain = regions.reference(suite) if suite else ""
    if suite is None or not plain:
        return None
    kinds = {row["contender"]: row["technique"] for case in suite.cells.values() for row in case.values()}
    ours = [one for one, kind in kinds.items() if kind == TECHNIQUE and suite.entrants[one].ours]
    mine = regions.fastest(suite, ours) or regions.fastest(suite, [o for o, k in kinds.items() if k == TECHNIQUE])
    groups = [group for one in slices(suite, AXIS) if (group := both(suite, one, mine, plain))]
    if not groups:
        return None
    group = groups[0]
    deepest = list(group)[-1]
    case = group[deepest]
    found, memory = suite.compare(case, mine, plain), median_ratio(suite, mine, plain, [case], "peak_bytes")
    assert found is not None, "both were measured there"
    start = {"slower": "At equal batch yes", "faster": "No, not even at equal batch", "tie": "No, it is level"}
    text = (
        f"{start.get(found.outcome, 'At equal batch that is not decided')}: with {count(deepest, UNIT)}, "
        f"{label(suite, mine)} {against_words(suite, mine, plain, [case])}"
    )
    text += f", and holds {portion(memory, 'its memory')}" if memory else ""
    equal = _at_equal_memory(suite, mine, plain)
    shares = figures([suite.cells[case][one] for one in (mine, plain)], "compute_share")
    why = (
        f"Forward runs a second time: 8 products in place of 6 would take {FORWARD_AGAIN:.2f}x the time, and "
        f"{ratio(found)} was measured"
    )
    why += (
        f" (useful work at {shares[0]:.0%} of this machine's arithmetic instead of {shares[1]:.0%})" if shares else ""
    )
    missing = "Whether the freed memory pays in throughput takes rows at more batches: add `--set batch=4,8,12`."
    return Answer(
        sentence(f"{text}. {equal}" if equal else text), sentence(why),
        row_ids(suite, suite.cells if equal else group.values(), [*ours, plain]),
        _chart(suite, group, [plain, *ours]), _memory_turn(suite, group, mine, plain), "" if equal else missing,
    )  # fmt: skip


Batch = tuple[int, Row]
"""Its size, and the row measured with it."""


def _at_equal_memory(suite: SuiteRows, mine: str, plain: str) -> str:
    """Sequences a second in the memory that a batch takes with everything kept, at the depth with most batches."""
    groups = [group for one in slices(suite, "batch") if len(group := both(suite, one, mine, plain)) > 1]
    for group in groups:
        kept = {x: suite.cells[case][plain] for x, case in group.items()}
        again = {x: suite.cells[case][mine] for x, case in group.items()}
        for batch in kept:
            room = kept[batch].get("peak_bytes")
            fits = [x for x in again if room and again[x].get("peak_bytes", math.inf) <= ABOUT_EQUAL * room]
            if fits and max(fits) > batch:
                return _throughput(suite, group[batch], plain, (batch, kept[batch]), (max(fits), again[max(fits)]))
    return ""


def _throughput(suite: SuiteRows, case: str, plain: str, kept: Batch, again: Batch) -> str:
    """`In the 38 MiB of 4 sequences with everything kept it takes 12 (39 MiB), and does fewer a second: ..`."""
    (small, usual), (large, row) = kept, again
    gain = (large / float(row["time_s"])) / (small / float(usual["time_s"]))
    low = (large / high_s(row)) / (small / low_s(usual))
    high = (large / low_s(row)) / (small / high_s(usual))
    words = {"slower": "more", "faster": "fewer", "tie": "as many"}  # of sequences, more is better
    word = words.get(outcome_of(low, high), "no more and no fewer, as far as one can tell,")
    depth = count(suite.axes[case][AXIS], UNIT)
    room, held = (say_bytes(float(one["peak_bytes"])) for one in (usual, row))
    much = "At equal memory" if row["peak_bytes"] * ABOUT_EQUAL >= usual["peak_bytes"] else "In no more memory"
    return (
        f"{much}, with {depth}, where {small} sequences with everything kept take {room}, it takes {large} "
        f"({held}), and does {word} sequences a second: {gain:.2f}x [{low:.2f}, {high:.2f}] those of "
        f"{label(suite, plain)}."
    )


def _memory_turn(suite: SuiteRows, group: Slice, mine: str, plain: str) -> str:
    """How the saving grows with depth."""
    said = [
        f"{portion(value, 'the memory')} with {count(x, UNIT)}"
        for x in dict.fromkeys((next(iter(group)), list(group)[-1]))
        if (value := median_ratio(suite, mine, plain, [group[x]], "peak_bytes")) is not None
    ]
    return f"with depth: {', '.join(said)}" if len(said) > 1 else ""


def _chart(suite: SuiteRows, group: Slice, contenders: list[str]) -> Chart:
    points = tuple(
        Point(str(row["row_id"]), float(row["peak_bytes"]), x=x)
        for one in contenders
        for x, case in group.items()
        if one in suite.ok(case) and "peak_bytes" in (row := suite.cells[case][one])
    )
    return Chart("lines", "Peak memory of forward and backward", points, unit="bytes", axis=AXIS)


CHECKPOINTING = Question(
    "checkpointing",
    "Does checkpointing slow training down?",
    "ml-engineering 64",
    (SUITE,),
    f"--suite {SUITE} --set layers=4,8,16 --set batch=4,8,12",
    answer,
)
