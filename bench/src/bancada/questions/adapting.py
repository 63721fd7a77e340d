"""Does it forget? And is a distilled half-size model better than the same model trained alone?"""

from __future__ import annotations

from bancada.questions.declare import Answer, Chart, Point, Question
from bancada.questions.evidence import Evidence, row_ids
from bancada.questions.words import any_of, label, loss_of, ratio, sentence
from bancada.rows import Row
from bancada.verdicts import regions
from bancada.verdicts.comparisons import SuiteRows
from bancada.verdicts.outcomes import level

QUALITY, DISTILLATION = "peft.quality", "compression.distillation"
GAIN, FORGETTING, LOSS, TRAINED = "final.gain", "final.forgetting", "final.loss", "final.trained"


def _spread(suite: SuiteRows, case: str, one: str, measure: str) -> str:
    """`0.33 [0.21, 0.45]`."""
    row, name = suite.cells[case][one], f"measure.{measure}"
    ends = row.get(f"{name}.low"), row.get(f"{name}.high")
    return f"{row[name]:.2f}" + (f" [{ends[0]:.2f}, {ends[1]:.2f}]" if None not in ends else "")


def forgets(evidence: Evidence) -> Answer | None:
    """Gain on the new text beside loss on the old: full fine-tuning, LoRA, and the best of each kind."""
    suite = evidence.suite(QUALITY)
    full = regions.reference(suite) if suite else ""
    fields = {f"measure.{GAIN}", f"measure.{FORGETTING}"}
    cases = [case for case in suite.cells if full in suite.ok(case)] if suite else []
    if suite is None or not cases:
        return None
    case = max(cases, key=lambda one: (len(suite.ok(one)), float(suite.axes[one].get("updates", 0))))
    known = [one for one in suite.ok(case) if fields <= set(suite.cells[case][one])]
    others = [one for one in known if one != full]
    if full not in known or not others:
        return None
    row = suite.cells[case][full]
    lora = next((one for one in others if one == "lora"), others[0])
    kept, lost = _forgotten(suite, case, full, others)
    gains, losses = ([_spread(suite, case, one, what) for one in (full, lora)] for what in (GAIN, FORGETTING))
    text = sentence(
        f"{_word(row)}: after {row['measure.updates']:,.0f} updates {label(suite, full)} gains {gains[0]} nats on the "
        f"new text and loses {losses[0]} on the old; {label(suite, lora)} gains {gains[1]} and loses {losses[1]}. "
        f"{_less(suite, kept, lost, full)}"
    )
    points = tuple(_both(suite, case, one) for one in known)
    chart = Chart(
        "scatter", "Loss on the old text", points, unit="nats", linear=True,
        axis="gain on the new text", x_unit="nats", better=("higher", "lower"),
    )  # fmt: skip
    return Answer(text, _forgets_why(suite, case, full, lora), row_ids(suite, [case], known), chart,
                  _dearest(suite, case, known))  # fmt: skip


def _word(row: Row) -> str:
    low, high = row.get(f"measure.{FORGETTING}.low"), row.get(f"measure.{FORGETTING}.high")
    if low is None or high is None:
        return "One seed only, so not decided"
    return "Yes" if low > 0 else "No" if high < 0 else "Not decided"


def _forgotten(suite: SuiteRows, case: str, full: str, others: list[str]) -> tuple[list[str], list[str]]:
    """Those that forget less than full fine-tuning, and those that forget more, as far as the seeds can tell."""
    found = {one: suite.contrasts.get((case, FORGETTING, one, full)) for one in others}
    verdicts = {one: contrast.verdict for one, contrast in found.items() if contrast is not None}
    return [one for one, said in verdicts.items() if said == "better"], [
        one for one, said in verdicts.items() if said == "worse"
    ]


def _less(suite: SuiteRows, kept: list[str], lost: list[str], full: str) -> str:
    parts = []
    if kept:
        parts.append(f"{any_of([label(suite, one) for one in kept])} {_verb(kept)} less than {label(suite, full)}")
    if lost:
        than = "" if kept else f" than {label(suite, full)}"
        parts.append(f"{any_of([label(suite, one) for one in lost])} {_verb(lost)} more{than}")
    if not parts:
        return f"Between {label(suite, full)} and the others nothing is decided in what they forget"
    return sentence(", ".join(parts))


def _verb(names: list[str]) -> str:
    return "forget" if len(names) > 1 else "forgets"


