"""Is 8-bit AdamW worse, slower, smaller? And is Muon's slower step worth it?"""

from __future__ import annotations

from bancada.questions.declare import Answer, Chart, Point, Question
from bancada.questions.evidence import Evidence, figures, row_ids
from bancada.questions.words import label, loss_of, ratio, sentence
from bancada.verdicts import regions
from bancada.verdicts.clauses import against_words, share
from bancada.verdicts.comparisons import Comparison, SuiteRows
from bancada.verdicts.figures import say_time
from bancada.verdicts.outcomes import level, spread

TRAINING, STEP, STATE = "optimizers.convergence", "optimizers.step", "optimizers.state"
EIGHT, PLAIN = "adamw-8bit", "adamw"
LOSS = "final.loss"


def _of(suite: SuiteRows, case: str, technique: str) -> list[str]:
    return [one for one in suite.ok(case) if suite.cells[case][one]["technique"] == technique]


def _mine(suite: SuiteRows, case: str, technique: str) -> str:
    """Ours of a technique, the fastest where there are several; a peer where none of ours was measured."""
    found = _of(suite, case, technique)
    ours = [one for one in found if suite.entrants[one].ours]
    return regions.fastest(suite, ours or found, [case])


def _longest(suite: SuiteRows, technique: str) -> str:
    """The case with most updates in which a technique was trained beside the reference."""
    known = [case for case in suite.cells if _of(suite, case, technique) and regions.reference(suite) in suite.ok(case)]
    return max(known, key=lambda case: float(suite.axes[case].get("updates", 0)), default="")


def _seeds(suite: SuiteRows, case: str, one: str) -> str:
    row = suite.cells[case][one]
    return f"after {row['measure.updates']:,.0f} updates, over {row['measure.seeds']:.0f} seeds"


def eight_bits(evidence: Evidence) -> Answer | None:
    """Loss over the seeds, time of a step, bytes of the state: one of them at least, the others if they are there."""
    asked = {"the loss": _worse, "the time of a step": _slower, "the state": _smaller}
    every = {name: part(evidence) for name, part in asked.items()}
    found = [part for part in every.values() if part is not None]
    if not found:
        return None
    missing = [name for name, part in every.items() if part is None]
    return Answer(
        " ".join(text for text, *_ in found),
        " ".join(why for _, why, *_ in found if why),
        tuple(row for _, _, ids, _ in found for row in ids),
        next((chart for *_, chart in found if chart is not None), None),
        open=f"Not measured in this run: {' and '.join(missing)}." if missing else "",
    )


Part = tuple[str, str, tuple[str, ...], Chart | None]


def _worse(evidence: Evidence) -> Part | None:
    suite = evidence.suite(TRAINING)
    case = _longest(suite, EIGHT) if suite else ""
    if suite is None or not case:
        return None
    plain, mine = regions.reference(suite), _mine(suite, case, EIGHT)
    found = suite.contrasts.get((case, LOSS, mine, plain))
    if found is None:
        return None
    size = float(suite.cells[case][mine][f"measure.{LOSS}"])
    said = loss_of(found, label(suite, mine), label(suite, plain), size)
    open_word = "Not worse" if level(found, size) else "Whether it is worse is not decided"
    word = {"worse": "Worse", "better": "Not worse, but better"}.get(found.verdict, open_word)
    rates, how = figures([suite.cells[case][one] for one in (mine, plain)], "hyper.lr"), ""
    if rates:
        apart = f"tuned apart, to rates of {rates[0]:.2g} and {rates[1]:.2g}"
        alike = f"both tuned to a rate of {rates[0]:.2g}" if rates[0] == rates[1] else apart
        how = f"; decay and schedule are the same, {alike}"
    text = f"{word}: {_seeds(suite, case, mine)}, {said}{how}."
    ids = row_ids(suite, [case], [mine, plain, *_of(suite, case, EIGHT)])
    return text, "", ids, Chart("curves", "Loss on held-out text against updates", _points(ids), axis="updates")


def _points(ids: tuple[str, ...]) -> tuple[Point, ...]:
    return tuple(Point(row) for row in ids)


def _slower(evidence: Evidence) -> Part | None:
    """A step beside the fastest of 32 bits, at the largest width."""
    suite = evidence.suite(STEP)
    cases = [case for case in suite.cells if _of(suite, case, EIGHT) and _of(suite, case, PLAIN)] if suite else []
    if suite is None or not cases:
        return None
    case = max(cases, key=lambda one: float(suite.axes[one].get("width", 0)))
    mine, plain = _mine(suite, case, EIGHT), regions.fastest(suite, _of(suite, case, PLAIN), [case])
    width = suite.axes[case]["width"]
    text = f"At width {width}, a step of {label(suite, mine)} {against_words(suite, mine, plain, [case])}."
    row, usual = suite.cells[case][mine], suite.cells[case][plain]
    why = (
        f"A step reads the state, works in 32 bits and rounds it to 8 again: {say_time(float(row['time_s']))} against "
        f"{say_time(float(usual['time_s']))} for the same parameters."
    )
    return text, why, row_ids(suite, [case], [mine, plain]), None


