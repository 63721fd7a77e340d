"""LoRA's speed and memory, and freezing."""

from __future__ import annotations

from typing import Any

import pytest
from _asked import answer, contrast, evidence, raced

from bancada.questions.peft import FREEZING, LORA_MEMORY, LORA_SPEED

MIB = 2**20
PEFT = {"full": "full-fine-tuning", "lora": "lora", "upper": "freezing"}


def split(forward: float, backward: float, optimizer: float) -> dict[str, float]:
    parts = {"forward": forward, "backward": backward, "optimizer": optimizer}
    ends = {"": 1.0, ".low": 0.9, ".high": 1.1}
    return {f"measure.split.{kind}_s{end}": value * by for kind, value in parts.items() for end, by in ends.items()}


def steps(backward: float, rank: int = 16, noise: float = 0.01, of: Any = ()) -> list[Any]:
    """Full: 30 + 60 + 10 ms; LoRA: 35 ms, this backward, 1 ms."""
    fields = {
        "full": {"measure.trainable_parameters": 100.0} | split(0.03, 0.06, 0.01),
        "lora": {"measure.trainable_parameters": 5.0} | split(0.035, backward, 0.001),
    }
    axes = {"batch": 2, "seq_len": 256, "hidden": 512, "rank": rank} | dict(of)
    times = {"full": 0.09, "lora": 0.035 + backward}
    return raced("peft.cost", axes, times, PEFT, reference="full", ours=["lora"], noise=noise, fields=fields)


def test_lora_slower_faster_and_level_by_the_whole_step() -> None:
    found = answer(LORA_SPEED, steps(0.09))
    assert found.sentence == (
        "Slower here: a step of lora takes 1.26x [1.23, 1.29] the time of one of full "
        "in one block (width 512, rank 16, 256 tokens x 2)."
    )
    assert "backward 90.0 ms against 60.0 ms (1.50x); optimizer 1.00 ms against 10.0 ms (0.10x)" in found.why
    assert "Backward is 71% of lora's step though it trains 5% of the parameters" in found.why
    assert found.chart is not None and found.chart.parts[2] == ("optimizer", "optimizer")
    assert answer(LORA_SPEED, steps(0.045)).sentence.startswith("Here it is faster: a step of lora takes 0.81x")
    assert answer(LORA_SPEED, steps(0.064)).sentence.startswith("No faster here: a step of lora takes 1.00x")
    assert answer(LORA_SPEED, steps(0.064, noise=0.2)).sentence.startswith("Not decided here")


@pytest.mark.parametrize(
    ("backward", "update", "word"),
    [(0.045, 1.25, "It depends on the model"), (0.09, 0.8, "It depends on the model"),
     (0.045, 0.8, "Here it is faster"), (0.064, 1.25, "No faster here")],
)  # fmt: skip
def test_a_whole_model_is_told_beside_one_block(backward: float, update: float, word: str) -> None:
    axes = {"task": "kjv", "updates": 20}
    trained = raced("peft.quality", axes, {"full": 0.05, "lora": 0.05 * update}, PEFT, reference="full", ours=["lora"])
    found = answer(LORA_SPEED, steps(backward) + trained)
    assert found.sentence.startswith(f"{word}: a step of lora takes ")
    assert f"; in a whole model (taskkjv-updates20) it takes {update:.2f}x [" in found.sentence
    ids = {row["row_id"] for row in trained if row["kind"] == "cell"}
    assert ids <= set(found.rows)
    alone = [row for row in trained if row.get("contender") != "lora" and row["kind"] == "cell"]
    assert "whole model" not in answer(LORA_SPEED, steps(backward) + alone).sentence


