"""Why is LoRA no faster than full fine-tuning, why does it save no memory here, and why is freezing faster?"""

from __future__ import annotations

from collections.abc import Sequence

from bancada.questions.declare import Answer, Chart, Point, Question
from bancada.questions.evidence import Evidence, Slice, figures, row_ids, slices
from bancada.questions.words import count, label, loss_of, place, portion, ratio, sentence, turn
from bancada.rows import Row
from bancada.verdicts import regions
from bancada.verdicts.clauses import against_words, share
from bancada.verdicts.comparisons import Comparison, Outcome, SuiteRows, outcome_of
from bancada.verdicts.figures import say_bytes, say_time

COST, QUALITY = "peft.cost", "peft.quality"
LORA = "lora"
STEPS = (("forward", "forward"), ("backward", "backward"), ("optimizer", "optimizer"))
KINDS = (
    ("parameters", "weights"), ("gradients", "gradients"),
    ("optimizer", "optimizer state"), ("activations", "activations"),
)  # fmt: skip
HARDLY = 0.9


def _part(row: Row, kind: str, end: str = "") -> float:
    name = f"measure.split.{kind}_s"
    return float(row[f"{name}{end}"] if f"{name}{end}" in row else row[name])


def _is_split(row: Row) -> bool:
    return all(f"measure.split.{kind}_s" in row for kind, _ in STEPS)


def _step(suite: SuiteRows, case: str, mine: str, full: str) -> Comparison | None:
    """A whole step against another's: forward and backward as they were raced, and the optimizer's beside them."""
    raced = suite.compare(case, mine, full)
    if raced is None:
        return None
    row, usual = suite.cells[case][mine], suite.cells[case][full]
    base = float(usual["time_s"])

    def whole(ratio: float, mine_end: str, full_end: str) -> float:
        return (ratio * base + _part(row, "optimizer", mine_end)) / (base + _part(usual, "optimizer", full_end))

    middle, low, high = (
        whole(raced.ratio, "", ""),
        whole(raced.low, ".low", ".high"),
        whole(raced.high, ".high", ".low"),
    )
    return Comparison(middle, low, high, outcome_of(low, high), raced.rounds)


def no_faster(evidence: Evidence) -> Answer | None:
    """The step of LoRA and of full fine-tuning by forward, backward and optimizer, at the widest case."""
    suite = evidence.suite(COST)
    full = regions.reference(suite) if suite else ""
    cases = (
        [c for c in suite.cells if _pair_of(suite, c, full) and all(map(_is_split, _pair_of(suite, c, full)))]
        if suite
        else []
    )
    if suite is None or not cases:
        return None
    case = max(cases, key=lambda one: tuple(float(suite.axes[one].get(n, 0)) for n in ("hidden", "seq_len", "rank")))
    found = _step(suite, case, LORA, full)
    if found is None:
        return None
    names = label(suite, LORA), label(suite, full)
    start = {"slower": "Slower here", "faster": "Here it is faster", "tie": "No faster here"}
    model, whole, model_rows = _in_a_model(evidence)
    word = start.get(found.outcome, "Not decided here")
    if whole is not None and {found.outcome, whole.outcome} == {"faster", "slower"}:
        word = "It depends on the model"
    text = (
        f"{word}: a step of {names[0]} takes {ratio(found)} the time of one of {names[1]} in one block "
        f"({_place(suite, case)}){model}"
    )
    split = [one for one in suite.ok(case) if _is_split(suite.cells[case][one])]
    bars = tuple(
        Point(
            str(suite.cells[case][one]["row_id"]),
            parts={kind: _part(suite.cells[case][one], kind) for kind, _ in STEPS},
        )
        for one in split
    )
    chart = Chart("bars", "A step by part, each measured in passes of its own", bars, unit="s", parts=STEPS)
    return Answer(sentence(text), _parts_why(suite, case, full), (*row_ids(suite, [case], split), *model_rows), chart,
                  _by_axis(suite, cases, full))  # fmt: skip


def _in_a_model(evidence: Evidence) -> tuple[str, Comparison | None, tuple[str, ...]]:
    """What an update of a whole model takes, its comparison, and its rows; nothing where none was trained."""
    suite = evidence.suite(QUALITY)
    if suite is None:
        return "", None, ()
    full = regions.reference(suite)
    for case in sorted(suite.cells, key=lambda one: -len(suite.ok(one))):
        if (found := suite.compare(case, LORA, full)) is not None:
            return f"; in a whole model ({case}) it takes {ratio(found)}", found, row_ids(suite, [case], [LORA, full])
    return "", None, ()


