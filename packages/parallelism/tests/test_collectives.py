"""All-reduce by tables: the sum, the bits, the steps and the bytes; the counter of collectives."""

from __future__ import annotations

from fractions import Fraction

import jobs_collectives as jobs
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from parallel_pool import Pool, relative

from bancada_parallelism import all_reduce_cost, all_reduce_table, simulate_all_reduce

ALGORITHMS = ("ring", "tree", "halving-doubling")
each_algorithm = pytest.mark.parametrize("algorithm", ALGORITHMS)


@each_algorithm
@given(ranks=st.integers(1, 11), length=st.integers(0, 40), seed=st.integers(0, 99))
@settings(max_examples=60)
def test_a_table_sums_over_any_number_of_ranks(algorithm: str, ranks: int, length: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    tensors = [torch.randn(length, dtype=torch.float64, generator=generator) for _ in range(ranks)]
    right = torch.stack(tensors).sum(0)
    held = simulate_all_reduce(tensors, algorithm)
    assert all(relative(found, right) <= 1e-14 for found in held)
    assert all(torch.equal(found, held[0]) for found in held), "ranks hold different bits"


@each_algorithm
@given(ranks=st.integers(1, 17), part=st.integers(0, 5))
def test_steps_and_bytes_of_a_table_are_the_published_ones(algorithm: str, ranks: int, part: int) -> None:
    """figures.md: ring 2(n-1) steps, 2(n-1)/n S a rank; tree 2 ceil(log2 n), 2(n-1)S in all; ..."""
    power = 1 << (ranks.bit_length() - 1)
    length = part * ranks * power
    table, cost = all_reduce_table(algorithm, ranks, length), all_reduce_cost(algorithm, ranks, 4 * length)
    sent = [0] * ranks
    for step in table:
        for move in step:
            sent[move.source] += 4 * (move.last - move.first)
    assert len(table) == cost.steps
    assert sum(sent) == cost.total_bytes
    assert max(sent) == cost.most_bytes


def test_closed_forms_against_numbers_worked_out_by_hand() -> None:
    ring, tree, halving = (all_reduce_cost(name, 8, 800) for name in ALGORITHMS)
    assert (ring.steps, ring.most_bytes) == (14, 1400)
    assert (tree.steps, tree.total_bytes, tree.most_bytes) == (6, 11200, 2400)
    assert (halving.steps, halving.most_bytes) == (6, 1400)
    assert all_reduce_cost("halving-doubling", 6, 400).steps == 6
    assert all_reduce_cost("ring", 3, 4).most_bytes == Fraction(16, 3)


@each_algorithm
@given(ranks=st.integers(2, 9), length=st.integers(1, 30))
def test_a_rank_sends_and_receives_at_most_once_a_step(algorithm: str, ranks: int, length: int) -> None:
    for step in all_reduce_table(algorithm, ranks, length):
        for ends in ([move.source for move in step], [move.target for move in step]):
            assert len(set(ends)) == len(ends)


@each_algorithm
@pytest.mark.parametrize("shape", [(0,), (1,), (3,), (64,), (5, 7)])
def test_two_ranks_sum_and_count(two_ranks: Pool, algorithm: str, shape: tuple[int, ...]) -> None:
    check(two_ranks.run(jobs.reduce, algorithm, shape, torch.float64), algorithm, shape, torch.float64)


@each_algorithm
def test_four_ranks_sum_and_count(four_ranks: Pool, algorithm: str) -> None:
    shape = (6, 10)
    check(four_ranks.run(jobs.reduce, algorithm, shape, torch.float32, strided=True), algorithm, shape, torch.float32)


@each_algorithm
def test_three_of_four_ranks(four_ranks: Pool, algorithm: str) -> None:
    found = four_ranks.run(jobs.reduce, algorithm, (12,), torch.float64, few=3)
    assert found[3] is None
    check(found[:3], algorithm, (12,), torch.float64)


def check(found: list, algorithm: str, shape: tuple[int, ...], dtype: torch.dtype) -> None:  # type: ignore[type-arg]
    ranks = len(found)
    tensors = [jobs.values(rank, shape, dtype) for rank in range(ranks)]
    right, simulated = torch.stack(tensors).double().sum(0), simulate_all_reduce(tensors, algorithm)
    table = all_reduce_table(algorithm, ranks, right.numel())
    for rank, (tensor, traffic, calls, counted) in enumerate(found):
        assert tensor.shape == right.shape and tensor.dtype == dtype
        assert relative(tensor, right) <= 4 * torch.finfo(dtype).eps
        assert torch.equal(tensor, simulated[rank]), "the runner and the simulator add in different orders"
        mine = [move for step in table for move in step if move.source == rank and move.last > move.first]
        sent = sum(move.last - move.first for move in mine) * dtype.itemsize
        assert (traffic.steps, traffic.messages, traffic.sent_bytes) == (len(table), len(mine), sent)
        assert calls["send"] == len(mine) and counted == sent, "the counter and the runner disagree"


@each_algorithm
def test_bf16_is_summed_in_fp32_gloo_256_and_258(four_ranks: Pool, algorithm: str) -> None:
    """gloo's bf16 all-reduce of 256 + 3 * 0.75 gave 256 and 258 in one tensor: 258.25 rounds to 258 everywhere."""
    terms = [torch.full((9,), 256.0 if rank == 2 else 0.75).bfloat16() for rank in range(4)]
    for found in four_ranks.run(jobs.reduce_these, terms, algorithm):
        assert torch.equal(found, torch.full((9,), 258.0).bfloat16())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"algorithm": "star"}, r"algorithm='star'.*ring, tree, halving-doubling"),
        ({"ranks": 0}, "ranks=0.*at least 1"),
        ({"length": -1}, "length=-1.*at least 0"),
    ],
)
def test_wrong_arguments_are_named(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        all_reduce_table(**{"algorithm": "ring", "ranks": 2, "length": 3, **change})  # type: ignore[arg-type]


def test_what_cannot_be_summed_is_refused_before_a_message(two_ranks: Pool) -> None:
    for state, (kind, message, _) in two_ranks.outcomes(jobs.reduce, "ring", (3,), torch.int64):
        assert (state, kind) == ("error", "ValueError") and "dtype torch.int64" in message


# The counter


def test_torch_collectives_by_formula(two_ranks: Pool) -> None:
    found = two_ranks.run(jobs.torch_collectives, 10)
    for rank, counts in enumerate(found):
        assert counts == {
            "all_reduce": (1, 40.0),
            "all_gather": (2, 80.0),
            "reduce_scatter": (1, 40.0),
            "broadcast": (1, 40.0 if rank == 0 else 0.0),
            "all_to_all": (1, 40.0),
            "barrier": (1, 0.0),
        }


def test_a_librarys_collectives_are_counted(two_ranks: Pool) -> None:
    for sent, calls in two_ranks.run(jobs.ddp_bytes, 50):
        assert (sent, calls) == (800.0, 1)
