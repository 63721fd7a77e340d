"""Pipeline schedules: bubble and activations by formula; the runner trains as one process does."""

from __future__ import annotations

import functools
from fractions import Fraction
from typing import Any

import jobs_pipeline as jobs
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from parallel_model import HIDDEN, LENGTH, batch, decoder, loss_sum
from parallel_pool import LIMIT, Pool, check_same

from bancada_parallelism import Action, average_gradients, pipeline_schedule, simulate_pipeline

both = pytest.mark.parametrize("name", ["gpipe", "1f1b"])
F, B = functools.partial(Action, "F"), functools.partial(Action, "B")


@both
@given(
    stages=st.integers(1, 9), micro_batches=st.integers(1, 20), forward=st.integers(1, 4), backward=st.integers(1, 5)
)
def test_bubble_and_activations_are_the_formulas(
    name: str, stages: int, micro_batches: int, forward: int, backward: int
) -> None:
    """figures.md: idle (p-1)/(m+p-1), overhead (p-1)/m; 1F1B holds min(m, p) at stage 0, GPipe m."""
    p, m = stages, micro_batches
    found = simulate_pipeline(pipeline_schedule(name, p, m), forward=forward, backward=backward)
    assert found.idle == Fraction(p - 1, m + p - 1)
    assert found.overhead == Fraction(p - 1, m)
    assert found.makespan == (m + p - 1) * (forward + backward)
    assert found.most_held == tuple(m if name == "gpipe" else min(m, p - s) for s in range(p))


def test_1f1b_by_hand() -> None:
    found = [" ".join(map(str, order)) for order in pipeline_schedule("1f1b", 3, 4)]
    assert found == ["F0 F1 F2 B0 F3 B1 B2 B3", "F0 F1 B0 F2 B1 F3 B2 B3", "F0 B0 F1 B1 F2 B2 F3 B3"]
    started = simulate_pipeline(pipeline_schedule("1f1b", 2, 2), forward=1, backward=2).started
    assert started == ((0, 1, 4, 7), (1, 2, 4, 5))


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ((), "must have a stage"),
        (((F(0), B(0)), (F(0), F(1), B(0), B(1))), "stage 1 runs F of .0, 1.; must be each of .0. once"),
        (((F(0), B(0)), (B(0), F(0))), "stage 1 runs B0 before F0"),
        (((F(0), B(0), F(1), B(1)), (F(1), B(1), F(0), B(0))), "wait for each other for ever: stage 0 at B0, stage 1"),
        (((F(0), F(0), B(0), B(0)),), "once"),
    ],
)
def test_what_cannot_run_is_refused(schedule: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        simulate_pipeline(schedule)
    for wrong in ({"name": "zigzag"}, {"stages": 0}, {"micro_batches": 0}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))}="):
            pipeline_schedule(**{"name": "1f1b", "stages": 2, "micro_batches": 2, **wrong})  # type: ignore[arg-type]


@functools.cache
def reference(micro_batches: int, layers: int, dtype: torch.dtype) -> Any:
    module = decoder(dtype, layers=layers)
    unused = ("spare.weight",)
    named = {n: p for n, p in module.named_parameters() if p.requires_grad and n not in unused}
    optimizer = torch.optim.AdamW(named.values(), 1e-2, (0.9, 0.95), 1e-3, 0.1)
    told = []
    for step in range(5):
        data = [batch(step, micro, jobs.SEQUENCES, micro % 3) for micro in range(micro_batches)]
        loss, gradients = average_gradients(module, loss_sum, data)
        for name, p in named.items():
            p.grad = gradients[name].clone()
        optimizer.step()
        told.append((loss.item(), {name: gradients[name] for name in named}))
    return told


def check(ranks: list[Any], micro_batches: int, layers: int, dtype: torch.dtype) -> None:
    """Case 6 (Megatron 844) with it: the tied weight's gradient, on both its stages, is the sum of both uses."""
    steps = len(ranks[0][0])
    for step, (right_loss, right) in enumerate(reference(micro_batches, layers, dtype)[:steps]):
        assert abs(ranks[-1][0][step][0] - right_loss) <= LIMIT[dtype] * abs(right_loss)
        found: dict[str, torch.Tensor] = {}
        for rank, (told, *_) in enumerate(ranks):
            mine = told[step][1]
            check_same(mine, {name: right[name] for name in mine}, LIMIT[dtype], f"rank {rank} step {step}")
            found |= mine
        assert found.keys() == right.keys()
    boundary = jobs.SEQUENCES * LENGTH * HIDDEN * dtype.itemsize
    for rank, (_, sent, calls) in enumerate(ranks):
        neighbours = (rank > 0) + (rank < len(ranks) - 1)
        assert (sent, calls) == (micro_batches * neighbours * boundary, micro_batches * neighbours)


@both
def test_five_steps_equal_one_process(two_ranks: Pool, name: str) -> None:
    for dtype in (torch.float64, torch.float32):
        check(two_ranks.run(jobs.train, name, 3, 3, dtype, 5), 3, 3, dtype)


@both
def test_one_micro_batch_pt144530(two_ranks: Pool, name: str) -> None:
    check(two_ranks.run(jobs.train, name, 1, 3, torch.float64, 2), 1, 3, torch.float64)


def test_four_uneven_stages(four_ranks: Pool) -> None:
    check(four_ranks.run(jobs.train, "1f1b", 6, 5, torch.float64, 5), 6, 5, torch.float64)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("stages", "schedule: 3 stages; there are 2 pipeline ranks"),
        ("order", "stage 1 runs B1 before F1"),
        ("inputs", "=None|inputs: None; the first stage must be given 2"),
    ],
)
def test_an_impossible_run_is_refused_on_every_rank(two_ranks: Pool, what: str, message: str) -> None:
    for told, collectives in two_ranks.run(jobs.refused, what):
        assert any(part in told for part in message.split("|")) and collectives == 0
