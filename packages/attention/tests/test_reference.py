"""The plain reference and the paper's algorithm: derivatives by finite differences, masks, agreement."""

from __future__ import annotations

import math

import attention_rule as rule
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from bancada_attention import attention, flash_attention
from bancada_attention.flash.reference import flash_backward, flash_forward

MASK = torch.tensor([[True, False, True], [False, False, False]])


def small(causal: bool, mask: torch.Tensor | None) -> rule.Problem:
    return rule.make(2, 2, 4, 3, 2, kv_heads=1, dtype=torch.float64, causal=causal, mask=mask)


def both(function, problem: rule.Problem, **options):  # type: ignore[no-untyped-def]
    """Output and log-sum-exp, the latter with 0 for -inf: finite differences cannot take an infinity."""

    def outputs(*tensors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        out, lse = function(*tensors, causal=problem.causal, key_padding_mask=problem.mask, return_lse=True, **options)
        return out, lse.masked_fill(lse == -math.inf, 0.0)

    return outputs


@pytest.mark.parametrize("mask", [None, MASK], ids=["dense", "padded"])
@pytest.mark.parametrize("causal", [False, True])
def test_gradcheck_of_the_reference(causal: bool, mask: torch.Tensor | None) -> None:
    problem = small(causal, mask)
    assert gradcheck(both(attention, problem), problem.leaves())
    assert gradgradcheck(both(attention, problem), problem.leaves(), fast_mode=True)


@pytest.mark.parametrize("mask", [None, MASK], ids=["dense", "padded"])
@pytest.mark.parametrize("causal", [False, True])
def test_gradcheck_of_flash(causal: bool, mask: torch.Tensor | None) -> None:
    problem = small(causal, mask)
    assert gradcheck(both(flash_attention, problem, backend="tiled"), problem.leaves())


def test_gradcheck_of_an_additive_mask() -> None:
    """A learned bias gets its gradient."""
    problem = small(True, MASK)
    bias = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)

    def biased(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return attention(q, k, v, causal=True, key_padding_mask=MASK, attn_mask=bias)

    assert gradcheck(biased, (*problem.leaves(), bias))


@pytest.mark.parametrize("shape", [(5,), (6, 5), (1, 5), (6, 1), (4, 6, 5), (2, 1, 6, 5), (2, 4, 6, 5), ()])
def test_attn_mask_broadcasts(shape: tuple[int, ...]) -> None:
    """A bool mask, the same as -inf and 0 added, and the mask given in full, agree with the formula row by row."""
    problem = rule.make(2, 4, 6, 5, 3, kv_heads=2, dtype=torch.float64)
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(3)) < 0.7
    q, k, v = problem.q, problem.k, problem.v
    found = attention(q, k, v, attn_mask=mask)
    added = torch.zeros(shape, dtype=torch.float64).masked_fill(~mask, -math.inf)
    torch.testing.assert_close(attention(q, k, v, attn_mask=added), found, rtol=0, atol=1e-15)
    full = mask.expand(2, 4, 6, 5)
    for b, h, i in ((0, 0, 0), (0, 3, 5), (1, 1, 2), (1, 2, 4)):
        keep = full[b, h, i]
        scores = k[b, h // 2][keep] @ q[b, h, i] / math.sqrt(3)
        torch.testing.assert_close(found[b, h, i], torch.softmax(scores, 0) @ v[b, h // 2][keep], rtol=0, atol=1e-14)


@pytest.mark.parametrize(("q_len", "k_len"), [(37, 37), (20, 45)])
@pytest.mark.parametrize("causal", [False, True])
def test_the_papers_algorithm(q_len: int, k_len: int, causal: bool) -> None:
    """flash/reference.py, with blocks that do not divide the lengths, against the formulas."""
    problem = rule.make(1, 1, q_len, k_len, 8, dtype=torch.float64, causal=causal)
    problem.dlse.zero_()
    right = rule.answer(problem)
    q, k, v, dout = (x[0, 0] for x in (problem.q, problem.k, problem.v, problem.dout))
    options = {"causal": causal, "scale": problem.factor, "block_q": 16, "block_k": 7}
    out, lse = flash_forward(q, k, v, **options)
    gradients = flash_backward(dout, q, k, v, out, lse, **options)
    for name, found in zip(rule.NAMES, (out, lse, *gradients), strict=True):
        torch.testing.assert_close(found, right[name][0, 0], rtol=0, atol=1e-12, msg=lambda m, n=name: f"{n}: {m}")
