"""Every method against its float64 reference, perturbed, with gradients; and what it refuses."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from peft_models import IDS, METHODS, Network, adapted, gpt2, perturb
from torch import Tensor, nn

import bancada_peft as bp
from bancada_peft.bottleneck import bottleneck
from bancada_peft.dora import dora_linear, dora_weight
from bancada_peft.dora.norm import row_norms
from bancada_peft.ia3 import ia3_input, ia3_output
from bancada_peft.lora import lora_linear, lora_weight, scaling

SETTINGS = settings(max_examples=25, deadline=None)
DOUBLE: Any = {"dtype": torch.float64}


def by_reference(kind: str, x: Tensor, layer: nn.Linear) -> Tensor:
    """The adapted layer's output by the plain mathematics."""
    adapter: Any = layer.adapters["default"]  # type: ignore[index, operator]
    W, bias = layer.weight, layer.bias
    if kind == "lora":
        return lora_linear(x, W, adapter.lora_A, adapter.lora_B, adapter.s, bias)
    if kind == "dora":
        return dora_linear(x, W, adapter.lora_A, adapter.lora_B, adapter.magnitude, adapter.s, bias)
    if kind == "ia3":
        return ia3_output(x, W, adapter.ia3_l, bias)
    if kind == "ia3-input":
        return ia3_input(x, W, adapter.ia3_l, bias)
    h = x @ W.T if bias is None else x @ W.T + bias
    return bottleneck(h, adapter.down.weight, adapter.down.bias, adapter.up.weight, adapter.up.bias)


def layer_of(kind: str, inner: int, outer: int, bias: bool, r: int) -> tuple[nn.Module, nn.Linear]:
    model = nn.Sequential(nn.Linear(inner, outer, bias=bias, **DOUBLE))
    target = ("0",)
    chosen: dict[str, Any] = {
        "lora": bp.Lora(target, r=r, alpha=3),
        "dora": bp.Dora(target, r=r, alpha=3),
        "ia3": bp.Ia3(target),
        "ia3-input": bp.Ia3(target, feedforward_modules=target),
        "bottleneck": bp.Bottleneck(target, r=r),
    }
    bp.adapt(model, chosen[kind])
    perturb(model)
    layer = model[0]
    assert isinstance(layer, nn.Linear)
    return model, layer


@pytest.mark.parametrize("kind", ["lora", "dora", "ia3", "ia3-input", "bottleneck"])
@SETTINGS
@given(
    inner=st.integers(1, 7),
    outer=st.integers(1, 7),
    r=st.integers(1, 9),
    bias=st.booleans(),
    batch=st.lists(st.integers(0, 3), max_size=2),
)
def test_output_and_gradients_are_those_of_the_reference(
    kind: str, inner: int, outer: int, r: int, bias: bool, batch: list[int]
) -> None:
    model, layer = layer_of(kind, inner, outer, bias, r)
    x = torch.randn(*batch, inner, requires_grad=True, **DOUBLE)
    leaves = [x, *(parameter for parameter in model.parameters() if parameter.requires_grad)]
    out, right = model(x), by_reference(kind, x, layer)
    grad = torch.randn(out.shape, **DOUBLE)
    torch.testing.assert_close(out, right, rtol=1e-10, atol=1e-10)
    mine, theirs = (torch.autograd.grad(y, leaves, grad) for y in (out, right))
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, W, A, B, m: lora_linear(x, W, A, B, 0.7),
        lambda x, W, A, B, m: x @ dora_weight(W, A, B, m, 0.7, detach_norm=False).T,
        lambda x, W, A, B, m: ia3_output(x, W, m),
        lambda x, W, A, B, m: ia3_input(x, W, A[0]),
        lambda x, W, A, B, m: bottleneck(x, A, B[:2, 0], A.T, W[0]),
    ],
    ids=["lora", "dora", "ia3", "ia3-input", "bottleneck"],
)
def test_references_pass_gradcheck(function: Any) -> None:
    shapes = ((2, 3), (4, 3), (2, 3), (4, 2), (4,))
    arguments = [torch.randn(*shape, requires_grad=True, **DOUBLE) for shape in shapes]
    assert torch.autograd.gradcheck(function, arguments)


