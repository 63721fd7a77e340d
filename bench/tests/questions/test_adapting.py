"""Does it forget? Is a distilled model better than one trained alone?"""

from __future__ import annotations

from typing import Any

import pytest
from _asked import answer, contrast, evidence, raced

from bancada.questions.adapting import DISTILLED, FORGETS

QUALITY = {"full": "full-fine-tuning", "lora": "lora", "head": "freezing", "upper": "freezing"}


Losses = dict[str, tuple[float, float]]


def adapted(losses: Losses, gaps: Losses, updates: int = 100, **gained: float) -> list[Any]:
    """By method: forgetting with its half-width; and against full fine-tuning what the seeds say of it."""
    axes = {"task": "kjv", "updates": updates}
    gains = {"full": 3.0, "lora": 2.5, "head": 1.0, "upper": 1.5} | gained
    trained = {"full": 100.0, "lora": 7.0, "head": 20.0, "upper": 30.0}
    fields = {
        one: {
            "measure.updates": float(updates), "measure.final.gain": gains[one],
            "measure.final.gain.low": gains[one] - 0.1,
            "measure.final.gain.high": gains[one] + 0.1, "measure.final.trained": trained[one],
            "measure.final.forgetting": value, "measure.final.forgetting.low": value - half,
            "measure.final.forgetting.high": value + half,
        }
        for one, (value, half) in losses.items()
    }  # fmt: skip
    rows = raced(
        "peft.quality",
        axes,
        dict.fromkeys(losses, 0.05),
        QUALITY,
        reference="full",
        ours=["lora", "head", "upper"],
        fields=fields,
    )
    return rows + [contrast("peft.quality", axes, "final.forgetting", one, "full", *gap) for one, gap in gaps.items()]


def test_it_forgets_and_who_less_and_who_more() -> None:
    losses = {"full": (0.6, 0.2), "lora": (0.25, 0.1), "head": (0.9, 0.1)}
    found = answer(FORGETS, adapted(losses, {"lora": (-0.35, 0.1), "head": (0.3, 0.1)}))
    assert found.sentence == (
        "Yes: after 100 updates full gains 3.00 [2.90, 3.10] nats on the new text and loses 0.60 [0.40, 0.80] on the "
        "old; lora gains 2.50 [2.40, 2.60] and loses 0.25 [0.15, 0.35]. Lora forgets less than full, head forgets more."
    )
    assert "Full trains 100% of the parameters, and pays 0.20 nats on the old text for each it gains" in found.why
    assert found.turns == (
        "with what is trained: lora (0.10 nats lost a nat gained) pays least and head (0.90 nats lost a nat gained) "
        "most"
    )
    assert found.chart is not None and found.chart.kind == "scatter" and found.chart.better == ("higher", "lower")
    assert [(point.x, point.y) for point in found.chart.points] == [(3.0, 0.6), (2.5, 0.25), (1.0, 0.9)]
    [point, *_] = found.chart.points
    ends = (point.x_low, point.x_high, point.low, point.high)
    assert ends == pytest.approx((2.9, 3.1, 0.4, 0.8)) and found.chart.linear
    assert (found.chart.unit, found.chart.x_unit, found.chart.axis) == ("nats", "nats", "gain on the new text")


def test_it_does_not_forget_and_not_decided() -> None:
    found = answer(FORGETS, adapted({"full": (-0.3, 0.1), "lora": (0.0, 0.1)}, {"lora": (0.3, 0.5)}))
    assert found.sentence.startswith("No: after") and found.sentence.endswith("is decided in what they forget.")
    assert found.why == "Full trains 100% of the parameters; lora trains 7% of the parameters."
    assert "full (-0.10 nats lost a nat gained) pays least" in found.turns
    assert answer(FORGETS, adapted({"full": (0.1, 0.3), "lora": (0.0, 0.1)}, {})).sentence.startswith("Not decided: ")


