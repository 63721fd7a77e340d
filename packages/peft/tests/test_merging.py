"""Merging and its inverse: right, to the bit or within the published bound, and refused where it cannot be."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from peft_models import (
    IDS,
    MERGEABLE,
    METHODS,
    Network,
    adapted,
    gpt2,
    library,
    logits,
    perturb,
    same_state,
    state,
    tokens,
)
from torch import nn

import bancada_peft as bp


@pytest.mark.parametrize("name", MERGEABLE)
def test_a_merged_model_computes_the_same(name: str) -> None:
    model = adapted(name)
    right = model(IDS)
    bp.merge(model)
    torch.testing.assert_close(model(IDS), right, rtol=1e-11, atol=1e-11)
    with_adapters = [module for module in model.modules() if getattr(module, "adapters", None) is not None]
    for module in with_adapters:  # the weights alone do it
        module.active = None
    torch.testing.assert_close(model(IDS), right, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", MERGEABLE)
def test_a_hundred_cycles_with_a_copy_leave_every_bit(name: str, dtype: torch.dtype) -> None:
    """Case 14; the copies take what is said."""
    model = adapted(name, dtype)
    before, out = state(model), model(IDS)
    for _ in range(100):
        kept = bp.merge(model)
        assert not same_state(before, state(model))
        bp.unmerge(model)
    assert same_state(before, state(model)) and torch.equal(model(IDS), out)
    size = torch.empty(0, dtype=dtype).element_size()
    numbers = {"lora": 66 + 60 + 60, "rslora": 66 + 60 + 60, "dora": 120, "ia3": 60 + 10 + 60, "saved": 60 + 30 + 5}
    assert kept == size * numbers[name]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_cycles_without_a_copy_stay_within_the_bound(dtype: torch.dtype) -> None:
    """Case 14, case 13 (HF peft 1388, 2321): |W_n - W| <= n eps (|W| + |s B A|), elementwise, n = 1 and 100."""
    model = adapted("lora", dtype)
    layer: Any = model.first
    weight = layer.weight.detach().double().clone()
    adapter = layer.adapters["default"]
    delta = (adapter.lora_B.double() @ adapter.lora_A.double() * adapter.s).detach()
    bound = torch.finfo(dtype).eps * (weight.abs() + delta.abs())
    for cycle in range(1, 101):
        assert bp.merge(model, keep_copy=False) == 0
        bp.unmerge(model)
        if cycle in (1, 100):
            assert ((layer.weight.double() - weight).abs() <= cycle * bound).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["lora", "dora", "ia3"])
def test_half_precision_weights_are_merged_in_float32_and_rounded_once(name: str, dtype: torch.dtype) -> None:
    """HF peft 1388, 2321: within half an eps of the right weight."""
    model = adapted(name, dtype)
    exact = Network()
    bp.adapt(exact, METHODS[name])
    exact.load_state_dict(model.state_dict())
    bp.merge(model)
    bp.merge(exact)
    for layer in ("first", "second"):
        got, right = (m.get_submodule(layer).get_parameter("weight").double() for m in (model, exact))
        smallest = torch.finfo(dtype).tiny * torch.finfo(dtype).eps
        assert (
            (got - right).abs() <= torch.finfo(dtype).eps / 2 * 1.01 * right.abs() + smallest + 1e-6 * right.abs().max()
        ).all()


@pytest.mark.parametrize("keep_copy", [True, False])
def test_merging_twice_is_merging_once(keep_copy: bool) -> None:
    """HF peft 1355."""
    model = adapted("lora")
    before = state(model)
    kept = bp.merge(model, keep_copy=keep_copy)
    once = state(model)
    assert bp.merge(model, keep_copy=keep_copy) == kept and same_state(once, state(model))
    bp.unmerge(model)
    for name, tensor in state(model).items():
        torch.testing.assert_close(tensor, before[name], rtol=1e-13, atol=1e-14)


def test_while_merged_everything_that_would_lose_the_base_is_refused() -> None:
    """HF peft 3498: deleting a merged adapter."""
    model = adapted("lora")
    bp.adapt(model, METHODS["dora"], "two")
    bp.merge(model, "default")
    once, out = state(model), model(IDS)
    for call in (
        lambda: bp.delete_adapter(model, "default"),
        lambda: bp.delete_adapter(model, "two"),
        lambda: bp.use_adapter(model, "two"),
        lambda: bp.use_adapter(model, None),
        lambda: bp.adapt(model, METHODS["lora"], "three"),
        lambda: bp.merge(model, "two"),
        lambda: bp.disabled(model).__enter__(),
    ):
        with pytest.raises(ValueError, match="unmerge"):
            call()
    assert same_state(once, state(model)) and torch.equal(model(IDS), out)
    bp.unmerge(model)
    bp.delete_adapter(model, "default")
    with pytest.raises(ValueError, match="no adapter is merged"):
        bp.unmerge(model)
    with pytest.raises(ValueError, match=r"name='default': the model's adapters are two"):
        bp.merge(model, "default")


def test_without_a_copy_a_changed_adapter_cannot_be_unmerged() -> None:
    model = adapted("lora")
    bp.merge(model, keep_copy=False)
    merged = state(model)
    perturb(model)
    with pytest.raises(ValueError, match="was changed since it was merged"):
        bp.unmerge(model)
    assert torch.equal(model.first.weight, merged["first.weight"])


@pytest.mark.parametrize(
    ("name", "keep_copy", "message"),
    [
        ("bottleneck", True, "BottleneckAdapter is no change of the weights and cannot be merged"),
        ("prompt", True, "PromptAdapter is no change of the weights and cannot be merged"),
        ("dora", False, "keep_copy=False: first has a DoraAdapter, which only a copy can undo"),
        ("ia3", False, "only a copy"),
        ("saved", False, "only a copy"),
    ],
)
def test_what_cannot_be_merged_is_refused_before_anything_changes(name: str, keep_copy: bool, message: str) -> None:
    model = adapted(name)
    before = state(model)
    with pytest.raises(ValueError, match=message):
        bp.merge(model, keep_copy=keep_copy)
    assert same_state(before, state(model))
    bp.use_adapter(model, None)


@pytest.mark.parametrize("keep_copy", [True, False])
def test_a_merge_that_overflows_is_taken_back(keep_copy: bool) -> None:
    model = adapted("lora", torch.float16)
    second: Any = model.second
    with torch.no_grad():
        second.adapters["default"].lora_B.fill_(1e6)
    before = state(model)
    with pytest.raises(ValueError, match=r"second\.weight: .* not be finite in torch\.float16"):
        bp.merge(model, keep_copy=keep_copy)
    assert same_state(before, state(model))
    assert all(getattr(module, "merged_state", None) is None for module in model.modules())
    bp.use_adapter(model, "default")


@pytest.mark.filterwarnings("ignore")
def test_a_quantised_layer_is_adapted_and_not_merged() -> None:
    """Case 13 (HF peft 2321): LoRA beside an int8 weight acts on what it stands for; a merge would round it again."""
    quantization = library("torchao.quantization")
    model = nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 32))
    plain = copy.deepcopy(model)
    quantization.quantize_(model[1], quantization.Int8WeightOnlyConfig())
    with torch.no_grad():
        plain[1].weight.copy_(model[1].weight.dequantize())  # type: ignore[operator, union-attr, arg-type]
    for each in (model, plain):
        torch.manual_seed(1)
        bp.adapt(each, bp.Lora(("0", "1"), r=2))
        perturb(each)
    x = torch.randn(4, 32)
    torch.testing.assert_close(model(x), plain(x))
    model(x).sum().backward()
    assert all(p.grad is not None for p in model.parameters() if p.requires_grad)
    before = model[0].weight.clone()  # type: ignore[operator, union-attr]
    for keep_copy in (True, False):
        with pytest.raises(ValueError, match=r"1: its weight is a Int8Tensor; merge into the plain weights"):
            bp.merge(model, keep_copy=keep_copy)
    assert torch.equal(model[0].weight, before)  # type: ignore[arg-type]
    bp.delete_adapter(model, "default")
    with pytest.raises(ValueError, match=r"the weight of '1' is a Int8Tensor; DoRA"):
        bp.adapt(model, bp.Dora(("0", "1"), r=2))


def test_a_merge_that_fails_on_its_way_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it is: here memory, at the second layer."""
    model = adapted("lora")
    before, second = state(model), model.second.adapters["default"]  # type: ignore[index, union-attr, operator]

    def failing(host: nn.Module) -> Any:
        raise MemoryError("planted")

    monkeypatch.setattr(second, "merged", failing)
    with pytest.raises(MemoryError, match="planted"):
        bp.merge(model)
    assert same_state(before, state(model))
    assert all(getattr(module, "merged_state", None) is None for module in model.modules())


def test_conv1d_and_an_untied_embedding_merge() -> None:
    """HF peft 1588: fan_in_fan_out."""
    model = gpt2()
    model.lm_head.weight = nn.Parameter(model.lm_head.weight.detach().clone())
    bp.adapt(model, bp.Lora(("wte", "c_attn", "c_proj"), r=3))
    perturb(model, 0.1)
    right = logits(model, tokens())
    bp.merge(model)
    torch.testing.assert_close(logits(model, tokens()), right, rtol=1e-4, atol=1e-5)
