"""Why is data parallel slower than one device? And FSDP or DeepSpeed?"""

from __future__ import annotations

from collections.abc import Sequence

from bancada.questions.declare import Answer, Chart, Point, Question
from bancada.questions.evidence import Evidence, row_ids, slices
from bancada.questions.words import count, label, number, ratio, sentence
from bancada.rows import Row
from bancada.verdicts import regions
from bancada.verdicts.comparisons import Comparison, SuiteRows, high_s, low_s, outcome_of
from bancada.verdicts.figures import say_bytes, say_time
from bancada.verdicts.ranked import COLLECTIVES, link_bytes, model_state

SUITE, RANKS, SENT = "parallelism.training", "world_size", "measure.comm.bytes"
SHARDED = "zero-3"
LINK = 1.25e9
"""Bytes a second of a link of 10 Gbit/s."""
HARDLY = 0.01
"""A kind of less than this share of the largest is not worth naming, such as 8 bytes of a norm."""
KINDS = (("parameters", "parameters"), ("gradients", "gradients"), ("optimizer", "optimizer state"))


def _shared(rows: Sequence[Row]) -> str:
    """The note of ranks that share cores; '' where each has a device of its own."""
    return next((str(row["note.ranks"]) for row in rows if "note.ranks" in row), "")


def slower(evidence: Evidence) -> Answer | None:
    """Bytes a step against operations a step; step times by the number of ranks only where each has a device."""
    suite = evidence.suite(SUITE)
    plain = regions.reference(suite) if suite else ""
    cases = [case for case in suite.cells if plain in suite.ok(case)] if suite else []
    if suite is None or not cases:
        return None
    case = max(cases, key=lambda one: (int(suite.axes[one][RANKS]), len(suite.ok(one))))
    row = suite.cells[case][plain]
    if not link_bytes(row, int(suite.axes[case][RANKS])) or not row.get("flops"):
        return None
    ranks, batch = int(suite.axes[case][RANKS]), int(suite.axes[case]["batch"])
    per_rank = (
        f"{label(suite, plain)} hands over {say_bytes(float(row[SENT]))} a rank in each step, for "
        f"{number(row['flops'] / ranks / 1e9)} GFLOP of work (a batch of {count(batch // ranks, 'sequences')} a rank, "
        f"{batch} in all, {count(int(row['threads']), 'threads')} a rank)"
    )
    note = _shared(list(suite.cells[case].values()))
    scaling, ids = ("", ()) if note else _scaling(suite, plain)
    text = f"These rows cannot tell ({note}). What they show: {per_rank}" if note else f"{scaling}{per_rank}"
    why, turns = _balance(suite, case, plain, evidence)
    missing = "How a step's time changes with the number of devices takes a device for each rank." if note else ""
    shown = [one for one in suite.ok(case) if _collective(suite.cells[case][one])]
    return Answer(
        sentence(text),
        why,
        tuple(dict.fromkeys((*row_ids(suite, [case], shown), *ids))),
        _traffic(suite, case, shown),
        turns,
        missing,
    )


def _collective(row: Row) -> bool:
    """Whether it sends by collectives: messages count at both ends, and are not to be set beside them."""
    return bool(row.get(SENT)) and not any(
        name.startswith(("measure.comm.send.", "measure.comm.recv.")) for name in row
    )


def _scaling(suite: SuiteRows, plain: str) -> tuple[str, tuple[str, ...]]:
    """Step time on the most ranks against that on the fewest, at one global batch."""
    for group in slices(suite, RANKS, lambda case: plain in suite.ok(case)):
        few, many = next(iter(group)), list(group)[-1]
        if few == many:
            continue
        a, b = (suite.cells[group[x]][plain] for x in (many, few))
        low, high = low_s(a) / high_s(b), high_s(a) / low_s(b)
        found = Comparison(a["time_s"] / b["time_s"], low, high, outcome_of(low, high))
        words = {"faster": "It is not slower here", "slower": "It is slower here", "tie": "It is level here"}
        word = words.get(found.outcome, "Not decided here")
        text = f"{word}: on {many} ranks a step takes {ratio(found)} the time on {few}, at the same global batch. "
        return text, row_ids(suite, group.values(), [plain])
    return "", ()


def _balance(suite: SuiteRows, case: str, plain: str, evidence: Evidence) -> tuple[str, str]:
    """How fast a link must be for sending to take no longer than computing, by this machine's own ceiling."""
    row, axes = suite.cells[case][plain], suite.axes[case]
    ranks, batch = int(axes[RANKS]), int(axes["batch"])
    sent = link_bytes(row, ranks)
    own = float(row["flops"]) / ranks
    gradients = row.get("measure.bytes.gradients")
    same = " (one set of gradients, however small the batch)" if gradients == row[SENT] else ""
    text = (
        f"An all-reduce moves {say_bytes(sent)} over each rank's link{same}: {number(sent / own * 1e6)} bytes a MFLOP"
    )
    peak = evidence.ceilings.get(str(axes.get("dtype")))
    if not peak:
        return sentence(text), ""
    work = own / peak
    needed = sent / work / 1e9
    text += (
        f". A device that does {peak / 1e9:,.0f} GFLOP/s, as this machine was measured to, would compute for "
        f"{say_time(work)} and need a link of {needed:.3g} GB/s to send in the same time"
    )
    level = sent / LINK / (float(row["flops"]) / batch / peak)
    turns = (
        f"by these figures, at a batch of about {count(max(1, round(level)), 'sequences')} a rank for a link of "
        "10 Gbit/s: there computing takes as long as sending, and below it devices wait"
    )
    return sentence(text), turns