def test_who_forgets_less_or_more_alone_and_whose_gain_is_nothing() -> None:
    losses = {"full": (0.6, 0.2), "lora": (0.2, 0.1), "head": (0.3, 0.1), "upper": (0.9, 0.1)}
    less, more = (-0.3, 0.1), (0.3, 0.1)
    said = {
        "Lora and head forget less than full": {"lora": less, "head": less},
        "Lora forgets less than full, head and upper forget more": {"lora": less, "head": more, "upper": more},
        "Upper forgets more than full": {"upper": more, "head": (0.1, 0.3)},
    }
    for text, gaps in said.items():
        assert answer(FORGETS, adapted(losses, gaps)).sentence.endswith(f" loses 0.20 [0.10, 0.30]. {text}.")
    found = answer(FORGETS, adapted(losses, {}, upper=0.0))
    assert found.turns == (
        "with what is trained: of those that gain, lora (0.08 nats lost a nat gained) pays least and head (0.30 nats "
        "lost a nat gained) most"
    )
    assert answer(FORGETS, adapted(losses, {}, full=-1, lora=0.0)).why == (
        "Full trains 100% of the parameters; lora trains 7% of the parameters."
    )
    gained = {"full": 3.0, "lora": 0.0, "head": 0.0, "upper": 0.0}
    assert answer(FORGETS, adapted(losses, {}, **gained)).turns == ""


def test_forgetting_is_told_of_the_case_with_most_methods_then_of_most_updates() -> None:
    few: Losses = {"full": (0.6, 0.2), "lora": (0.2, 0.1)}
    rows = adapted(few | {"head": (0.3, 0.1)}, {}, 20) + adapted(few, {}, 200)
    assert "after 20 updates" in answer(FORGETS, rows).sentence
    assert "after 200 updates" in answer(FORGETS, adapted(few, {}, 20) + adapted(few, {}, 200)).sentence
    without = [row for row in adapted(few | {"upper": (0.3, 0.1), "head": (0.3, 0.1)}, {}, 300)
               if row.get("contender") != "full" and row["kind"] == "cell"]  # fmt: skip
    for ordered in (without + rows, rows + without):
        assert "after 20 updates" in answer(FORGETS, ordered).sentence
    last = answer(FORGETS, adapted({"full": (0.6, 0.2), "head": (0.3, 0.1), "lora": (0.2, 0.1)}, {}))
    assert "; lora gains 2.50" in last.sentence
    other = answer(FORGETS, adapted({"full": (0.6, 0.2), "head": (0.3, 0.1), "upper": (0.9, 0.1)}, {}))
    assert "; head gains 1.00 [0.90, 1.10] and loses" in other.sentence  # without LoRA


def test_one_seed_decides_nothing_and_an_end_at_nothing_neither() -> None:
    rows = adapted({"full": (0.2, 0.2), "lora": (0.2, 0.1)}, {})
    assert answer(FORGETS, rows).sentence.startswith("Not decided: ")
    assert answer(FORGETS, adapted({"full": (-0.2, 0.2), "lora": (0.2, 0.1)}, {})).sentence.startswith("Not decided: ")
    for end in (".low", ".high"):
        alone = [{name: value for name, value in row.items() if not name.endswith(end)} for row in rows]
        said = answer(FORGETS, alone).sentence
        assert said.startswith("One seed only, so not decided: after 100 updates full gains 3.00 nats on the new text")
        assert " and loses 0.20 on the old; lora gains 2.50 and loses 0.20. " in said
    rows[0] |= {"measure.final.forgetting.low": 1, "measure.final.forgetting.high": 2}  # as whole numbers are written
    assert answer(FORGETS, rows).sentence.startswith("Yes: ")


def test_methods_without_their_figures_are_left_out() -> None:
    losses: Losses = {"full": (0.6, 0.2), "lora": (0.2, 0.1), "head": (0.3, 0.1)}
    for name, said in (("full", None), ("lora", "head gains"), ("head", "lora gains")):
        rows = adapted(losses, {})
        [row] = [row for row in rows if row.get("contender") == name]
        del row["measure.final.gain"]
        found = FORGETS.put(evidence(rows))
        assert found is None if said is None else found is not None and said in found.sentence
    rows = adapted(losses, {})
    assert answer(FORGETS, [row for row in rows if row.get("contender") != "lora"]).why
    del rows[1]["measure.final.trained"]
    assert answer(FORGETS, rows).why == ""
    assert FORGETS.put(evidence(adapted({"full": (0.6, 0.2)}, {}))) is None
    assert FORGETS.put(evidence([row for row in rows if row.get("contender") == "head"])) is None


