"""ZeRO: five steps equal one process's at every stage; bytes held and sent equal the formulas; states move."""

from __future__ import annotations

import jobs_training as jobs
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from parallel_model import batch, decoder, loss_sum
from parallel_pool import LIMIT, Pool, check_same, relative
from training_reference import five_steps

from bancada_parallelism import AdamWConfig, adamw_reference, average_gradients, zero_sent_elements, zero_state_bytes
from bancada_parallelism.zero.adamw import adamw_

stages = pytest.mark.parametrize("stage", [1, 2, 3])


def check(ranks: list, dtype: torch.dtype, uneven: bool) -> None:  # type: ignore[type-arg]
    steps, parameters = five_steps(len(ranks), dtype, uneven)
    parameters = {name: p for name, p in parameters.items() if name != "frozen"}
    for rank, (told, state, *_) in enumerate(ranks):
        for number, ((loss, gradients), (right_loss, right)) in enumerate(zip(told, steps, strict=True)):
            assert abs(loss - right_loss) <= LIMIT[dtype] * abs(right_loss), f"rank {rank} step {number}"
            check_same(gradients, right, LIMIT[dtype], f"rank {rank} step {number} gradient of")
        check_same(state["parameters"], parameters, LIMIT[dtype], f"rank {rank} parameter")


@stages
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_five_steps_equal_one_process_deepspeed6793(two_ranks: Pool, stage: int, dtype: torch.dtype) -> None:
    """With accumulation under no_sync: the gradients of every step, not only the last parameters."""
    check(two_ranks.run(jobs.zero, stage, dtype, False), dtype, uneven=False)


@stages
def test_four_ranks_uneven(four_ranks: Pool, stage: int) -> None:
    check(four_ranks.run(jobs.zero, stage, torch.float64, True), torch.float64, uneven=True)


@stages
def test_bytes_held_and_sent_are_the_formulas(two_ranks: Pool, stage: int) -> None:
    for sent, calls, held, numels in two_ranks.run(jobs.one_zero_step, stage):
        assert held == zero_state_bytes(stage, numels, 2)
        assert sent == 4 * zero_sent_elements(stage, numels, 2)
        units = len(numels)
        assert units > 1 and any(numel % 2 for numel in numels), "padding is not tested"
        assert calls == {"reduce_scatter": units, "all_gather": units * (2 if stage == 3 else 1)}


def test_formulas_in_numbers() -> None:
    """figures.md: 16P, 8P + 8P/N, 4P + 12P/N, 16P/N in fp32; 2(N-1)/N P and 3(N-1)/N P elements."""
    P, N = 1000, 4
    totals = [zero_state_bytes(stage, [600, 400], N).total for stage in range(4)]
    assert totals == [16 * P, 8 * P + 8 * P // N, 4 * P + 12 * P // N, 16 * P // N]
    assert [zero_sent_elements(stage, [P], N) for stage in range(4)] == [1500, 1500, 1500, 2250]
    assert zero_state_bytes(3, [5, 2], 4).total == 16 * (8 + 4) // 4
    with pytest.raises(ValueError, match=r"stage=4.*0, 1, 2, 3"):
        zero_state_bytes(4, [1], 1)


@stages
def test_the_norm_counts_each_element_once_rocm_te715(two_ranks: Pool, stage: int) -> None:
    module = decoder(torch.float64)
    _, right = average_gradients(module, lambda m, b: (loss_sum(m, b)[0], 1), [batch(0, rank, 2) for rank in (0, 1)])
    norm = torch.stack([g.norm() for g in right.values()]).norm().item()
    for found, clipped, gradients, message in two_ranks.run(jobs.norm_and_clip, stage):
        assert found == pytest.approx(norm, rel=1e-12)
        assert clipped == pytest.approx(0.5, rel=1e-12)
        check_same(gradients, {name: g * (0.5 / norm) for name, g in right.items()}, 1e-12, "clipped")
        assert "the norm of the gradients is nan" in message


def test_states_move_between_numbers_of_ranks_and_stages_pt108869(two_ranks: Pool, four_ranks: Pool) -> None:
    """torchtitan 811, Fast-LLM 436: saved on 2 ranks, loaded on 4 and back, bitwise."""
    _, saved, *_ = two_ranks.run(jobs.zero, 2, torch.float32, False, steps=2)[0]
    (at_four, message, logits), *_ = four_ranks.run(jobs.load, 3, saved)
    assert "state['exp_avg']: missing, unknown or of another shape: norm.weight" in message
    (at_two, _, other_logits), *_ = two_ranks.run(jobs.load, 1, at_four)
    for state in (at_four, at_two):
        assert state["steps"] == saved["steps"] == 2
        for key in ("parameters", "exp_avg", "exp_avg_sq"):
            check_same(state[key], saved[key], 0.0, key)
    assert torch.equal(logits, other_logits) and saved["exp_avg"]["blocks.0.qkv.weight"].norm() > 0


# AdamW


@given(
    lr=st.floats(1e-5, 0.5),
    b1=st.floats(0, 0.99),
    b2=st.floats(0, 0.999),
    decay=st.floats(0, 0.5),
    seed=st.integers(0, 99),
)
def test_adamw_equals_torch(lr: float, b1: float, b2: float, decay: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    start, *gradients = torch.randn(6, 13, generator=generator, dtype=torch.float64)
    config = AdamWConfig(lr, (b1, b2), 1e-8, decay)
    theirs = torch.nn.Parameter(start.clone())
    optimizer = torch.optim.AdamW([theirs], lr, (b1, b2), 1e-8, decay)
    p, m, v = start, torch.zeros_like(start), torch.zeros_like(start)
    fast = [[tensor.clone()] for tensor in (p, m, v)]
    for t, g in enumerate(gradients, 1):
        theirs.grad = g.clone()
        optimizer.step()
        p, m, v = adamw_reference(p, g, m, v, t, config)
        adamw_(fast[0], [g], fast[1], fast[2], t, config)
    assert relative(p, theirs.detach()) <= 1e-12
    assert relative(fast[0][0], p) <= 1e-12 and relative(fast[2][0], v) <= 1e-12


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lr": -1.0}, "lr=-1.0"),
        ({"betas": (0.9, 1.0)}, r"betas\[1\]=1.0.*below 1"),
        ({"betas": (0.9,)}, "betas="),
        ({"eps": float("nan")}, "eps=nan"),
        ({"weight_decay": True}, "weight_decay=True"),
    ],
)
def test_wrong_hyperparameters_are_named(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AdamWConfig(**change)  # type: ignore[arg-type]
