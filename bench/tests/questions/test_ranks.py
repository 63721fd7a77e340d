"""Checkpointing, data parallel, FSDP or DeepSpeed."""

from __future__ import annotations

from typing import Any

import pytest
from _asked import answer, ceiling, evidence, raced

from bancada.questions.checkpointing import CHECKPOINTING
from bancada.questions.ranks import DATA_PARALLEL, SHARDED_LIBRARIES

MIB = 2**20
STACK = {"kept": "kept-activations", "checkpoint": "activation-checkpointing"}


def stacked(ratio: float, layers: int = 8, batch: int = 4, shrink: int = 4, noise: float = 0.02) -> list[Any]:
    fields = {"kept": {"peak_bytes": layers * batch * MIB, "compute_share": 0.6},
              "checkpoint": {"peak_bytes": layers * batch * MIB // shrink, "compute_share": 0.45}}  # fmt: skip
    times = {"kept": 0.01 * layers * batch, "checkpoint": 0.01 * layers * batch * ratio}
    axes = {"batch": batch, "layers": layers}
    return raced("parallelism.checkpointing", axes, times, STACK, reference="kept", ours=["checkpoint"], fields=fields,
                 noise=noise)  # fmt: skip


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
        "At equal memory, with 8 layers, where 4 sequences with everything kept take 32 MiB, it takes 16 (32 MiB), and "
        "does fewer sequences a second: 0.77x [0.74, 0.80]" in found.sentence
    )
    assert found.open == ""
    quick = stacked(1.3, batch=16)
    for row in quick:
        if row.get("contender") == "checkpoint":  # large batches are what this machine is best at
            row |= {"time_s": 1.0, "time_low_s": 0.98, "time_high_s": 1.02}
    assert "and does more sequences a second: 1.28x" in answer(CHECKPOINTING, stacked(1.3) + quick).sentence


def test_checkpointing_is_told_of_the_deepest_with_the_memory_and_the_arithmetic_that_its_rows_hold() -> None:
    shallow, deep = stacked(1.3, 4, shrink=2), stacked(1.5, 16, shrink=8)
    found = answer(CHECKPOINTING, deep + shallow)
    assert "with 16 layers, checkpoint is 1.50x" in found.sentence
    assert found.turns == "with depth: 50% of the memory with 4 layers, 12% of the memory with 16 layers"
    assert found.why.endswith("was measured (useful work at 45% of this machine's arithmetic instead of 60%).")
    assert found.chart is not None and (found.chart.unit, found.chart.axis) == ("bytes", "layers")
    assert [(point.x, point.y / MIB) for point in found.chart.points] == [(4, 16), (16, 64), (4, 8), (16, 8)]
    assert answer(CHECKPOINTING, deep).turns == ""
    del deep[1]["peak_bytes"], deep[0]["compute_share"]
    found = answer(CHECKPOINTING, deep + shallow)
    assert found.turns == "" and "of its memory" not in found.sentence and "arithmetic" not in found.why
    assert found.chart is not None and len(found.chart.points) == 3 and found.sentence.endswith("slower than kept.")
    assert answer(CHECKPOINTING, stacked(1.0, noise=0.3)).sentence.startswith(
        "At equal batch that is not decided: with"
    )
    for lost in ("kept", "checkpoint"):
        assert CHECKPOINTING.put(evidence([row for row in shallow if row.get("contender") != lost])) is None


def test_the_fastest_of_ours_that_checkpoints_is_told_and_a_peer_where_there_is_none() -> None:
    times = {"kept": 1.0, "other": 0.7, "slow": 1.5, "ours": 1.3, "peer": 1.2}
    kinds = {"kept": "kept-activations", "other": "something"} | dict.fromkeys(
        ("slow", "ours", "peer"), STACK["checkpoint"]
    )
    for ours, mine in ((["slow", "ours", "other"], "ours"), (["other"], "peer")):
        rows = raced("parallelism.checkpointing", {"batch": 4, "layers": 8}, times, kinds, reference="kept", ours=ours)
        assert f"with 8 layers, {mine} is" in answer(CHECKPOINTING, rows).sentence
    rows = [*stacked(1.3, 4), *stacked(1.3, 8)]
    alone = raced(
        "parallelism.checkpointing", {"batch": 4, "layers": 16}, {"slow": 1.5}, kinds, reference="kept", ours=["slow"]
    )
    assert answer(CHECKPOINTING, [*rows, *alone]).chart == answer(CHECKPOINTING, rows).chart


@pytest.mark.parametrize(
    ("time", "said"),
    [(0.8, "more sequences a second: 1.60x"), (1.6, "fewer sequences a second: 0.80x"),
     (1.28, "as many sequences a second: 1.00x [0.96, 1.04] those of kept."),
     (1.24, "no more and no fewer, as far as one can tell, sequences a second: 1.03x")],
)  # fmt: skip
def test_throughput_at_equal_memory_by_what_the_intervals_show(time: float, said: str) -> None:
    small, large = stacked(1.3, batch=4), stacked(1.3, batch=16)
    [row] = [row for row in large if row.get("contender") == "checkpoint"]
    row |= {"time_s": time, "time_low_s": 0.98 * time, "time_high_s": 1.02 * time}
    found = answer(CHECKPOINTING, large + small)
    assert f"it takes 16 (32 MiB), and does {said}" in found.sentence
    assert len(found.rows) == 4 and not found.open
    deep = answer(CHECKPOINTING, large + small + stacked(1.5, 16))
    assert "with 16 layers, checkpoint is 1.50x" in deep.sentence and len(deep.rows) == 6


def test_the_largest_batch_that_fits_is_the_one_compared_and_none_that_does_not_fit() -> None:
    rows = [row for batch in (4, 8, 12, 32) for row in stacked(1.3, batch=batch)]
    assert (
        "In no more memory, with 8 layers, where 4 sequences with everything kept take 32 MiB, it takes 12 (24 MiB)"
        in (answer(CHECKPOINTING, rows).sentence)
    )
    for held, fits in ((1.015, True), (1.03, False)):  # equal within 2%
        near = stacked(1.3) + stacked(1.3, batch=16)
        for row in near:
            if row.get("contender") == "checkpoint" and row["axis.batch"] == 16:
                row["peak_bytes"] = round(32 * MIB * held)
        assert ("At equal memory" in answer(CHECKPOINTING, near).sentence) is fits
    nothing = stacked(1.3) + stacked(1.3, batch=32)
    for row in nothing:
        if row.get("contender") == "kept" and row["axis.batch"] == 32:
            del row["peak_bytes"]
    assert " memory, with" not in answer(CHECKPOINTING, nothing).sentence
    del nothing[0]["peak_bytes"]
    assert "add `--set batch" in answer(CHECKPOINTING, nothing).open


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
     (0.2, "It is slower here: on 4 ranks a step takes 2.0"), (0.1, "It is level here: on 4 ranks a step takes 1.00x")],
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
        "A step of zero-3 takes 0.80x [0.78, 0.82] torch-fsdp2's time, one of deepspeed-3 takes 1.20x [1.15, 1.25] "
        "torch-fsdp2's time (not in the same rounds)." in found.sentence
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


