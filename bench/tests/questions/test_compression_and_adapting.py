"""Shouldn't int8 be faster? Does it forget? Is a distilled model better than one trained alone?"""

from __future__ import annotations

from typing import Any

import pytest
from _asked import answer, contrast, raced

from bancada.questions.adapting import DISTILLED, FORGETS
from bancada.questions.compression import QUANTISED

KIND = {"dense": "dense-linear", "int8": "int8", "nf4": "nf4"}
DENSE, SHARE = {1: 1e-4, 256: 4e-3}, {1: 0.1, 256: 0.8}


def products(ratios: dict[int, dict[int, float]], peak: int = 5_000_000) -> list[Any]:
    """By bits and tokens: the quantised product's time over the dense one's."""
    rows = []
    for bits, by_tokens in ratios.items():
        name = "int8" if bits == 8 else "nf4"
        for tokens, ratio in by_tokens.items():
            fields = {
                "dense": {"measure.bytes": 4_194_304.0, "peak_bytes": 4096 * tokens, "compute_share": SHARE[tokens]},
                name: {"measure.bytes": 4_194_304.0 * bits / 32, "peak_bytes": peak},
            }  # fmt: skip
            times = {"dense": DENSE[tokens], name: DENSE[tokens] * ratio}
            axes = {"tokens": tokens, "out_features": 1024, "bits": bits}
            rows += raced("compression.speed", axes, times, KIND, reference="dense", ours=["int8"], fields=fields)
    return rows


def test_faster_at_few_tokens_and_slower_at_many() -> None:
    found = answer(QUANTISED, products({8: {1: 0.5, 256: 1.5}, 4: {1: 0.25, 256: 2.0}}))
    assert found.sentence.startswith("It depends on the tokens and the bits: the fastest with 8 bits, int8, is 2.00x")
    assert "faster than dense at 1 token, and is 1.50x [1.47, 1.53] slower than dense at 256 tokens" in found.sentence
    assert "the fastest with 4 bits, nf4, is 4.0x [3.9, 4.1] faster" in found.sentence
    assert found.turns == (
        "8 bits: faster up to 1 token, no longer at 256 tokens; 4 bits: faster up to 1 token, no longer at 256 tokens"
    )
    assert (
        "Of the bytes of the dense weights nf4 keeps 12%" in found.why
        and "10% of this machine's arithmetic at 1 token" in found.why
    )
    assert "as much as the whole dense weight: the weights are unpacked" in found.why
    assert found.chart is not None and {point.label for point in found.chart.points} == {"int8, 8 bits", "nf4, 4 bits"}


def test_never_and_always_faster_and_level() -> None:
    found = answer(QUANTISED, products({8: {1: 3.0, 256: 1.5}}))
    assert (
        found.sentence.startswith("Not here: ")
        and found.turns == "8 bits: nowhere, not faster from 1 token to 256 tokens"
    )
    found = answer(QUANTISED, products({8: {1: 0.5, 256: 0.9}}, peak=4000))
    assert (
        found.sentence.startswith("Yes, here: ")
        and found.turns == "8 bits: nowhere, faster all the way from 1 token to 256 tokens"
    )
    assert "never unpacked whole" in found.why
    assert "is level with dense" in answer(QUANTISED, products({8: {1: 1.0, 256: 1.0}})).sentence
    turns = [answer(QUANTISED, products({8: {1: ratio}})).turns for ratio in (0.5, 1.5)]
    assert turns == [f"8 bits: {word} at 1 token, the one size measured" for word in ("faster", "not faster")]


QUALITY = {"full": "full-fine-tuning", "lora": "lora", "head": "freezing"}


def adapted(losses: dict[str, tuple[float, float]], gaps: dict[str, tuple[float, float]]) -> list[Any]:
    """By method: forgetting with its half-width; and against full fine-tuning what the seeds say of it."""
    axes = {"task": "kjv", "updates": 100}
    gains, trained = {"full": 3.0, "lora": 2.5, "head": 1.0}, {"full": 100.0, "lora": 7.0, "head": 20.0}
    fields = {
        one: {
            "measure.updates": 100.0, "measure.final.gain": gains[one], "measure.final.gain.low": gains[one] - 0.1,
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
        ours=["lora", "head"],
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
    assert "lora (0.10 nats lost a nat gained) pays least and head (0.90 nats lost a nat gained) most" in found.turns
    assert found.chart is not None and found.chart.kind == "scatter" and found.chart.better == ("higher", "lower")
    assert [(point.x, point.y) for point in found.chart.points] == [(3.0, 0.6), (2.5, 0.25), (1.0, 0.9)]


def test_it_does_not_forget_and_not_decided() -> None:
    found = answer(FORGETS, adapted({"full": (-0.3, 0.1), "lora": (0.0, 0.1)}, {"lora": (0.3, 0.5)}))
    assert found.sentence.startswith("No: after") and "nothing is decided in what they forget" in found.sentence
    assert answer(FORGETS, adapted({"full": (0.1, 0.3), "lora": (0.0, 0.1)}, {})).sentence.startswith("Not decided: ")


STUDENT = {"trained alone": "trained-alone", "distilled": "distillation"}


def students(gap: float, half: float, start: str = "layers", updates: int = 60) -> list[Any]:
    axes = {"start": start, "layers": 2, "updates": updates}
    fields = {
        one: {"measure.seeds": 5, "measure.updates": float(updates), "measure.final.loss": loss}
        for one, loss in (("trained alone", 4.0), ("distilled", 4.0 + gap))
    }
    rows = raced("compression.distillation", axes, {"trained alone": 0.02, "distilled": 0.03}, STUDENT,
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
