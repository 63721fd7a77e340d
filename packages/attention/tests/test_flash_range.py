"""Where the forward goes without the running maximum, and that no number leaves the range because of it."""

from __future__ import annotations

from functools import partial

import attention_rule as rule
import pytest
import torch

from bancada_attention import attention, flash_attention
from bancada_attention.flash import tiled

TILED = partial(flash_attention, backend="tiled")


@pytest.mark.parametrize("causal", [False, True])
def test_with_and_without_the_running_maximum_the_result_is_the_same(
    causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = torch.Generator().manual_seed(3)
    q, k, v = (torch.randn(2, 4, 70, 24, generator=generator) for _ in range(3))
    mask = torch.rand(2, 70, generator=generator) > 0.3
    mask[1] = False
    without, lse = flash_attention(q, k, v, causal=causal, key_padding_mask=mask, return_lse=True, backend="tiled")
    monkeypatch.setattr(tiled, "SMALL_SCORES", -1.0)
    with_, right = flash_attention(q, k, v, causal=causal, key_padding_mask=mask, return_lse=True, backend="tiled")
    torch.testing.assert_close(without, with_, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(lse, right, rtol=1e-5, atol=1e-6)


def test_scores_too_large_or_not_a_number_keep_the_running_maximum() -> None:
    q, k, v = torch.ones(1, 1, 3, 4), torch.ones(1, 1, 5, 4), torch.ones(1, 1, 5, 4)
    hidden = torch.tensor([[True, True, True, True, False]])
    assert tiled._needs_no_maximum(q, k, v, 0.5, None)
    assert not tiled._needs_no_maximum(q * 100, k, v, 0.5, None)
    assert not tiled._needs_no_maximum(q, k, v, -50.0, None)
    for x in (k, v):
        x[0, 0, 4] = float("nan")
        assert not tiled._needs_no_maximum(q, k, v, 0.5, None)
        assert tiled._needs_no_maximum(q, k, v, 0.5, hidden)
        x[0, 0, 4] = 1.0


@pytest.mark.parametrize("size", [1e-33, 1e28, 1e36])
@pytest.mark.parametrize("score", [-21.0, 21.0])
def test_values_near_the_ends_of_the_range_survive(size: float, score: float) -> None:
    """2^S alone, or its sum with V, must leave float32's range at neither end, however the scores lie."""
    problem = rule.make(1, 1, 40, 300, 16)
    q, k = torch.ones_like(problem.q), torch.full_like(problem.k, score / 4) + problem.k / 100
    v = problem.v * size
    out, right = TILED(q, k, v), attention(q.double(), k.double(), v.double())
    torch.testing.assert_close(out / size, (right / size).float(), rtol=1e-5, atol=1e-6)