def test_data_parallel_is_told_of_the_most_ranks_then_of_most_contenders() -> None:
    rows = trained(4, 0.2, True) + trained(2, 0.1, True)
    assert "4 ranks share" in answer(DATA_PARALLEL, rows).sentence
    assert "4 ranks share" in answer(DATA_PARALLEL, trained(2, 0.1, True) + rows[:3]).sentence
    alone = trained(4, 0.2, True, {"torch-ddp": 0.3})
    for row in alone:
        row["case"] = "other"
        row |= {"axis.batch": 16, "row_id": "other"} if row["kind"] == "cell" else {}
    assert "8 in all" in answer(DATA_PARALLEL, alone + rows).sentence
    for lost in ("flops", "measure.comm.all_reduce.bytes"):
        bare = [{name: value for name, value in row.items() if name != lost} for row in trained(2, 0.1, True)]
        assert DATA_PARALLEL.put(evidence(bare)) is None
    assert DATA_PARALLEL.put(evidence([row for row in rows if row.get("contender") != "torch-ddp"])) is None


def test_what_a_link_must_do_follows_from_bytes_and_operations() -> None:
    # Each of four ranks sends 1.5 x 4 MiB; 1e12 operations take 2.5 s at 1e11 a second, 1.25 s a sequence of 8.
    rows = trained(4, 0.2, True)
    for row in rows[:2]:
        row |= {"flops": 1e12} if row["kind"] == "cell" else {}
    found = answer(DATA_PARALLEL, [*rows, ceiling(1e11)])
    assert (
        "A device that does 100 GFLOP/s" in found.why
        and "compute for 2.50 s and need a link of 0.00252 GB/s" in found.why
    )
    assert ": 25.2 bytes a MFLOP" in found.why and "a batch of about 1 sequence a rank" in found.turns
    assert found.chart is not None and found.chart.unit == "B/MFLOP"
    assert [point.y for point in found.chart.points] == pytest.approx([4 * MIB * 4 / 1e6])
    # 6 MiB over 1.25e9 bytes a second take 5.03 ms; a sequence of 1e8 operations 1 ms.
    for row in rows[:2]:
        row["flops"] = 8e8
    assert "a batch of about 5 sequences a rank" in answer(DATA_PARALLEL, [*rows, ceiling(1e11)]).turns
    assert found.why.endswith("to send in the same time.") and found.sentence.endswith("2 threads a rank).")
    rows[0]["measure.bytes.gradients"] = 5 * MIB
    assert "one set of gradients" not in answer(DATA_PARALLEL, rows).why
    assert answer(DATA_PARALLEL, trained(2, 0.1, False)).sentence.startswith("Torch-ddp hands over")