def _both(suite: SuiteRows, case: str, one: str) -> Point:
    row = suite.cells[case][one]
    y, x = f"measure.{FORGETTING}", f"measure.{GAIN}"
    return Point(
        str(row["row_id"]), float(row[y]), row.get(f"{y}.low"), row.get(f"{y}.high"),
        x=float(row[x]), x_low=row.get(f"{x}.low"), x_high=row.get(f"{x}.high"),
    )  # fmt: skip


def _forgets_why(suite: SuiteRows, case: str, full: str, lora: str) -> str:
    """How much of the model moves, and what each gained nat costs."""
    parts = []
    for one in (full, lora):
        row = suite.cells[case][one]
        if f"measure.{TRAINED}" not in row:
            return ""
        each = _cost(suite, case, one)
        cost = f", and pays {each:.2f} nats on the old text for each it gains" if each and each > 0 else ""
        parts.append(f"{label(suite, one)} trains {row[f'measure.{TRAINED}']:.3g}% of the parameters{cost}")
    return sentence("; ".join(parts))


def _cost(suite: SuiteRows, case: str, one: str) -> float | None:
    row = suite.cells[case][one]
    gain = float(row[f"measure.{GAIN}"])
    return float(row[f"measure.{FORGETTING}"]) / gain if gain > 0 else None


def _dearest(suite: SuiteRows, case: str, known: list[str]) -> str:
    """Who pays least and who most for a gained nat: a small share of trained parameters alone does not protect."""
    costs = {one: cost for one in known if (cost := _cost(suite, case, one)) is not None}
    if len(costs) < 2:
        return ""
    least, most = min(costs, key=costs.__getitem__), max(costs, key=costs.__getitem__)
    said = [f"{label(suite, one)} ({costs[one]:.2f} nats lost a nat gained)" for one in (least, most)]
    those = "of those that gain, " if len(costs) < len(known) else ""
    return f"with what is trained: {those}{said[0]} pays least and {said[1]} most"


def distilled(evidence: Evidence) -> Answer | None:
    """Final loss over the seeds at equal updates, beside the price of an update."""
    suite = evidence.suite(DISTILLATION)
    alone = regions.reference(suite) if suite else ""
    cases = [case for case in suite.cells if alone in suite.ok(case) and len(suite.ok(case)) > 1] if suite else []
    if suite is None or not cases:
        return None
    cases.sort(key=lambda case: -float(suite.axes[case].get("updates", 0)))
    texts: list[str] = []
    turns: list[str] = []
    ids: tuple[str, ...] = ()
    dearer = False
    for case in cases:
        mine = max((one for one in suite.ok(case) if one != alone), key=lambda one: suite.entrants[one].ours)
        found, times = suite.contrasts.get((case, LOSS, mine, alone)), suite.compare(case, mine, alone)
        if found is None or times is None:
            continue
        row = suite.cells[case][mine]
        size = float(row[f"measure.{LOSS}"])
        open_word = "Neither better nor worse" if level(found, size) else "Not decided"
        word = {"better": "Yes", "worse": "No"}.get(found.verdict, open_word)
        seeds = f"over {row['measure.seeds']:.0f} seeds{_start(suite, case)}"
        texts.append(
            f"{word}: after {row['measure.updates']:,.0f} updates, {seeds}, "
            f"{loss_of(found, f'the one {label(suite, mine)}', f'the one {label(suite, alone)}', size)}"
        )
        turns.append(f"an update takes {ratio(times)} the time of one alone{_start(suite, case)}")
        dearer |= times.outcome == "slower"
        ids = (*ids, *row_ids(suite, [case], [mine, alone]))
    if not texts:
        return None
    why = f"The teacher runs forward too, and {'; '.join(turns)}."
    if dearer:
        why += " At equal time the one trained alone would have as many times the updates, which it did not get here."
    first = row_ids(suite, cases[:1], suite.entrants)
    chart = Chart("curves", "Loss on held-out text against updates", tuple(map(Point, first)), axis="updates")
    return Answer(sentence(". ".join(texts)), why, ids, chart)


def _start(suite: SuiteRows, case: str) -> str:
    several = len({axes.get("start") for axes in suite.axes.values()}) > 1
    words = {"layers": "the teacher's layers", "random": "random weights"}
    start = str(suite.axes[case].get("start"))
    return f", started from {words.get(start, start)}" if several else ""


FORGETS = Question(
    "forgetting",
    "Does it forget? (adapters, full fine-tuning)",
    "",
    (QUALITY,),
    f"--suite {QUALITY} --set updates=100 --seeds 5",
    forgets,
)
DISTILLED = Question(
    "distillation",
    "Is a distilled half-size model better than the same model trained alone?",
    "",
    (DISTILLATION,),
    f"--suite {DISTILLATION} --seeds 5",
    distilled,
)