STUDENT = {"trained alone": "trained-alone", "distilled": "distillation"}


def students(gap: float, half: float, start: str = "layers", updates: int = 60, price: float = 1.5) -> list[Any]:
    axes = {"start": start, "layers": 2, "updates": updates}
    fields = {
        one: {"measure.seeds": 5, "measure.updates": float(updates), "measure.final.loss": loss}
        for one, loss in (("trained alone", 4.0), ("distilled", 4.0 + gap))
    }
    rows = raced("compression.distillation", axes, {"trained alone": 0.02, "distilled": 0.02 * price}, STUDENT,
                 reference="trained alone", ours=["distilled"], fields=fields)  # fmt: skip
    return [*rows, contrast("compression.distillation", axes, "final.loss", "distilled", "trained alone", gap, half)]


@pytest.mark.parametrize(
    ("gap", "half", "said"),
    [(-0.2, 0.1, "Yes: "), (0.2, 0.1, "No: "), (0.0, 0.01, "Neither better nor worse: "), (-0.1, 0.3, "Not decided: ")],
)
def test_a_student_is_judged_by_the_seeds_with_its_price(gap: float, half: float, said: str) -> None:
    found = answer(DISTILLED, students(gap, half))
    assert found.sentence.startswith(f"{said}after 60 updates, over 5 seeds, the loss of the one distilled ")
    assert "an update takes 1.50x [1.47, 1.53] the time of one alone" in found.why
    assert found.chart is not None and found.chart.kind == "curves" and len(found.chart.points) == 2


def test_two_starts_are_told_apart() -> None:
    found = answer(DISTILLED, students(-0.2, 0.1) + students(0.2, 0.1, "random"))
    assert "Yes: after 60 updates, over 5 seeds, started from the teacher's layers" in found.sentence
    assert "No: after 60 updates, over 5 seeds, started from random weights" in found.sentence
    assert "of one alone, started from the teacher's layers; an update takes 1.50x [1.47, 1.53] the time" in found.why
    assert (
        "started from teacher, the" in answer(DISTILLED, students(-0.2, 0.1) + students(0.2, 0.1, "teacher")).sentence
    )


def test_the_most_updates_come_first_and_a_price_is_named_where_there_is_one() -> None:
    found = answer(DISTILLED, students(-0.2, 0.1, updates=20) + students(0.2, 0.1, updates=60))
    assert found.sentence.startswith("No: after 60 updates") and ". Yes: after 20 updates" in found.sentence
    assert found.chart is not None and [point.row.split("/")[2] for point in found.chart.points] == [
        "trained alone", "distilled"
    ] and all("updates60" in point.row for point in found.chart.points)  # fmt: skip
    assert "At equal time the one trained alone would have as many times the updates" in found.why
    assert answer(DISTILLED, students(-0.2, 0.1, price=1.0)).why.endswith("the time of one alone.")


def test_a_student_that_no_seeds_compare_answers_nothing_and_one_of_a_peer_stands_in_for_ours() -> None:
    rows = students(-0.2, 0.1)
    assert DISTILLED.put(evidence([row for row in rows if row["kind"] != "contrast"])) is None
    assert DISTILLED.put(evidence([row for row in rows if row.get("contender") != "distilled"])) is None
    assert DISTILLED.put(evidence([row for row in rows if row.get("contender") != "trained alone"])) is None
    for row in rows:
        row |= {"origin": "peer"} if row["kind"] == "cell" else {}
    said = (
        "Yes: after 60 updates, over 5 seeds, the loss of the one distilled is 0.20 [0.10, 0.30] nats better than the "
    )
    for ordered in (rows, rows[::-1]):
        assert answer(DISTILLED, ordered).sentence == f"{said}one trained alone."


def test_ours_is_told_beside_a_peer_and_every_student_is_drawn() -> None:
    rows = students(-0.2, 0.1)
    [mine] = [row for row in rows if row.get("contender") == "distilled"]
    peer = mine | {"contender": "peer", "label": "peer", "origin": "peer", "row_id": "peer"}
    for ordered in ([peer, *rows], [*rows, peer]):
        found = answer(DISTILLED, ordered)
        assert "the one distilled is" in found.sentence
        assert found.chart is not None and len(found.chart.points) == 3 and found.chart.axis == "updates"