def test_sharded_is_told_of_who_shards_at_the_most_ranks_with_most_of_them() -> None:
    three, two = (
        {"torch-fsdp2": 0.1, "zero-3": 0.08, "gpipe": 0.1, "deepspeed-3": 0.1},
        {"torch-fsdp2": 0.1, "zero-3": 0.1},
    )
    rows = trained(2, 0, True, three) + trained(4, 0, True, two)
    found = answer(SHARDED_LIBRARIES, rows)
    assert found.sentence.startswith("On 2 ranks") and "gpipe" not in found.sentence and found.chart is not None
    assert found.chart.unit == "bytes" and found.chart.points[0].parts["optimizer"] == 8 * MIB
    assert answer(SHARDED_LIBRARIES, trained(4, 0, True, two) + trained(2, 0, True, two)).sentence.startswith(
        "On 4 ranks"
    )
    for row in rows:
        row.pop("error_rel", None)
    assert answer(SHARDED_LIBRARIES, rows).why.startswith("At one precision. They differ in parameters")
    first = trained(2, 0, False, {"zero-3": 0.1, "deepspeed-3": 0.2})
    assert "A step of deepspeed-3 takes 2.00x [1.96, 2.04] zero-3's time." in answer(SHARDED_LIBRARIES, first).sentence
    assert answer(SHARDED_LIBRARIES, first).open == ""
    fsdp = trained(2, 0, False, {"zero-3": 0.1, "torch-fsdp2": 0.2})
    assert answer(SHARDED_LIBRARIES, fsdp).sentence.endswith(
        "A step of zero-3 takes 0.50x [0.49, 0.51] torch-fsdp2's time."
    )
    for row in first[:1]:
        for kind in ("parameters", "gradients", "optimizer"):
            del row[f"measure.bytes.{kind}"]
    assert SHARDED_LIBRARIES.put(evidence(first)) is None


def test_the_largest_error_is_told_and_a_collective_that_differs_whichever_it_is() -> None:
    rows = trained(2, 0, False, {"torch-fsdp2": 0.1, "zero-3": 0.1})
    rows[0]["error_rel"] = 3e-6
    rows[1]["measure.comm.reduce_scatter.bytes"] = 2.0 * MIB
    rows[1]["measure.comm.broadcast.bytes"] = 8.0
    assert answer(SHARDED_LIBRARIES, rows).why == (
        "At one precision, all leave one process's weights after five steps, to 3.0e-06 of a tensor's norm. They "
        "differ in reduce-scatter a step: torch-fsdp2 0 B, zero-3 2 MiB."
    )
    rows[1]["measure.comm.reduce_scatter.bytes"], rows[1]["measure.comm.all_reduce.bytes"] = 0.0, 4.1 * MIB
    assert answer(SHARDED_LIBRARIES, rows).why.endswith("They hold and send the same, kind by kind.")
