"""Data parallelism: five steps equal one process's; averages over tokens; what broke others."""

from __future__ import annotations

import jobs_training as jobs
import pytest
import torch
from parallel_pool import LIMIT, Pool, check_same, relative
from training_reference import five_steps

from bancada_parallelism.data.buckets import assign_buckets


def check(ranks: list, dtype: torch.dtype, uneven: bool) -> None:  # type: ignore[type-arg]
    steps, parameters = five_steps(len(ranks), dtype, uneven)
    for rank, (told, found) in enumerate(ranks):
        for number, ((loss, gradients), (right_loss, right)) in enumerate(zip(told, steps, strict=True)):
            assert abs(loss - right_loss) <= LIMIT[dtype] * abs(right_loss), f"rank {rank} step {number}"
            check_same(gradients, right, LIMIT[dtype], f"rank {rank} step {number} gradient of")
        check_same(found, parameters, LIMIT[dtype], f"rank {rank} parameter")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("bucket_bytes", [1, 2000, 1 << 20])
def test_five_steps_equal_one_process(two_ranks: Pool, dtype: torch.dtype, bucket_bytes: int) -> None:
    found = two_ranks.run(jobs.data_parallel, dtype, False, "no_sync", bucket_bytes)
    check(found, dtype, uneven=False)


def test_reduced_at_each_micro_batch_or_at_the_last_pt187732(two_ranks: Pool) -> None:
    check(two_ranks.run(jobs.data_parallel, torch.float64, False, "finish each", 2000), torch.float64, uneven=False)


def test_uneven_tokens_give_the_mean_over_all_torchtitan2206_pt36382(two_ranks: Pool) -> None:
    """Ranks with other numbers of sequences and valid labels, and one without a batch at step 2."""
    check(two_ranks.run(jobs.data_parallel, torch.float64, True, "no_sync", 2000), torch.float64, uneven=True)


def test_four_ranks(four_ranks: Pool) -> None:
    for dtype in (torch.float64, torch.float32):
        check(four_ranks.run(jobs.data_parallel, dtype, True, "no_sync", 2000), dtype, uneven=True)


def test_ranks_that_use_different_experts_do_not_hang_pt126616(two_ranks: Pool) -> None:
    for gradients in two_ranks.run(jobs.experts):
        for expert, scale in zip(gradients, (1.0, 2.0, 0.0), strict=True):
            assert torch.equal(expert, torch.full((4, 4), scale, dtype=torch.float64))


def test_two_forwards_with_batch_norm_pt175024(two_ranks: Pool) -> None:
    (first, tracked), (second, _) = two_ranks.run(jobs.two_forwards_with_batch_norm)
    check_same(first, second, 0.0, "ranks differ in")
    assert tracked == 2 and all(g.norm() > 0 for name, g in first.items() if name != "0.bias")


def test_bf16_gradients_are_summed_in_fp32_where_asked_deepspeed5170(four_ranks: Pool) -> None:
    for total, sent in four_ranks.run(jobs.reduced_in, torch.float32):
        assert torch.equal(total, torch.full((3, 1), 258.0).bfloat16())
        assert sent == 2 * 3 / 4 * 12
    for _, sent in four_ranks.run(jobs.reduced_in, None):
        assert sent == 2 * 3 / 4 * 6


def test_frozen_parameters_take_no_gradient_pt104690(two_ranks: Pool) -> None:
    for sent, with_gradient in two_ranks.run(jobs.frozen_bytes):
        assert sent == 64 and with_gradient == ["1.weight"]


def test_buckets_hold_each_parameter_once_last_first() -> None:
    parameters = {str(i): torch.nn.Parameter(torch.zeros(n)) for i, n in enumerate((5, 1, 2, 9, 3))}
    parameters["1"].requires_grad_(False)
    parameters["half"] = torch.nn.Parameter(torch.zeros(1, dtype=torch.float16))
    buckets = [list(bucket) for bucket in assign_buckets(parameters, 20)]
    assert buckets == [["half"], ["4"], ["3"], ["2"], ["0"]]
    assert [list(bucket) for bucket in assign_buckets(parameters, 28)] == [["half"], ["4"], ["3"], ["2", "0"]]
    with pytest.raises(ValueError, match=r"bucket_bytes=0.*at least 1"):
        assign_buckets(parameters, 0)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("another module", "ValueError: module: rank 1 differs from rank 0 in blocks.2.down.bias"),
        ("nothing trainable", "ValueError: module: no parameter requires a gradient"),
        ("two backwards", "RuntimeError: backward ran again before finish()"),
        ("finish in no_sync", "RuntimeError: finish() inside no_sync()"),
        ("no tokens", "ValueError: tokens=0 on every rank"),
        ("half precision", "torch.float16; allowed are fp32 and fp64"),
        ("tied across units", "are one parameter in two units"),
        ("unit of another", "units: Block is no module inside Decoder"),
        ("overlapping", "units: blocks.0 holds blocks.0.up"),
        ("step before finish", "RuntimeError: step() before finish()"),
    ],
)
def test_misuse_is_told_on_every_rank(two_ranks: Pool, what: str, message: str) -> None:
    for told in two_ranks.run(jobs.misuse, what):
        assert message in told


def test_the_rule_of_comparison_notices_a_difference() -> None:
    assert relative(torch.tensor([1.0, 1.0]), torch.tensor([1.0, 1.01])) > 5e-3