def test_what_the_rank_changes_is_said_and_rows_without_a_split_answer_nothing() -> None:
    found = answer(LORA_SPEED, steps(0.045, rank=4) + steps(0.09, rank=64))
    assert (
        found.turns
        == "it changes between the ends measured: 0.81x [0.79, 0.83] at rank 4, 1.26x [1.23, 1.29] at rank 64"
    )
    found = answer(LORA_SPEED, steps(0.045, rank=4) + steps(0.064, rank=64, noise=0.2))
    assert found.turns.startswith("whether it changes is not decided between the ends measured: 0.81x")
    found = answer(LORA_SPEED, steps(0.09, rank=4) + steps(0.09, rank=64))
    assert found.turns.startswith("nowhere between the ends measured: 1.26x")
    whole = [{name: value for name, value in row.items() if "split" not in name} for row in steps(0.09)]
    assert LORA_SPEED.answer(evidence(whole)) is None


def test_a_step_is_told_at_the_widest_then_the_longest_then_the_highest_rank() -> None:
    at: dict[str, list[dict[str, int]]] = {
        "width 1024, rank 16, 64 tokens": [{"seq_len": 512}, {"hidden": 1024, "seq_len": 64}],
        "width 512, rank 16, 512 tokens": [{"rank": 64}, {"seq_len": 512}],
        "width 512, rank 64, 256 tokens": [{"rank": 4}, {"rank": 64}],
    }
    for place, cases in at.items():
        for ordered in (cases, cases[::-1]):
            found = answer(LORA_SPEED, [row for of in ordered for row in steps(0.09, of=of)])
            assert f"({place} x 2)" in found.sentence


def test_the_interval_of_a_step_holds_the_optimizer_s_and_stands_without_ends() -> None:
    assert "0.95x [0.81, 1.12] the time" in answer(LORA_SPEED, steps(0.0585, noise=0.15)).sentence
    bare = [
        {name: value for name, value in row.items() if not name.endswith(("s.low", "s.high"))} for row in steps(0.09)
    ]
    assert "1.26x [1.25, 1.27] the time" in answer(LORA_SPEED, bare).sentence


def test_the_axis_with_most_values_tells_where_a_step_changes() -> None:
    ranks = [row for rank in (4, 16, 64) for row in steps(0.09, rank=rank)]
    wider = steps(0.045, of={"hidden": 1024})
    assert answer(LORA_SPEED, ranks + wider).turns.endswith(" at rank 4, 1.26x [1.23, 1.29] at rank 64")
    assert answer(LORA_SPEED, steps(0.09) + wider).turns == (
        "it changes between the ends measured: 1.26x [1.23, 1.29] at width 512, 0.81x [0.79, 0.83] at width 1,024"
    )
    longer = [row for length in (256, 512, 1024) for row in steps(0.09, of={"seq_len": length})]
    assert answer(LORA_SPEED, longer + wider).turns.endswith("at 256 tokens, 1.26x [1.23, 1.29] at 1,024 tokens")
    assert answer(LORA_SPEED, steps(0.09)).turns == ""


def test_parts_that_take_nothing_or_were_not_split_are_left_out() -> None:
    rows = steps(0.09)
    for row in rows[:2]:
        row |= {f"measure.split.optimizer_s{end}": 0.0 for end in ("", ".low", ".high")}
        del row["measure.trainable_parameters"]
    why = answer(LORA_SPEED, rows).why
    assert (
        why.startswith("Forward 35.0 ms against 30.0 ms (1.17x); backward")
        and "optimizer 0.00 ns against 0.00 ns." in why
    )
    assert "of lora's step: the gradient" in why
    found = answer(LORA_SPEED, steps(0.09))
    assert found.chart is not None and found.chart.unit == "s"
    assert found.chart.points[1].parts == {"forward": 0.035, "backward": 0.09, "optimizer": 0.001}
    for place in (0, 1):
        rows = steps(0.09)
        del rows[place]["measure.split.backward_s"]
        assert LORA_SPEED.put(evidence(rows)) is None
    third = raced(
        "peft.cost", {"batch": 2, "seq_len": 256, "hidden": 512, "rank": 16}, {"upper": 0.1}, PEFT, reference="full"
    )
    found = answer(LORA_SPEED, [*steps(0.09), *third])
    assert found.chart is not None and len(found.chart.points) == 2
    for lost in ("full", "lora"):
        assert LORA_SPEED.put(evidence([row for row in steps(0.09) if row.get("contender") != lost])) is None


