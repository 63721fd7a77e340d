"""Every optimizer against its float64 reference, and the references against torch and against hand-made numbers."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rules import BLOCKWISE, CASES, LR, WD, Case

from bancada_optimizers import adamw_step, lion_step, muon_step, newton_schulz, sgd_step

VECTORS = st.one_of(
    st.just(()), st.integers(0, 40).map(lambda n: (n,)), st.tuples(*[st.integers(1, 5)] * 3),
    st.tuples(st.integers(1, 20), st.integers(1, 20)),
)  # fmt: skip
MATRICES = st.tuples(st.integers(1, 12), st.integers(1, 12))
ids = {"ids": lambda case: case.name}


def layouts(p: torch.Tensor, layout: str) -> torch.Tensor:
    """The same numbers, elsewhere in memory."""
    if layout == "strided":
        return torch.stack([p, p], -1)[..., 0]
    return p.transpose(0, -1).contiguous().transpose(0, -1) if p.dim() > 1 else p


@pytest.mark.parametrize("case", CASES, **ids)
@settings(max_examples=8)
@given(data=st.data())
def test_fifty_float64_steps_follow_the_reference(case: Case, data: st.DataObject) -> None:
    """Case 1, 6, 8: shapes, strides and gaps in the gradients as they come, always with decay."""
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 99)))
    shapes = data.draw(st.lists(MATRICES if case.matrices else VECTORS, min_size=1, max_size=3))
    kinds = data.draw(st.tuples(*[st.sampled_from(["plain", "strided", "transposed"])] * len(shapes)))
    gaps = data.draw(st.tuples(*[st.sets(st.integers(0, 49), max_size=30)] * len(shapes)))
    starts = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
    params = [torch.nn.Parameter(layouts(p, kind)) for p, kind in zip(starts, kinds, strict=True)]
    optimizer, references = case.optimizer(params), [case.reference(p) for p in starts]
    for t in range(50):
        for p, reference, gap in zip(params, references, gaps, strict=True):
            g = None if t in gap else torch.randn(p.shape, generator=generator, dtype=torch.float64) * 0.1
            p.grad = g
            reference.step(g)
        optimizer.step()
    for p, reference in zip(params, references, strict=True):
        assert p.numel() == 0 or float((p.detach() - reference.p).abs().max()) <= 1e-9


@pytest.mark.parametrize("case", CASES, **ids)
def test_single_float32_steps_from_copied_state(case: Case) -> None:
    """A step in fp32 is within 1e-6 of the float64 step from the same numbers, whatever came before."""
    torch.manual_seed(1)
    p = torch.nn.Parameter(torch.randn(24, 17))
    optimizer, flips = case.optimizer([p]), 0
    for t in range(1, 12):
        p.grad = torch.randn_like(p)
        before, state = p.detach().double(), {k: v.clone() for k, v in optimizer.state[p].items()}
        optimizer.step()
        reference = case.reference(before)
        reference.t = t - 1
        for name in ("exp_avg", "momentum_buffer"):
            reference.m = state[name].double() if name in state else reference.m
        reference.v = state["exp_avg_sq"].double() if "exp_avg_sq" in state else reference.v
        reference.step(p.grad)
        off = (p.detach().double() - reference.p).abs()
        if case.rule == "lion":  # a sign of almost zero may fall either way
            flipped = off > LR
            flips += int(flipped.sum())
            off = off[~flipped]
        assert float(off.max()) <= 1e-6
    assert flips == 0  # of 4488 signs; |c| below its rounding happens in one of a million


@pytest.mark.parametrize("case", [c for c in CASES if c.rule in ("adamw", "sgd") and "8bit" not in c.name], **ids)
def test_as_torch_does(case: Case) -> None:
    """Bar: AdamW and SGD against torch.optim, 50 steps in float64."""
    torch.manual_seed(2)
    ours = [torch.nn.Parameter(torch.randn(5, 7, dtype=torch.float64)) for _ in range(3)]
    theirs = [torch.nn.Parameter(p.detach().clone()) for p in ours]
    twin = torch.optim.AdamW if case.rule == "adamw" else torch.optim.SGD
    optimizers = case.optimizer(ours), twin(theirs, lr=LR, weight_decay=WD, **case.options)
    for t in range(50):
        for p, q in zip(ours, theirs, strict=True):
            p.grad = torch.randn_like(p) if t % 3 else None
            q.grad = None if p.grad is None else p.grad.clone()
        for optimizer in optimizers:
            optimizer.step()
    assert max(float((p - q).abs().max().detach()) for p, q in zip(ours, theirs, strict=True)) <= 1e-9


def test_first_updates_by_hand() -> None:
    """t=1: AdamW moves by lr sign(g) (eps aside), Lion by lr sign(g), SGD by lr g; decay comes on top."""
    p, g, zero = (torch.tensor([x], dtype=torch.float64) for x in (2.0, -0.5, 0.0))
    new, m, v = adamw_step(p, g, zero, zero, 1, lr=0.1, eps=1e-30, weight_decay=0.5)
    assert float(new) == pytest.approx(2.0 + 0.1 - 0.1 * 0.5 * 2.0)
    assert (float(m), float(v)) == pytest.approx((-0.05, 0.00025))
    new, m = lion_step(p, g, zero, lr=0.1, weight_decay=0.5)
    assert (float(new), float(m)) == pytest.approx((2.0 * 0.95 + 0.1, -0.005))
    new, b = sgd_step(p, g, None, lr=0.1, momentum=0.9, weight_decay=0.5, nesterov=True)
    assert (float(new), float(b)) == pytest.approx((2.0 - 0.1 * 1.9 * 0.5, 0.5))  # g = -0.5 + 0.5 * 2


def test_adamw_eps_stands_outside_the_corrected_root() -> None:
    """Case 10, kozistr 480: m_hat / (sqrt(v_hat) + eps)."""
    p, g = torch.zeros(1, dtype=torch.float64), torch.full((1,), 1e-3, dtype=torch.float64)
    new, _, _ = adamw_step(p, g, p, p, 1, lr=1.0, eps=1e-3, weight_decay=0.0)
    assert float(new) == pytest.approx(-0.5)


# Muon


@pytest.mark.parametrize("shape", [(8, 8), (5, 12), (30, 7), (1, 9), (64, 64)])
def test_newton_schulz_is_its_polynomial_of_the_singular_values(shape: tuple[int, int]) -> None:
    """Case 10, kozistr 408: U p(p(...(S / ||S||))) V^T with p(x) = a x + b x^3 + c x^5, five times."""
    g = torch.randn(shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    u, s, vt = torch.linalg.svd(g, full_matrices=False)
    s = s / s.norm()
    for _ in range(5):
        s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
    torch.testing.assert_close(newton_schulz(g), u @ torch.diag(s) @ vt, rtol=0, atol=1e-10)
    assert float(s.max()) < 1.3


def test_newton_schulz_of_zeros_and_of_a_batch() -> None:
    assert torch.equal(newton_schulz(torch.zeros(3, 4)), torch.zeros(3, 4))
    batch = torch.randn(2, 6, 4, dtype=torch.float64)
    torch.testing.assert_close(newton_schulz(batch), torch.stack([newton_schulz(x) for x in batch]))


@pytest.mark.parametrize("nesterov", [True, False])
def test_muon_state_changes_by_its_own_rule_only(nesterov: bool) -> None:
    """Case 4: torch.optim.Muon normalised a view of its bf16 buffer in place."""
    from bancada_optimizers import Muon

    p = torch.nn.Parameter(torch.randn(6, 6, dtype=torch.bfloat16))
    optimizer = Muon([p], nesterov=nesterov, ns_dtype="bfloat16")
    m = torch.zeros(6, 6)
    for _ in range(4):
        p.grad = torch.randn_like(p)
        m = 0.95 * m + 0.05 * p.grad.float()
        optimizer.step()
        torch.testing.assert_close(optimizer.state[p]["momentum_buffer"], m)


@pytest.mark.parametrize("ours", ["original", "match_rms_adamw"])
@pytest.mark.parametrize("nesterov", [True, False])
def test_muon_as_torch_does_up_to_its_bf16(ours: str, nesterov: bool) -> None:
    """One step of torch.optim.Muon, which multiplies in bf16: as far off as the reference in bf16 is."""
    torch.manual_seed(4)
    g = torch.randn(24, 40)
    q = torch.nn.Parameter(torch.zeros(24, 40))
    q.grad = g.clone()
    adjust = None if ours == "original" else ours
    torch.optim.Muon([q], lr=1.0, weight_decay=0.0, nesterov=nesterov, adjust_lr_fn=adjust).step()
    zero = torch.zeros_like(g, dtype=torch.float64)
    options: dict[str, Any] = {"lr": 1.0, "nesterov": nesterov, "scale": ours}
    exact, _ = muon_step(zero, g, zero, **options)
    rounded, _ = muon_step(zero, g, zero, dtype=torch.bfloat16, **options)
    error = float((rounded - exact).abs().max())
    assert float((q.detach() - exact).abs().max()) <= 3 * error
    assert error < 0.1 * float(exact.abs().max())


def test_muon_scale_gives_the_update_adamws_size() -> None:
    """arXiv 2502.16982, lemma 1: RMS of an orthogonal [a, b] matrix is 1/sqrt(max(a, b)), so 0.2 after scaling."""
    torch.manual_seed(5)
    g, zero = torch.randn(48, 96, dtype=torch.float64), torch.zeros(48, 96, dtype=torch.float64)
    new, _ = muon_step(zero, g, zero, lr=1.0)
    assert float(new.pow(2).mean().sqrt()) == pytest.approx(0.2, rel=0.2)


# 8 bits


def test_eight_bit_steps_stay_near_adamw() -> None:
    """Rates of change are those of AdamW to the precision of a code: over 50 steps, a few percent of the way gone."""
    torch.manual_seed(6)
    start = torch.randn(3000, dtype=torch.float64)
    p = torch.nn.Parameter(start.float())
    optimizer, reference = BLOCKWISE.optimizer([p]), BLOCKWISE.reference(start)
    for _ in range(50):
        g = torch.randn(3000, dtype=torch.float64)
        p.grad = g.float()
        reference.step(g)
        optimizer.step()
    way = float((reference.p - start).norm())
    assert float((p.detach().double() - reference.p).norm()) <= 0.05 * way
    assert math.isfinite(way) and way > 0
