"""LoRA's speed and memory, freezing, checkpointing, data parallel, FSDP or DeepSpeed."""

from __future__ import annotations

from typing import Any

import pytest
from _asked import answer, ceiling, contrast, evidence, raced

from bancada.questions.checkpointing import CHECKPOINTING
from bancada.questions.peft import FREEZING, LORA_MEMORY, LORA_SPEED
from bancada.questions.ranks import DATA_PARALLEL, SHARDED_LIBRARIES

PEFT = {"full": "full-fine-tuning", "lora": "lora", "upper": "freezing"}
MIB = 2**20


def split(forward: float, backward: float, optimizer: float) -> dict[str, float]:
    parts = {"forward": forward, "backward": backward, "optimizer": optimizer}
    ends = {"": 1.0, ".low": 0.9, ".high": 1.1}
    return {f"measure.split.{kind}_s{end}": value * by for kind, value in parts.items() for end, by in ends.items()}


def steps(backward: float, rank: int = 16, noise: float = 0.01) -> list[Any]:
    """Full: 30 + 60 + 10 ms; LoRA: 35 ms, this backward, 1 ms."""
    fields = {
        "full": {"measure.trainable_parameters": 100.0} | split(0.03, 0.06, 0.01),
        "lora": {"measure.trainable_parameters": 5.0} | split(0.035, backward, 0.001),
    }
    axes = {"batch": 2, "seq_len": 256, "hidden": 512, "rank": rank}
    times = {"full": 0.09, "lora": 0.035 + backward}
    return raced("peft.cost", axes, times, PEFT, reference="full", ours=["lora"], noise=noise, fields=fields)


def test_lora_slower_faster_and_level_by_the_whole_step() -> None:
    found = answer(LORA_SPEED, steps(0.09))
    assert found.sentence == (
        "Slower here: a step of lora takes 1.26x [1.23, 1.29] the time of one of full "
        "(width 512, rank 16, 256 tokens x 2)."
    )
    assert "backward 90.0 ms against 60.0 ms (1.50x); optimizer 1.00 ms against 10.0 ms (0.10x)" in found.why
    assert "Backward is 71% of lora's step though it trains 5% of the parameters" in found.why
    assert found.chart is not None and found.chart.parts[2] == ("optimizer", "optimizer")
    assert answer(LORA_SPEED, steps(0.045)).sentence.startswith("Here it is faster: a step of lora takes 0.81x")
    assert answer(LORA_SPEED, steps(0.064)).sentence.startswith("No faster here: a step of lora takes 1.00x")
    assert answer(LORA_SPEED, steps(0.064, noise=0.2)).sentence.startswith("Not decided here")


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


def kinds(weights: int, gradients: int, optimizer: int, activations: int) -> dict[str, float]:
    parts = {"parameters": weights, "gradients": gradients, "optimizer": optimizer, "activations": activations}
    return {f"measure.bytes.{kind}": float(size * MIB) for kind, size in parts.items()}


def memory(activations: dict[int, int]) -> list[Any]:
    rows = []
    for seq_len, held in activations.items():
        fields = {"full": kinds(10, 10, 20, held), "lora": kinds(11, 1, 2, held)}
        axes = {"seq_len": seq_len, "hidden": 512}
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


def frozen(ratio: float, noise: float = 0.02) -> list[Any]:
    axes = {"task": "kjv", "updates": 100}
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
    assert found.turns.endswith("the loss of upper is 0.30 [0.20, 0.40] nats worse than lora")


STACK = {"kept": "kept-activations", "checkpoint": "activation-checkpointing"}