def kinds(weights: int, gradients: int, optimizer: int, activations: int) -> dict[str, float]:
    parts = {"parameters": weights, "gradients": gradients, "optimizer": optimizer, "activations": activations}
    return {f"measure.bytes.{kind}": float(size * MIB) for kind, size in parts.items()}


def memory(activations: dict[int, int], hidden: int = 512, lora: tuple[int, int, int] = (11, 1, 2)) -> list[Any]:
    rows = []
    for seq_len, held in activations.items():
        fields = {"full": kinds(10, 10, 20, held), "lora": kinds(*lora, held)}
        axes = {"seq_len": seq_len, "hidden": hidden}
        rows += raced(
            "peft.cost", axes, {"full": 0.1, "lora": 0.1}, PEFT, reference="full", ours=["lora"], fields=fields
        )
    return rows


def test_lora_saves_less_the_longer_the_text() -> None:
    found = answer(LORA_MEMORY, memory({64: 2, 256: 20, 1024: 400}))
    assert found.sentence == (
        "It saves next to nothing, and less the longer the text: at 64 tokens lora needs 38% of full's memory, at "
        "1,024 tokens lora needs 94% of full's memory; there 97% of it are activations."
    )
    assert found.turns == "between 64 tokens and 256 tokens"
    assert "gradients 1 MiB in place of 10 MiB and optimizer state 2 MiB in place of 20 MiB" in found.why
    assert found.chart is not None and found.chart.points[0].label == "lora, 64 tokens"


def test_lora_saves_where_activations_are_few() -> None:
    found = answer(LORA_MEMORY, memory({64: 2, 256: 3}))
    assert found.sentence.startswith("It does save: at 64 tokens lora needs 38%")
    assert found.turns == "nowhere: activations are more than half at no size measured"


@pytest.mark.parametrize(
    ("held", "lora", "said"),
    [({64: 196}, (11, 1, 2), "It does save: at 64 tokens lora needs 89% of"),
     ({64: 220}, (11, 1, 2), "It saves next to nothing: at 64 tokens lora needs 90% of"),
     ({64: 5}, (10, 10, 20), "It saves nothing: at 64 tokens lora needs 100% of full's memory; there 11%"),
     ({64: 5}, (20, 20, 20), "It saves nothing: at 64 tokens lora needs 1.44x full's memory"),
     ({64: 5, 128: 6}, (11, 1, 2), "It does save: at 64 tokens lora needs 42% of full's memory, at 128 tokens"),
     ({64: 5, 128: 7}, (11, 1, 2), "It does save, and less the longer the text: at 64 tokens lora needs 42%")],
)  # fmt: skip
def test_what_lora_saves_by_its_share_of_full_memory(
    held: dict[int, int], lora: tuple[int, int, int], said: str
) -> None:
    found = answer(LORA_MEMORY, memory(held, lora=lora))
    assert found.sentence.startswith(said) and found.chart is not None and found.chart.unit == "bytes"
    assert len(found.chart.points) == 2 * len(held) and found.chart.points[0].parts["parameters"] == lora[0] * MIB


def test_memory_is_told_of_the_width_with_most_lengths_by_name_and_without_activations_too() -> None:
    rows = memory({64: 0}, 256) + memory({64: 0, 128: 14}, 512)
    found = answer(LORA_MEMORY, rows)
    assert found.sentence.startswith("It does save, and less the longer the text (hidden 512): at 64 tokens")
    assert found.turns == "nowhere: activations are more than half at no size measured"
    assert answer(LORA_MEMORY, memory({64: 0, 128: 15})).turns == "between 64 tokens and 128 tokens"
    assert answer(LORA_MEMORY, memory({64: 0})).why.endswith("through them it keeps 0 B of activations.")
    assert answer(LORA_MEMORY, memory({64: 4})).why.endswith("it keeps 4 MiB of activations, 100% of full's.")