def _smaller(evidence: Evidence) -> Part | None:
    suite, name = evidence.suite(STATE), "measure.bytes_per_parameter"
    cases = [case for case in suite.cells if _of(suite, case, EIGHT) and _of(suite, case, PLAIN)] if suite else []
    if suite is None or not cases:
        return None
    case = max(cases, key=lambda one: float(suite.axes[one].get("width", 0)))
    mine, plain = _mine(suite, case, EIGHT), regions.reference(suite)
    if plain not in suite.ok(case):
        plain = _mine(suite, case, PLAIN)
    kept = figures([suite.cells[case][one] for one in (mine, plain)], name)
    if not kept:
        return None
    a, b = kept
    word = "smaller" if a < 0.95 * b else "no smaller"
    text = f"Its state is {word}: {a:.2f} bytes a parameter where {label(suite, plain)} keeps {b:.2f} ({share(a / b)})."
    why = (
        f"Both moments take a byte each and a scale a block, {a:.2f} bytes in all; parameters and gradients keep "
        "their 8 bytes (fp32), so the whole model state falls by less."
    ) if word == "smaller" else ""  # fmt: skip
    shown = [plain, *(one for one in _of(suite, case, EIGHT) if name in suite.cells[case][one])]
    points = tuple(Point(str(row["row_id"]), float(row[name])) for one in shown if (row := suite.cells[case][one]))
    chart = Chart("lines", "Bytes of state a parameter", points, unit="bytes")
    return text, why, row_ids(suite, [case], shown), chart


def muon(evidence: Evidence) -> Answer | None:
    """Step time x updates to the target, beside the reference's."""
    suite = evidence.suite(TRAINING)
    case = _longest(suite, "muon") if suite else ""
    if suite is None or not case:
        return None
    plain, mine = regions.reference(suite), _mine(suite, case, "muon")
    times, loss = suite.compare(case, mine, plain), suite.contrasts.get((case, LOSS, mine, plain))
    if times is None or loss is None:
        return None
    final = float(suite.cells[case][mine][f"measure.{LOSS}"])
    names = label(suite, mine), label(suite, plain)
    said = loss_of(loss, *names, final)
    worth, turns = _to_target(suite, case, mine, plain)
    text = sentence(
        f"{worth} An update of {names[0]} takes {ratio(times)} {names[1]}'s time; {_seeds(suite, case, mine)}, {said}"
    )
    ids = row_ids(suite, [case], [mine, plain, *_of(suite, case, "muon")])
    why = _muon_why(suite, case, mine, plain, times)
    chart = Chart("curves", "Loss on held-out text against seconds of updates", _points(ids), axis="seconds")
    return Answer(text, why, ids, chart, turns)


def _to_target(suite: SuiteRows, case: str, mine: str, plain: str) -> tuple[str, str]:
    """Whether it is worth its step, by seconds to the target; and where that turns."""
    row, usual = suite.cells[case][mine], suite.cells[case][plain]
    target = row.get("measure.target")
    needed = [one.get("measure.updates_to_target") for one in (row, usual)]
    if target is None:
        return "Not to be told by a target: these rows name none.", ""
    if None in needed:
        who = [label(suite, one) for one, n in zip((mine, plain), needed, strict=True) if n is None]
        return f"Not to be told by a target: {' and '.join(who)} did not reach it in every seed.", ""
    spent = [float(one["measure.seconds_to_target"]) for one in (row, usual)]
    found = suite.contrasts.get((case, "seconds_to_target", mine, plain))
    words = {"better": "Yes", "worse": "No"}
    word = words.get(found.verdict, "Not decided") if found else "Not decided"
    gap = f": a difference of {spread(found.difference, found.low, found.high, '+', 's')}" if found else ""
    text = (
        f"{word}: to a loss of {target:g} {label(suite, mine)} needs {needed[0]:,.0f} updates and "
        f"{say_time(spent[0])}, where {label(suite, plain)} needs {needed[1]:,.0f} and {say_time(spent[1])}{gap}."
    )
    times = suite.compare(case, mine, plain)
    if times is None or not needed[0]:
        return text, ""
    if needed[0] >= needed[1]:
        return text, f"where it saves updates; to this target it saves none, and each takes {ratio(times)}"
    fewer = f"{needed[1] / needed[0]:.2f}x {label(suite, plain)}'s"
    return text, f"where an update costs {fewer}, as many times as it saves updates; here it is {ratio(times)}"


def _muon_why(suite: SuiteRows, case: str, mine: str, plain: str, found: Comparison) -> str:
    """What the step adds: the rest of an update is the same for both."""
    rows = [suite.cells[case][one] for one in (mine, plain)]
    spent = [float(row["time_s"]) for row in rows]
    text = "Forward and backward are the same; "
    if found.outcome == "slower":
        longer = say_time(spent[1] * (found.ratio - 1))
        text += f"the products of Newton-Schulz make an update {longer} longer"
    else:
        text += "with the products of Newton-Schulz an update is not shown to take longer"
    text += f" ({say_time(spent[0])} against {say_time(spent[1])})"
    kept = figures(rows, "measure.bytes.optimizer")
    if kept:
        text += f", and its state takes {share(kept[0] / kept[1])} of {label(suite, plain)}'s"
    return text + "."


EIGHT_BITS = Question(
    "adamw-8bit",
    "Is 8-bit AdamW worse, slower, smaller?",
    "unsloth 102, alpaca-lora 97, bitsandbytes 13",
    (TRAINING, STEP, STATE),
    "--only optimizers",
    eight_bits,
)
MUON = Question(
    "muon",
    "Muon's step is slower: is it worth it?",
    "Moonlight 33",
    (TRAINING,),
    f"--suite {TRAINING} --set updates=200 --seeds 5",
    muon,
)