def test_a_layer_by_hand() -> None:
    """W = I, A = [1 2], B = [3 1]^T, s = 2: W + s B A = [[7, 12], [2, 5]]; its rows have norms sqrt(193), sqrt(29)."""
    W, A, B = torch.eye(2, **DOUBLE), torch.tensor([[1.0, 2.0]], **DOUBLE), torch.tensor([[3.0], [1.0]], **DOUBLE)
    right = torch.tensor([[7.0, 12.0], [2.0, 5.0]], **DOUBLE)
    torch.testing.assert_close(lora_weight(W, A, B, 2.0), right)
    norms = torch.tensor([math.sqrt(193), math.sqrt(29)], **DOUBLE)
    torch.testing.assert_close(row_norms(W, A, B, 2.0), norms)
    torch.testing.assert_close(dora_weight(W, A, B, norms * 2, 2.0), right * 2)


def test_scales_are_those_of_the_papers() -> None:
    assert scaling(16, 8) == 0.5 and scaling(16, 8, rank_stabilised=True) == 2.0
    model = adapted("rslora")
    assert model.first.adapters["default"].s == pytest.approx(5 / math.sqrt(3))  # type: ignore[index, operator, union-attr]


@pytest.mark.parametrize("name", [name for name in METHODS if name != "prompt"])
def test_a_new_adapter_changes_nothing(name: str) -> None:
    """Of the methods' beginnings: B = 0, l = 1, up = 0, m = ||W||, a copy of the head."""
    model = Network()
    before = model(IDS)
    bp.adapt(model, METHODS[name])
    torch.testing.assert_close(model(IDS), before, rtol=1e-13, atol=1e-13)


def test_an_embedding_looks_up_what_it_would_compute() -> None:
    model = adapted("lora")
    embed: Any = model.embed
    adapter = embed.adapters["default"]
    table = embed.weight + adapter.s * (adapter.lora_B @ adapter.lora_A).T
    torch.testing.assert_close(embed(IDS), table[IDS], rtol=1e-12, atol=1e-12)


def test_an_embeddings_padding_gets_no_gradient() -> None:
    model = nn.Sequential(nn.Embedding(5, 3, padding_idx=2))
    bp.adapt(model, bp.Lora(("0",), r=2))
    perturb(model)
    model(torch.tensor([2, 1])).sum().backward()
    grad = model[0].adapters["default"].lora_A.grad
    assert grad[:, 2].eq(0).all() and grad[:, 1].ne(0).any()


@pytest.mark.parametrize("name", ["lora", "dora", "ia3"])
def test_conv1d_computes_what_a_linear_layer_does(name: str) -> None:
    """HF peft 1588, 2103: the weight lies as [in, out]; perturbed, and with out != in."""
    model, layer = gpt2().double(), nn.Linear(16, 48).double()
    conv = model.transformer.h[0].attn.c_attn
    with torch.no_grad():
        layer.weight.copy_(conv.weight.T)
        layer.bias.copy_(conv.bias)
    plain = nn.ModuleDict({"c_attn": layer})
    method = {"lora": bp.Lora(("c_attn",), r=4), "dora": bp.Dora(("c_attn",), r=4), "ia3": bp.Ia3(("c_attn",))}[name]
    for each in (model, plain):
        bp.adapt(each, method)
    for one, other in zip(conv.adapters.parameters(), layer.adapters.parameters(), strict=True):  # type: ignore[union-attr]
        torch.testing.assert_close(one.shape, other.shape)
        with torch.no_grad():
            one += torch.randn_like(one)
            other.copy_(one)
    x = torch.randn(3, 5, 16, **DOUBLE)
    torch.testing.assert_close(conv(x), layer(x), rtol=1e-11, atol=1e-11)
    bp.merge(model)
    torch.testing.assert_close(conv(x), layer(x), rtol=1e-11, atol=1e-11)


def test_dora_is_finite_on_rows_of_zeros() -> None:
    """HF peft 2049: outputs, gradients, and the merged weight; also where only the update is zero."""
    model = nn.Sequential(nn.Linear(4, 3, bias=False))
    with torch.no_grad():
        model[0].weight[1] = 0
    bp.adapt(model, bp.Dora(("0",), r=2))
    x = torch.randn(5, 4, requires_grad=True)
    out = model(x)
    out.square().sum().backward()
    assert torch.isfinite(out).all() and out[:, 1].eq(0).all() and torch.isfinite(x.grad).all()  # type: ignore[arg-type]
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
    bp.merge(model)
    assert torch.isfinite(model[0].weight).all() and model[0].weight[1].eq(0).all()