def _pair_of(suite: SuiteRows, case: str, full: str) -> list[Row]:
    """The rows of LoRA and of full fine-tuning at a case; none where either is missing."""
    return [suite.cells[case][one] for one in (LORA, full)] if {LORA, full} <= set(suite.ok(case)) else []


def _place(suite: SuiteRows, case: str) -> str:
    axes = suite.axes[case]
    return f"width {axes['hidden']}, rank {axes['rank']}, {count(axes['seq_len'], 'tokens')} x {axes['batch']}"


def _parts_why(suite: SuiteRows, case: str, full: str) -> str:
    row, usual = _pair_of(suite, case, full)
    said = []
    for kind, title in STEPS:
        mine, theirs = _part(row, kind), _part(usual, kind)
        times = f" ({mine / theirs:.2f}x)" if theirs else ""
        said.append(f"{title} {say_time(mine)} against {say_time(theirs)}{times}")
    trained = figures([row, usual], "measure.trainable_parameters")
    few = f" though it trains {share(trained[0] / trained[1])} of the parameters" if trained else ""
    back = _part(row, "backward") / max(sum(_part(row, kind) for kind, _ in STEPS), 1e-12)
    return sentence(
        f"{'; '.join(said)}. Backward is {back:.0%} of {label(suite, LORA)}'s step{few}: the gradient still passes "
        "through every frozen weight, and what is saved are the products for the weights' own gradients and the update"
    )


def _by_axis(suite: SuiteRows, cases: Sequence[str], full: str) -> str:
    """The step's ratio along the axis of which most values were measured."""
    best: tuple[str, Slice] | None = None
    for axis in ("rank", "hidden", "seq_len"):
        [group, *_] = slices(suite, axis, lambda case: case in cases) or [{}]
        if len(group) > 1 and (best is None or len(group) > len(best[1])):
            best = axis, group
    if best is None:
        return ""
    axis, group = best
    ends = [(x, _step(suite, group[x], LORA, full)) for x in (next(iter(group)), list(group)[-1])]
    unit = {"rank": "rank {:,}", "hidden": "width {:,}", "seq_len": "{:,} tokens"}[axis]
    said = ", ".join(f"{ratio(found)} at {unit.format(x)}" for x, found in ends if found is not None)
    kinds = {found.outcome for _, found in ends if found is not None}
    word = "whether it changes is not decided" if "open" in kinds else "it changes" if len(kinds) > 1 else "nowhere"
    return f"{word} between the ends measured: {said}"


def _kinds(row: Row) -> dict[str, float] | None:
    found = {kind: row.get(f"measure.bytes.{kind}") for kind, _ in KINDS}
    held = {kind: float(value or 0) for kind, value in found.items()}
    return None if None in found.values() or not sum(held.values()) else held


def no_memory(evidence: Evidence) -> Answer | None:
    """Memory by kind of LoRA and of full fine-tuning, against the length."""
    suite = evidence.suite(COST)
    full = regions.reference(suite) if suite else ""
    if suite is None or not full:
        return None
    counted = {
        case: (mine, theirs)
        for case in suite.cells
        if (rows := _pair_of(suite, case, full)) and (mine := _kinds(rows[0])) and (theirs := _kinds(rows[1]))
    }
    groups = slices(suite, "seq_len", lambda case: case in counted)
    if not groups:
        return None
    group = groups[0]
    names, short, long = (label(suite, LORA), label(suite, full)), next(iter(group)), list(group)[-1]
    ratios = {x: sum(counted[case][0].values()) / sum(counted[case][1].values()) for x, case in group.items()}
    mine = counted[group[long]][0]
    part = mine["activations"] / sum(mine.values())
    start = "It does save" if ratios[long] < HARDLY else "It saves next to nothing"
    start = "It saves nothing" if ratios[long] >= 1 else start
    if ratios[long] > ratios[short] + 0.02:
        start += ", and less the longer the text"
    memory = f"{names[1]}'s memory"
    text = f"{start}{place(suite, group[long], 'seq_len')}: " + ", ".join(
        f"at {count(x, 'tokens')} {names[0]} needs {portion(ratios[x], memory)}" for x in dict.fromkeys((short, long))
    )
    text += f"; there {part:.0%} of it are activations"
    said: list[tuple[int, Outcome]] = [
        (x, "faster" if 2 * row["activations"] > sum(row.values()) else "slower")
        for x, row in ((x, counted[case][0]) for x, case in group.items())
    ]
    turns = turn(said, "tokens", "activations are more than half")
    return Answer(
        sentence(text), _memory_why(counted[group[long]], names, count(long, "tokens")),
        row_ids(suite, group.values(), [LORA, full]), _memory_chart(suite, group, (LORA, full), (short, long)), turns,
    )  # fmt: skip