def test_memory_without_every_kind_of_both_is_not_told() -> None:
    for place, name in ((0, "activations"), (1, "parameters")):
        rows = memory({64: 2})
        del rows[place][f"measure.bytes.{name}"]
        assert LORA_MEMORY.put(evidence(rows)) is None
    rows = memory({64: 2})
    rows[0] |= kinds(0, 0, 0, 0)
    assert LORA_MEMORY.put(evidence(rows)) is None
    for lost in ("full", "lora"):
        assert LORA_MEMORY.put(evidence([row for row in memory({64: 2}) if row.get("contender") != lost])) is None


def frozen(ratio: float, noise: float = 0.02, updates: int = 100) -> list[Any]:
    axes = {"task": "kjv", "updates": updates}
    fields = {
        "lora": {"measure.final.trained": 6.8, "peak_bytes": 16 * MIB},
        "upper": {"measure.final.trained": 19.0, "peak_bytes": 8 * MIB, "measure.final.loss": 6.0},
    }
    times = {"lora": 0.03 * ratio, "upper": 0.03}
    rows = raced(
        "peft.quality", axes, times, PEFT, reference="full", ours=["lora", "upper"], noise=noise, fields=fields
    )
    return [*rows, contrast("peft.quality", axes, "final.loss", "upper", "lora", 0.3, 0.1)]


@pytest.mark.parametrize(
    ("ratio", "noise", "said"),
    [(2.0, 0.02, "It is: an update of lora is 2.00x"), (0.5, 0.02, "It is not, here: an update of lora is 2.00x"),
     (1.0, 0.02, "It is not, here: an update of lora is level"), (1.0, 0.3, "Not decided here: ")],
)  # fmt: skip
def test_freezing_by_time_and_by_what_backward_keeps(ratio: float, noise: float, said: str) -> None:
    found = answer(FREEZING, frozen(ratio, noise))
    assert found.sentence.startswith(said)
    assert "trains fewer parameters, 6.8% against 19%, but in every layer" in found.why
    assert "(16 MiB at the peak)" in found.why and "(8 MiB, 50% of it)" in found.why
    assert found.sentence.endswith(".") and found.turns.endswith(
        "the loss of upper is 0.30 [0.20, 0.40] nats worse than lora"
    )


def test_freezing_is_told_of_the_most_updates_and_by_what_its_rows_hold() -> None:
    for rows in (frozen(2.0, updates=20) + frozen(3.0), frozen(3.0) + frozen(2.0, updates=20)):
        assert "is 3.0x" in answer(FREEZING, rows).sentence
    rows = frozen(2.0)
    rows[0]["measure.final.trained"], rows[1]["peak_bytes"] = 19.0, 16 * MIB
    found = answer(FREEZING, rows)
    assert found.why == "Lora trains no fewer parameters, 19% against 19%, and in every layer."
    assert (
        found.chart is not None
        and found.chart.unit == "s"
        and [point.y for point in found.chart.points] == [0.06, 0.03]
    )
    del rows[0]["measure.final.trained"]
    assert answer(FREEZING, rows).why == ""
    held = rows[0].pop("peak_bytes")
    assert answer(FREEZING, rows).why == ""
    rows[0]["peak_bytes"], rows[1]["peak_bytes"] = held, 8 * MIB
    assert answer(FREEZING, rows).why.startswith(
        "Its backward pass keeps what it needs all the way down (16 MiB at the"
    )
    assert answer(FREEZING, [row for row in rows if row["kind"] != "contrast"]).turns == ""
    for lost in ("upper", "lora"):
        assert FREEZING.put(evidence([row for row in frozen(2.0) if row.get("contender") != lost])) is None