@SETTINGS
@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 4), st.integers(0, 10_000))
def test_row_norms_are_those_of_the_matrix(outer: int, inner: int, r: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    W, A, B = (torch.randn(shape, generator=generator, **DOUBLE) for shape in ((outer, inner), (r, inner), (outer, r)))
    right = torch.linalg.vector_norm(W + 0.5 * (B @ A), dim=1)
    torch.testing.assert_close(row_norms(W, A, B, 0.5), right, rtol=1e-6, atol=1e-7)


def test_row_norms_stay_finite_where_the_update_cancels_the_weight() -> None:
    A, B = torch.randn(2, 8), torch.randn(6, 2)
    W = -(B @ A)
    norms = row_norms(W, A, B, 1.0)
    assert torch.isfinite(norms).all() and norms.gt(0).all()
    assert norms.max() < 1e-2 * torch.linalg.vector_norm(W, dim=1).max()


def test_dropout_acts_on_the_branch_in_training_only() -> None:
    model = nn.Sequential(nn.Linear(50, 4))
    bp.adapt(model, bp.Lora(("0",), r=2, dropout=0.5))
    perturb(model)
    x = torch.randn(1, 50)
    evaluated = model.eval()(x)
    torch.testing.assert_close(model(x), evaluated)
    draws = model.train()(x.expand(3000, -1)).detach()  # every row is dropped on its own
    assert draws.std(0).min() > 0
    error = (draws.mean(0) - evaluated).abs() / (draws.std(0) / math.sqrt(3000))
    assert error.max() < 5  # standard errors: the mean over masks is the evaluated output


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["lora", "dora", "ia3", "bottleneck"])
def test_half_precision_layers_have_float32_adapters(name: str, half: torch.dtype) -> None:
    """A stated policy of types (HF peft 1090, 2421); the output keeps the layer's type and is right to its rounding."""
    model = adapted(name, half)
    assert {p.dtype for p in model.parameters() if p.requires_grad} == {torch.float32}
    assert model(IDS).dtype == half
    exact = Network()
    bp.adapt(exact, METHODS[name])
    exact.load_state_dict(model.state_dict())
    scale = exact(IDS).abs().max().item()
    assert (model(IDS).double() - exact(IDS)).abs().max().item() <= 12 * torch.finfo(half).eps * scale


@pytest.mark.parametrize("name", ["lora", "dora", "ia3", "bottleneck"])
def test_autocast_gives_the_same_to_its_rounding(name: str) -> None:
    model = adapted(name, torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        out = model(IDS)
    out.float().sum().backward()
    plain = model(IDS)
    assert out.dtype == torch.bfloat16
    assert (out.float() - plain).abs().max().item() <= 16 * 2**-8 * plain.abs().max().item()


BAD: list[tuple[Any, dict[str, Any], str]] = [
    (bp.Lora, {"r": 0}, r"r=0: must be a whole number of at least 1"),
    (bp.Lora, {"r": 2.0}, r"r=2\.0"),
    (bp.Lora, {"r": True}, r"r=True"),
    (bp.Lora, {"alpha": math.nan}, r"alpha=nan"),
    (bp.Lora, {"dropout": 1.0}, r"dropout=1\.0: must be at least 0 and below 1"),
    (bp.Lora, {"rank_stabilised": 1}, r"rank_stabilised=1"),
    (bp.Lora, {"dtype": torch.int8}, r"dtype=torch\.int8: allowed are"),
    (bp.Lora, {"target_modules": ()}, r"target_modules=\(\)"),
    (bp.Lora, {"target_modules": 3}, r"target_modules=3"),
    (bp.Lora, {"modules_to_save": "head"}, r"modules_to_save='head'"),
    (bp.Dora, {"r": -1}, r"r=-1"),
    (bp.Ia3, {"feedforward_modules": ("head",)}, r"feedforward_modules=\['head'\]: not among"),
    (bp.Bottleneck, {"r": 0}, r"r=0"),
]


@pytest.mark.parametrize(("kind", "arguments", "message"), BAD, ids=lambda value: str(value)[:40])
def test_bad_settings_are_refused_by_name(kind: Any, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kind(**{"target_modules": ("first",), **arguments})