def _memory_why(rows: tuple[dict[str, float], dict[str, float]], names: tuple[str, str], at: str) -> str:
    mine, theirs = rows
    held = [f"{title} {say_bytes(mine[kind])} in place of {say_bytes(theirs[kind])}" for kind, title in KINDS[1:3]]
    text = (
        f"At {at} {names[0]} holds {' and '.join(held)}; the weights are all still there, and for the backward pass "
        f"through them it keeps {say_bytes(mine['activations'])} of activations"
    )
    if theirs["activations"]:
        text += ", " + portion(mine["activations"] / theirs["activations"], f"{names[1]}'s")
    return text + "."


def _memory_chart(suite: SuiteRows, group: Slice, who: Sequence[str], lengths: Sequence[int]) -> Chart:
    points = tuple(
        Point(str(row["row_id"]), parts=_kinds(row) or {}, label=f"{label(suite, one)}, {count(x, 'tokens')}")
        for x in dict.fromkeys(lengths)
        for one in who
        if (row := suite.cells[group[x]][one])
    )
    return Chart("bars", "Memory of a training step, by kind", points, unit="bytes", parts=KINDS)


def slower_than_freezing(evidence: Evidence) -> Answer | None:
    """An update of LoRA beside one of the upper layer alone: how far backward goes, by time and by what it keeps."""
    suite = evidence.suite(QUALITY)
    cases = [case for case in suite.cells if {LORA, "upper"} <= set(suite.ok(case))] if suite else []
    if suite is None or not cases:
        return None
    case = max(cases, key=lambda one: float(suite.axes[one].get("updates", 0)))
    names = label(suite, LORA), label(suite, "upper")
    found = suite.compare(case, LORA, "upper")
    assert found is not None, "both were measured there"
    start = {"slower": "It is", "faster": "It is not, here", "tie": "It is not, here"}.get(
        found.outcome, "Not decided here"
    )
    text = f"{start}: an update of {names[0]} {against_words(suite, LORA, 'upper', [case])}"
    rows = [suite.cells[case][one] for one in (LORA, "upper")]
    trained, peaks = figures(rows, "measure.final.trained"), figures(rows, "peak_bytes")
    why = []
    if trained:
        more = ("fewer", "but") if trained[0] < trained[1] else ("no fewer", "and")
        why.append(
            f"{names[0]} trains {more[0]} parameters, {trained[0]:.3g}% against {trained[1]:.3g}%, {more[1]} in every "
            "layer"
        )
    if peaks and peaks[1] < peaks[0]:
        low = f"{say_bytes(peaks[1])}, {portion(peaks[1] / peaks[0], 'it')}"
        why.append(
            f"its backward pass keeps what it needs all the way down ({say_bytes(peaks[0])} at the peak) where the "
            f"other ends above the frozen layers ({low})"
        )
    shown = [one for one in ("full", LORA, "upper", "head") if one in suite.ok(case)]
    points = tuple(
        Point(str(row["row_id"]), float(row["time_s"]), row.get("time_low_s"), row.get("time_high_s"))
        for one in shown
        if (row := suite.cells[case][one])
    )
    chart = Chart("lines", "Time of an update", points, unit="s")
    return Answer(sentence(text), sentence("; ".join(why)) if why else "", row_ids(suite, [case], shown), chart,
                  _learnt(suite, case, names))  # fmt: skip


def _learnt(suite: SuiteRows, case: str, names: tuple[str, str]) -> str:
    """What the faster one gives up, by the loss over the seeds."""
    found = suite.contrasts.get((case, "final.loss", "upper", LORA))
    if found is None:
        return ""
    size = float(suite.cells[case]["upper"]["measure.final.loss"])
    return f"with what has to be learnt: after as many updates {loss_of(found, names[1], names[0], size)}"


LORA_SPEED = Question(
    "lora-speed",
    "Why is LoRA no faster than full fine-tuning, or slower?",
    "peft 664, 2063; minimind 88; ms-swift 4983; FastVideo 254",
    (COST,),
    f"--suite {COST} --set rank=4,16,64",
    no_faster,
)
LORA_MEMORY = Question(
    "lora-memory",
    "Why does LoRA save no memory here?",
    "peft 1514, 1469",
    (COST,),
    f"--suite {COST} --set seq_len=64,256,1024",
    no_memory,
)
FREEZING = Question(
    "freezing",
    "Why is LoRA slower than freezing the lower layers?",
    "LlamaFactory 5398",
    (QUALITY,),
    f"--suite {QUALITY} --contender full,lora,upper,head",
    slower_than_freezing,
)