def _traffic(suite: SuiteRows, case: str, shown: Sequence[str]) -> Chart:
    points = tuple(
        Point(str(row["row_id"]), 1e6 * float(row[SENT]) * int(suite.axes[case][RANKS]) / float(row["flops"]))
        for one in shown
        if (row := suite.cells[case][one]).get("flops")
    )
    return Chart("lines", "Bytes handed to collectives for a MFLOP of a rank's work", points, unit="B/MFLOP")


def sharded(evidence: Evidence) -> Answer | None:
    """Model state, traffic and time of a step of FSDP2, DeepSpeed's stage 3 and ours, and whether they agree."""
    suite = evidence.suite(SUITE)
    cases = [case for case in suite.cells if len(_all(suite, case)) > 1] if suite else []
    if suite is None or not cases:
        return None
    case = max(cases, key=lambda one: (len(_all(suite, one)), int(suite.axes[one][RANKS])))
    names, rows = _all(suite, case), suite.cells[case]
    ranks = int(suite.axes[case][RANKS])
    kept = {one: size for one in names if (size := model_state(rows[one]))}
    sent = {one: link_bytes(rows[one], ranks) for one in names}
    text = (
        f"On {ranks} ranks, {_least(suite, kept, 'model state', 'a rank')}; "
        f"{_least(suite, sent, 'traffic', 'a rank and step')}. {_times(suite, case, names)}"
    )
    precision = {str(rows[one].get("precision", "one not told")) for one in names}
    error = max((float(rows[one]["error_rel"]) for one in names if "error_rel" in rows[one]), default=None)
    same = "At one precision" if len(precision) == 1 else f"At different precisions ({'; '.join(sorted(precision))})"
    far = (
        f", all leave one process's weights after five steps, to {error:.1e} of a tensor's norm"
        if error is not None
        else ""
    )
    why = f"{same}{far}. {_kinds(suite, case, names)}"
    note = _shared([rows[one] for one in names])
    chart = Chart(
        "bars", "Model state held by the fullest rank",
        tuple(_bar(rows[one]) for one in names), unit="bytes", parts=KINDS,
    )  # fmt: skip
    return Answer(sentence(text), why, row_ids(suite, [case], names), chart,
                  open=f"Which is faster where a rank has a device of its own ({note})." if note else "")  # fmt: skip


def _all(suite: SuiteRows, case: str) -> list[str]:
    """Whoever shards parameters, gradients and state, with the bytes of a rank counted."""
    rows = suite.cells[case]
    return [one for one in suite.ok(case) if rows[one]["technique"] == SHARDED and model_state(rows[one])]


def _bar(row: Row) -> Point:
    return Point(str(row["row_id"]), parts={kind: float(row.get(f"measure.bytes.{kind}", 0)) for kind, _ in KINDS})


def _least(suite: SuiteRows, values: dict[str, float], what: str, per: str) -> str:
    """`torch FSDP2 needs the least model state, 7.04 MiB a rank (DeepSpeed, stage 3: 8.8 MiB)`."""
    least = min(values.values())
    best = [one for one, value in values.items() if value <= 1.01 * least]
    rest = [f"{label(suite, one)}: {say_bytes(value)}" for one, value in values.items() if one not in best]
    if not rest:
        return f"all need as much {what}, {say_bytes(least)} {per}"
    named = " and ".join(label(suite, one) for one in best)
    return f"{named} need{'s' if len(best) == 1 else ''} the least {what}, {say_bytes(least)} {per} ({'; '.join(rest)})"


def _times(suite: SuiteRows, case: str, names: Sequence[str]) -> str:
    """Step times against FSDP2's, or whoever stands first."""
    base = next((one for one in names if "fsdp" in one), names[0])
    parts: list[str] = []
    for one in names:
        found = suite.compare(case, one, base)
        if one == base or found is None:
            continue
        apart = "" if (case, one, base) in suite.pairs else " (not in the same rounds)"
        who = f"{'one' if parts else 'a step'} of {label(suite, one)} takes"
        parts.append(f"{who} {ratio(found)} {label(suite, base)}'s time{apart}")
    return sentence(", ".join(parts))


def _kinds(suite: SuiteRows, case: str, names: Sequence[str]) -> str:
    """Where they differ by more than a twentieth, kind by kind, and in which collective."""
    rows = suite.cells[case]
    fields = [(f"measure.bytes.{kind}", title) for kind, title in KINDS]
    fields += [
        (f"measure.comm.{one}.bytes", f"{one.replace('_', '-')} a step") for one in (*COLLECTIVES, "all_reduce", "send")
    ]
    every = [(title, {one: float(rows[one].get(name, 0)) for one in names}) for name, title in fields]
    least = HARDLY * max(value for _, values in every for value in values.values())
    said = []
    for title, values in every:
        if max(values.values()) > max(1.05 * min(values.values()), least):
            said.append(
                f"{title}: " + ", ".join(f"{label(suite, one)} {say_bytes(value)}" for one, value in values.items())
            )
    return f"They differ in {'; '.join(said)}." if said else "They hold and send the same, kind by kind."


DATA_PARALLEL = Question(
    "data-parallel",
    "Why is data parallel slower than one device?",
    "4D-Humans 139, speechbrain 1096, transformers 10223, pytorch 73600",
    (SUITE,),
    f"--suite {SUITE} --set world_size=2,4",
    slower,
)
SHARDED_LIBRARIES = Question(
    "fsdp-or-deepspeed",
    "FSDP or DeepSpeed?",
    "DeepSpeed 3901, 5047; fairscale 1090; trl 1224; accelerate 2624",
    (SUITE,),
    f"--suite {SUITE} --set world_size=2",
    sharded,
)
