"""Tensor parallelism: five steps equal the whole model's; the loss's values; bytes; refusals before a collective."""

from __future__ import annotations

import functools
from typing import Any

import jobs_tensor as jobs
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from parallel_model import HIDDEN
from parallel_pool import LIMIT, Pool, check_same, relative

from bancada_parallelism import cross_entropy_of_shards

reference = functools.cache(functools.partial(jobs.five_steps, None))


def check(ranks: list[Any], dtype: torch.dtype) -> None:
    """Case 6 (Megatron 844, ColossalAI 1249) with it: the tied weight's gradient is the sum of both uses."""
    for rank, told in enumerate(ranks):
        for step, ((loss, gradients), (right_loss, right)) in enumerate(zip(told, reference(dtype), strict=True)):
            assert abs(loss - right_loss) <= LIMIT[dtype] * abs(right_loss), f"rank {rank} step {step}"
            check_same(gradients, right, LIMIT[dtype], f"rank {rank} step {step} gradient of")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_five_steps_equal_the_whole_model(two_ranks: Pool, dtype: torch.dtype) -> None:
    check(two_ranks.run(jobs.train, dtype), dtype)


def test_four_ranks(four_ranks: Pool) -> None:
    for dtype in (torch.float64, torch.float32):
        check(four_ranks.run(jobs.train, dtype), dtype)


def test_two_all_reduces_of_bsh_a_block_each_way(two_ranks: Pool) -> None:
    """figures.md: q, k and v share the all-reduce of their input's gradient."""
    bsh = 2 * 5 * HIDDEN * 4
    for (forward, sent), (backward, sent_backward) in two_ranks.run(jobs.block_traffic):
        assert forward == backward == {"all_reduce": 2}
        assert sent == sent_backward == 2 * bsh  # n = 2 ranks: an all-reduce sends 2(n-1)/n of its bytes


@pytest.mark.parametrize("vocab", [1, 2, 5, 8])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_cross_entropy_by_value_megatron7452(two_ranks: Pool, vocab: int, dtype: torch.dtype) -> None:
    """Not right + log(ranks); large logits; ignored labels; padding columns count for nothing."""
    generator = torch.Generator().manual_seed(vocab)
    logits = (30 * torch.randn(2, 3, vocab, generator=generator, dtype=torch.float64)).to(dtype)
    labels = torch.randint(0, vocab, (2, 3), generator=generator)
    labels[0, 1] = -100
    dlosses = torch.randn(2, 3, generator=generator, dtype=torch.float64)
    wide = logits.double().requires_grad_()
    right = torch.nn.functional.cross_entropy(wide.flatten(0, 1), labels.flatten(), reduction="none").view(2, 3)
    (dright,) = torch.autograd.grad(right, wide, dlosses)
    limit = 8 * torch.finfo(torch.promote_types(dtype, torch.float32)).eps
    for losses, gradients, padding, calls in two_ranks.run(jobs.cross_entropy, logits, labels, dlosses):
        assert losses[0, 1] == 0 and losses.dtype == torch.promote_types(dtype, torch.float32)
        assert relative(losses, right.detach()) <= limit
        assert relative(gradients, dright) <= max(limit, 2 * torch.finfo(dtype).eps)
        assert not padding.any()
        assert calls == {"all_reduce": 2}


@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=5), tokens=st.integers(1, 6), seed=st.integers(0, 99),
    scale=st.sampled_from([0.1, 1.0, 300.0]),
)  # fmt: skip
def test_the_reference_equals_torch(sizes: list[int], tokens: int, seed: int, scale: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(tokens, sum(sizes), generator=generator, dtype=torch.float64)
    labels = torch.randint(0, sum(sizes), (tokens,), generator=generator)
    found = cross_entropy_of_shards(logits.split(sizes, dim=1), labels)
    right = torch.nn.functional.cross_entropy(logits, labels, reduction="none")
    assert (found - right).abs().max() <= 1e-13 * max(1.0, scale)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("out_features", "out_features=3: must be a multiple of 2"),
        ("in_features", "in_features=3: must be a multiple of 2"),
        ("shape", "logits: shape [3, 3]; must be [*labels.shape, ceil(vocab/n)] = [3, 4]"),
        ("label", "labels: 7; must be 0 to 6, or -100"),
        ("ignored", "labels: -1; must be 0 to 6, or -100"),
        ("dtype", "labels: dtype torch.int32"),
        ("token", "tokens: -1; must be 0 to 6"),
        ("padding_idx", "embedding: padding_idx=0"),
    ],
)
def test_what_does_not_fit_is_refused_before_a_collective(two_ranks: Pool, what: str, message: str) -> None:
    for told, collectives in two_ranks.run(jobs.refused, what):
        assert message in told and collectives == 0
