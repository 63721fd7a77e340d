"""Accumulation, clipping, loss scaling, groups and the 8-bit map."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from bancada_optimizers import (
    AdamW,
    DynamicLossScaler,
    Muon,
    NonFiniteGradientError,
    accumulate,
    clip_gradients,
    count_labels,
    decay_groups,
    dequantize_blockwise,
    dynamic_map,
    muon_groups,
    quantize_blockwise,
    windows,
)
from bancada_optimizers.adamw8bit import reference

# Accumulation


@settings(max_examples=25)
@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=8), ignored=st.integers(0, 3),
    smoothing=st.sampled_from([0.0, 0.1]), double=st.booleans(),
)  # fmt: skip
def test_case19_any_cut_gives_the_full_batchs_gradient(
    lengths: list[int], ignored: int, smoothing: float, double: bool
) -> None:
    """transformers 34191, 35203, 46731: a mean of means weighs tokens by the micro-batch they are in."""
    dtype = torch.float64 if double else torch.float32
    torch.manual_seed(sum(lengths))
    model = nn.Linear(6, 11).to(dtype)
    batches = [(torch.randn(n, 6, dtype=dtype), torch.randint(11, (n,))) for n in lengths]
    for _, labels in batches[1:]:
        labels[:ignored] = -100  # a micro-batch may have no label at all; the first keeps its own

    def loss_sum(batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        return F.cross_entropy(model(batch[0]), batch[1], reduction="sum", label_smoothing=smoothing)

    loss = accumulate(batches, loss_sum, lambda batch: count_labels(batch[1]))
    found = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    x, y = torch.cat([x for x, _ in batches]), torch.cat([y for _, y in batches])
    whole = F.cross_entropy(model(x), y, label_smoothing=smoothing)
    whole.backward()
    limit = 1e-12 if double else 1e-6
    assert float((loss - whole.detach()).abs()) <= limit
    for g, p in zip(found, model.parameters(), strict=True):
        assert p.grad is not None and float((g - p.grad).abs().max()) <= limit


def test_case19_windows_and_refusals() -> None:
    assert list(windows(range(7), 3)) == [[0, 1, 2], [3, 4, 5], [6]]
    with pytest.raises(ValueError, match="size=0"):
        windows([], 0)
    for batches in ([], [torch.full((2,), -100)]):
        with pytest.raises(ValueError, match="tokens: 0 in"):
            accumulate(batches, lambda batch: batch.sum(), count_labels)


# Clipping


def with_gradients(*values: Any) -> list[nn.Parameter]:
    params = [nn.Parameter(torch.zeros(len(value))) for value in values]
    for p, value in zip(params, values, strict=True):
        p.grad = torch.tensor(value)
    return params


@pytest.mark.parametrize("max_norm", [0.5, 1e3])
def test_clips_as_torch_does(max_norm: float) -> None:
    torch.manual_seed(0)
    ours, theirs = ([nn.Parameter(torch.zeros(5, 3)) for _ in range(3)] for _ in range(2))
    for p, q in zip(ours, theirs, strict=True):
        p.grad = torch.randn(5, 3)
        q.grad = p.grad.clone()
    norm = torch.nn.utils.clip_grad_norm_(theirs, max_norm)
    clipped = clip_gradients(ours, max_norm)
    assert clipped.norm == pytest.approx(float(norm)) and not clipped.skipped
    for p, q in zip(ours, theirs, strict=True):
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-5, atol=1e-7)


def test_case21_nothing_to_clip() -> None:
    """Megatron 5529: norm 0 without gradients; PT148259: a generator used before is told."""
    params = [nn.Parameter(torch.ones(2))]
    assert clip_gradients(params, 1.0).norm == 0.0
    used = iter(params)
    list(used)
    with pytest.warns(UserWarning, match="no parameters were given"):
        assert clip_gradients(used, 1.0).norm == 0.0
    generator = (p for p in with_gradients([3.0, 4.0]))
    assert clip_gradients(generator, 1.0).norm == 5.0


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_non_finite_gradients_meet_the_policy(bad: float) -> None:
    params = with_gradients([3.0, bad], [4.0, 0.0])
    with pytest.raises(NonFiniteGradientError, match=r"1 gradient elements are not finite, in the parameters \[0\]"):
        clip_gradients(params, 1.0)
    assert params[1].grad is not None and params[1].grad.tolist() == [4.0, 0.0]
    zeroed = clip_gradients(params, 1.0, nonfinite="zero")
    assert (zeroed.norm, zeroed.nonfinite, zeroed.skipped) == (5.0, 1, False)
    assert params[0].grad is not None
    assert params[0].grad.tolist() == pytest.approx([0.6, 0.0]) and params[1].grad.tolist() == pytest.approx([0.8, 0.0])
    params = with_gradients([3.0, bad], [4.0, 0.0])
    assert clip_gradients(params, 1.0, nonfinite="skip").skipped
    optimizer = AdamW(params)
    optimizer.step()
    assert not optimizer.state and all(not p.detach().any() for p in params)


def test_large_gradients_are_no_overflow() -> None:
    """Their squares pass fp32's largest number, and fp16's much sooner."""
    params = with_gradients([3e30, 4e30])
    assert clip_gradients(params, 1.0).norm == pytest.approx(5e30)
    assert params[0].grad is not None and params[0].grad.tolist() == pytest.approx([0.6, 0.8])
    half = [nn.Parameter(torch.zeros(2, dtype=torch.float16))]
    half[0].grad = torch.tensor([3e4, 4e4], dtype=torch.float16)
    assert clip_gradients(half, 1e9).norm == pytest.approx(5e4, rel=1e-3)


@pytest.mark.parametrize(
    ("options", "message"), [({"max_norm": 0}, "max_norm=0"), ({"max_norm": 1, "nonfinite": "x"}, "nonfinite='x'")]
)
def test_wrong_clipping_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        clip_gradients([], **options)


# Loss scaling


def test_case20_gradients_are_unscaled_once() -> None:
    """PT94060: clipping between unscale and step sees, and steps, the true gradient."""
    p = nn.Parameter(torch.zeros(2))
    optimizer, scaler = torch.optim.SGD([p], lr=1.0), DynamicLossScaler(64.0)
    scaler.scale((p * torch.tensor([3.0, 4.0])).sum()).backward()
    assert p.grad is not None and p.grad.tolist() == [192.0, 256.0]
    assert scaler.unscale(optimizer)
    with pytest.raises(RuntimeError, match="unscaled since its last step"):
        scaler.unscale(optimizer)
    assert clip_gradients([p], 100.0).norm == 5.0
    assert scaler.step(optimizer)
    assert p.tolist() == [-3.0, -4.0]


def test_the_scale_grows_and_shrinks_inside_its_bounds() -> None:
    p = nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([p], lr=0.0)
    scaler = DynamicLossScaler(4.0, interval=2, smallest=2.0, largest=8.0)
    seen = []
    for bad in (False, False, False, False, True, True, True, False, False):
        p.grad = torch.tensor([math.nan if bad else 1.0])
        assert scaler.step(optimizer) is not bad
        seen.append(scaler.value)
    assert seen == [4, 8, 8, 8, 4, 2, 2, 2, 4]
    p.grad = torch.ones(1)
    scaler.step(optimizer)
    other = DynamicLossScaler(interval=2)
    other.load_state_dict(scaler.state_dict())
    assert other.state_dict() == {"scale": 4.0, "good_steps": 1}
    for options, message in (({"growth": 1}, "growth=1"), ({"scale": 0.5}, "scale=0.5"), ({"interval": 0}, "interval")):
        with pytest.raises(ValueError, match=message):
            DynamicLossScaler(**options)  # type: ignore[arg-type]


# Groups


class Tiny(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 4)
        self.hidden = nn.Linear(4, 6)
        self.norm = nn.LayerNorm([2, 3])
        self.conv = nn.Conv1d(6, 4, 3)
        self.proj = nn.Linear(6, 4, bias=False)
        self.frozen = nn.Linear(4, 4).requires_grad_(False)
        self.lm_head = nn.Linear(4, 11, bias=False)
        self.lm_head.weight = self.embed.weight  # tied


def names(model: nn.Module, group: dict[str, Any]) -> set[str]:
    return {name for name, p in model.named_parameters() if any(p is one for one in group["params"])}


def test_decay_groups_are_matrices_and_the_rest() -> None:
    model = Tiny()
    decaying, spared = decay_groups(model, 0.2, no_decay=["proj"])
    assert (decaying["weight_decay"], spared["weight_decay"]) == (0.2, 0.0)
    assert names(model, decaying) == {"embed.weight", "hidden.weight", "conv.weight"}
    assert names(model, spared) == {"hidden.bias", "norm.weight", "norm.bias", "conv.bias", "proj.weight"}
    assert len(decaying["params"]) == 3 and len(spared["params"]) == 5
    AdamW([decaying, spared])
    with pytest.raises(ValueError, match="no_decay='head'"):
        decay_groups(model, no_decay=["head"])
    with pytest.raises(ValueError, match="weight_decay=-1"):
        decay_groups(model, -1)
    with pytest.raises(ValueError, match="no trainable"):
        decay_groups(model.frozen)


def test_muon_groups_are_hidden_matrices_and_the_rest() -> None:
    model = Tiny()
    hidden, rest = muon_groups(model)
    assert names(model, hidden) == {"hidden.weight", "proj.weight"}
    assert names(model, rest) == {
        "embed.weight", "hidden.bias", "norm.weight", "norm.bias", "conv.weight", "conv.bias",
    }  # fmt: skip
    Muon([hidden, rest])
    (only,) = muon_groups(model, rest=["hidden", "proj.weight"])
    assert only["use_muon"] is False
    with pytest.raises(ValueError, match="rest='nothing'"):
        muon_groups(model, rest=["nothing"])


def test_muon_groups_ask_the_model_for_its_output_layer() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.vocabulary = nn.Linear(3, 3, bias=False), nn.Linear(3, 5, bias=False)

        def get_output_embeddings(self) -> nn.Module:
            return self.vocabulary

    model = Model()
    assert [names(model, group) for group in muon_groups(model)] == [{"body.weight"}, {"vocabulary.weight"}]


# The 8-bit map


@pytest.mark.parametrize("signed", [True, False])
def test_case15_the_map_has_256_sorted_codes(signed: bool) -> None:
    """bnb 227; the finest decade has 64 (unsigned 128) values, the coarsest one (two)."""
    values = dynamic_map(signed)
    assert values.shape == (256,) and bool((values.diff() > 0).all())
    assert float(values[-1]) == 1.0 and 0.0 in values.tolist()
    assert int(((values > 0.1) & (values < 1)).sum()) == (64 if signed else 128)
    assert int(((values > 1e-7) & (values < 1e-6)).sum()) == (1 if signed else 2)


@pytest.mark.parametrize("signed", [True, False])
def test_the_map_is_bitsandbytes(signed: bool) -> None:
    functional = pytest.importorskip("bitsandbytes.functional", reason="bitsandbytes is not installed")
    theirs = functional.create_dynamic_map(signed=signed)
    assert float((dynamic_map(signed) - theirs.double()).abs().max()) <= 1e-7


@settings(max_examples=30)
@given(size=st.integers(0, 1100), signed=st.booleans(), low=st.integers(-30, 0), seed=st.integers(0, 99))
def test_codes_are_the_nearest(size: int, signed: bool, low: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(size, generator=generator) * 10 ** (torch.rand(size, generator=generator) * low)
    x = x if signed else x.abs()
    codes, scales = quantize_blockwise(x, signed)
    right, right_scales = reference.quantize(x, signed)
    assert codes.dtype == torch.uint8 and codes.shape == (size,) and torch.equal(scales, right_scales)
    found, best = dequantize_blockwise(codes, scales, signed), reference.dequantize(right, right_scales, signed)
    off, least = (found - x).abs(), (best - x).abs()
    assert bool((off <= least * (1 + 1e-5) + 1e-9 * scales.repeat_interleave(256)[:size]).all())


def test_case15_zeros_and_extremes_come_back() -> None:
    zeros = torch.zeros(600)
    for signed in (True, False):
        codes, scales = quantize_blockwise(zeros, signed)
        assert torch.equal(dequantize_blockwise(codes, scales, signed), zeros)
    x = torch.tensor([-3e38, 3e38, 1e-38, 0.0, -0.0])
    back = dequantize_blockwise(*quantize_blockwise(x, True), True)
    assert back.tolist() == pytest.approx([-2.98e38, 3e38, 0.0, 0.0, 0.0], rel=0.01)
    tiny = torch.full((3,), 1e-42)
    assert torch.equal(dequantize_blockwise(*quantize_blockwise(tiny, True), True), tiny)
    with pytest.raises(ValueError, match=r"dtype torch.float64"):
        quantize_blockwise(x.double(), True)
    with pytest.raises(ValueError, match="scales: 1 for 600 codes; must be 3"):
        dequantize_blockwise(torch.zeros(600, dtype=torch.uint8), torch.ones(1), True)


@pytest.mark.parametrize("fused", [False, True])
def test_case20_an_overflow_skips_a_fused_step_too(fused: bool) -> None:
    """PT95847: torch's fused step took infinite gradients; nothing is stepped here, ours or torch's."""
    for optimizer_of in (lambda p: AdamW([p], backend="fused" if fused else "foreach"),
                         lambda p: torch.optim.AdamW([p], fused=fused)):  # fmt: skip
        p = nn.Parameter(torch.ones(3))
        optimizer, scaler = optimizer_of(p), DynamicLossScaler(8.0)
        p.grad = torch.tensor([1.0, math.inf, 1.0])
        assert not scaler.step(optimizer)
        assert p.tolist() == [1.0, 1.0, 1.0] and not optimizer.state[p]