def stacked(ratio: float, layers: int = 8, batch: int = 4, shrink: int = 4) -> list[Any]:
    fields = {"kept": {"peak_bytes": layers * batch * MIB, "compute_share": 0.6},
              "checkpoint": {"peak_bytes": layers * batch * MIB // shrink, "compute_share": 0.45}}  # fmt: skip
    times = {"kept": 0.01 * layers * batch, "checkpoint": 0.01 * layers * batch * ratio}
    axes = {"batch": batch, "layers": layers}
    return raced("parallelism.checkpointing", axes, times, STACK, reference="kept", ours=["checkpoint"], fields=fields)


def test_checkpointing_at_equal_batch() -> None:
    found = answer(CHECKPOINTING, stacked(1.3, 4) + stacked(1.3, 16))
    assert found.sentence.startswith(
        "At equal batch yes: with 16 layers, checkpoint is 1.30x [1.27, 1.33] slower than kept"
    )
    assert "holds 25% of its memory" in found.sentence and "would take 1.33x the time" in found.why
    assert "add `--set batch" in found.open
    assert answer(CHECKPOINTING, stacked(1.0)).sentence.startswith("No, it is level: ")
    assert answer(CHECKPOINTING, stacked(0.8)).sentence.startswith("No, not even at equal batch: ")


def test_checkpointing_at_equal_memory() -> None:
    found = answer(CHECKPOINTING, stacked(1.3) + stacked(1.3, batch=16))
    assert (
        "At equal memory, with a batch of 16 in the place of 4, it does fewer sequences a second: 0.77x [0.74, 0.80]"
        in found.sentence
    )
    assert found.open == ""
    quick = stacked(1.3, batch=16)
    for row in quick:
        if row.get("contender") == "checkpoint":  # large batches are what this machine is best at
            row |= {"time_s": 1.0, "time_low_s": 0.98, "time_high_s": 1.02}
    assert "it does more sequences a second: 1.28x" in answer(CHECKPOINTING, stacked(1.3) + quick).sentence


WAYS = {"torch-ddp": "data-parallel", "torch-fsdp2": "zero-3", "zero-3": "zero-3", "deepspeed-3": "zero-3",
        "gpipe": "gpipe"}  # fmt: skip


def trained(ranks: int, step: float, shared: bool, times: dict[str, float] | None = None) -> list[Any]:
    times = times or {"torch-ddp": step, "gpipe": step}
    note = {"note.ranks": f"{ranks} ranks share 2 cores: not scaling"} if shared else {}
    held = {"measure.bytes.parameters": 4 * MIB, "measure.bytes.gradients": 4 * MIB, "measure.bytes.optimizer": 8 * MIB}
    sent = {"measure.comm.bytes": 4 * MIB, "measure.comm.all_reduce.bytes": 4 * MIB}
    usual = {"flops": 4e9, "precision": "fp32", "error_rel": 1e-7} | sent | held | note
    fields: dict[str, Any] = {one: dict(usual) for one in times}
    if "gpipe" in fields:
        fields["gpipe"] |= {"measure.comm.send.bytes": 2 * MIB}
    if "deepspeed-3" in fields:
        fields["deepspeed-3"] |= {"measure.bytes.parameters": 6 * MIB, "measure.comm.all_reduce.bytes": 3 * MIB}
    axes = {"world_size": ranks, "batch": 8, "dtype": "fp32"}
    return raced(
        "parallelism.training", axes, times, WAYS, reference="torch-ddp", ours=["zero-3", "gpipe"], fields=fields
    )


def test_ranks_that_share_cores_never_scale() -> None:
    found = answer(DATA_PARALLEL, [*trained(2, 0.1, True), *trained(4, 0.2, True), ceiling(1e11)])
    assert found.sentence.startswith(
        "These rows cannot tell (4 ranks share 2 cores: not scaling). What they show: torch-ddp hands"
    )
    assert (
        "4 MiB a rank in each step, for 1 GFLOP of work (a batch of 2 sequences a rank, 8 in all, 2 threads a rank)"
        in found.sentence
    )
    assert "faster" not in found.sentence and "slower" not in found.sentence and found.open
    # A ring of four moves 1.5 x 4 MiB for 1e9 operations, which take 10 ms at 1e11 a second.
    assert "6 MiB over each rank's link (one set of gradients" in found.why and "a link of 0.629 GB/s" in found.why
    assert "at a batch of about 1 sequence a rank" in found.turns
    assert found.chart is not None and [point.row.rpartition("/")[2] for point in found.chart.points] == ["torch-ddp"]


@pytest.mark.parametrize(
    ("step", "said"),
    [(0.05, "It is not slower here: on 4 ranks a step takes 0.50x"),
     (0.2, "It is slower here: on 4 ranks a step takes 2.0"), (0.1, "Not decided here")],
)  # fmt: skip
def test_ranks_with_devices_of_their_own_are_compared(step: float, said: str) -> None:
    found = answer(DATA_PARALLEL, trained(2, 0.1, False) + trained(4, step, False))
    assert found.sentence.startswith(said) and found.open == ""


def test_fsdp_or_deepspeed_by_bytes_traffic_and_time() -> None:
    times = {"torch-fsdp2": 0.1, "zero-3": 0.08, "deepspeed-3": 0.12}
    rows = [
        row
        for row in trained(2, 0, True, times)
        if not (row["kind"] == "pair" and "deepspeed-3" in (row["a"], row["b"]))
    ]
    found = answer(SHARDED_LIBRARIES, rows)
    assert "torch-fsdp2 and zero-3 need the least model state, 16 MiB a rank (deepspeed-3: 18 MiB)" in found.sentence
    assert (
        "deepspeed-3 needs the least traffic, 3 MiB a rank and step (torch-fsdp2: 4 MiB; zero-3: 4 MiB)"
        in found.sentence
    )
    assert (
        "zero-3 takes 0.80x [0.78, 0.82] torch-fsdp2's time, of deepspeed-3 1.20x [1.15, 1.25] torch-fsdp2's time (not"
        in found.sentence
    )
    assert (
        "At one precision" in found.why
        and "parameters: torch-fsdp2 4 MiB, zero-3 4 MiB, deepspeed-3 6 MiB" in found.why
    )
    assert "2 ranks share 2 cores" in found.open


def test_what_holds_and_sends_the_same_is_said_to() -> None:
    found = answer(SHARDED_LIBRARIES, trained(2, 0, False, {"torch-fsdp2": 0.1, "zero-3": 0.1}))
    assert "all need as much model state, 16 MiB a rank" in found.sentence and "hold and send the same" in found.why
    rows = trained(2, 0, False, {"torch-fsdp2": 0.1, "zero-3": 0.1})
    rows[1]["precision"] = "bf16"
    assert "At different precisions (bf16; fp32)" in answer(SHARDED_LIBRARIES, rows).why
