"""`quantize` on whole models: reports, ties, refusals that change nothing, saved states."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from formats import normal
from torch import nn

from bancada_compression import NF4, W8A8, Groupwise, Int8, QuantizedLinear, quantize


class Tiny(nn.Module):
    """An embedding, two blocks that share a module, and a head tied to the embedding."""

    def __init__(self, tied: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(40, 32)
        self.shared = nn.Linear(32, 32)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32)) for _ in range(2))
        self.norm = nn.LayerNorm(32)
        self.again = self.shared
        self.head = nn.Linear(32, 40, bias=False)
        if tied:
            self.head.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.again(self.shared(self.embedding(tokens)))
        for block in self.blocks:
            x = x + block(x)
        out: torch.Tensor = self.head(self.norm(x))
        return out


TOKENS = torch.arange(20).reshape(2, 10)


@pytest.mark.parametrize(
    "config", [Int8(), W8A8(), Groupwise(4, 16), Groupwise(3, 16), NF4(16)], ids=lambda one: one.name
)
def test_every_module_with_parameters_is_reported(config) -> None:  # type: ignore[no-untyped-def]
    model = Tiny()
    before, weights = model(TOKENS).detach(), {n: p.detach().clone() for n, p in model.named_parameters()}
    report = quantize(model, config)
    names = [layer.name for layer in report.layers]
    assert names == ["embedding", "shared", "blocks.0.0", "blocks.0.2", "blocks.1.0", "blocks.1.2", "norm", "head"]
    assert report.bytes_before == sum(p.nbytes for p in weights.values())
    kept = {layer.name: layer.reason for layer in report.layers if not layer.format}
    assert kept == {
        "embedding": "not a linear layer",
        "norm": "not a linear layer",
        "head": "shares its weight with another module",
    }
    for layer in report.layers:
        if layer.format:
            new = model.get_submodule(layer.name)
            assert isinstance(new, QuantizedLinear) and layer.format == config.name
            noise = (weights[f"{layer.name}.weight"] - new.weight).square().sum() / new.weight.square().sum()
            assert layer.sqnr_db is not None and abs(layer.sqnr_db + 10 * float(noise.log10())) < 0.2
            assert layer.bytes_after == new.quantized.nbytes + new.bias.nbytes  # type: ignore[union-attr]
            assert layer.bytes_after < layer.bytes_before
            assert layer.name in str(report)
    assert model.shared is model.again and isinstance(model.shared, QuantizedLinear)
    after = model(TOKENS).detach()
    assert float((after - before).norm() / before.norm()) < 0.35
    assert not torch.equal(after, before)


def test_memory_does_not_grow_and_ties_are_kept_transformers31474() -> None:
    model = Tiny()
    report = quantize(model, Int8())
    stored = {tensor.data_ptr(): tensor.nbytes for tensor in (*model.parameters(), *model.buffers())}
    assert sum(stored.values()) == report.bytes_after < report.bytes_before
    assert model.head.weight is model.embedding.weight


def test_patterns_choose_formats_and_the_first_that_fits_counts() -> None:
    model = Tiny(tied=False)
    report = quantize(model, {"blocks.*.0": NF4(16), "blocks.1.*": None, "*": Int8()}, skip=["head"])
    became = {layer.name: layer.format or layer.reason for layer in report.layers}
    assert became["blocks.0.0"] == became["blocks.1.0"] == "nf4-b16-double"
    assert became["blocks.0.2"] == became["shared"] == "int8"
    assert became["blocks.1.2"] == "skipped by 'blocks.1.*'" and became["head"] == "skipped by 'head'"
    assert type(model.head) is nn.Linear


def same(model: nn.Module, modules: list[nn.Module], state: dict[str, torch.Tensor]) -> bool:
    found = model.state_dict()
    return all(a is b for a, b in zip(model.modules(), modules, strict=True)) and all(
        torch.equal(found[name], tensor) for name, tensor in state.items()
    )


class Failing:
    """A format that fails at the third layer."""

    name = "failing"
    calls = 0

    def layer(self, weight: torch.Tensor, bias: nn.Parameter | None = None) -> QuantizedLinear:
        self.calls += 1
        if self.calls == 3:
            raise RuntimeError("no more")
        return Int8().layer(weight, bias)


def test_a_failure_leaves_the_model_as_it_was() -> None:
    model = Tiny()
    modules, state = list(model.modules()), copy.deepcopy(model.state_dict())
    with pytest.raises(RuntimeError, match="no more"):
        quantize(model, Failing())
    assert same(model, modules, state)
    with torch.no_grad():
        model.blocks[1][2].weight[3, 4] = float("inf")
    with pytest.raises(ValueError, match=r"layer 'blocks\.1\.2' cannot be quantised: weight: holds NaN"):
        quantize(model, Groupwise())
    model.blocks[1][2].weight.data[3, 4] = state["blocks.1.2.weight"][3, 4]
    assert same(model, modules, state)


def test_an_interrupted_replacement_is_taken_back() -> None:
    class Stubborn(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)

        def __setattr__(self, name: str, value: object) -> None:
            if name == "second" and isinstance(value, QuantizedLinear):
                raise KeyboardInterrupt
            super().__setattr__(name, value)

    model = Stubborn()
    modules, state = list(model.modules()), copy.deepcopy(model.state_dict())
    with pytest.raises(KeyboardInterrupt):
        quantize(model, Int8())
    assert same(model, modules, state)


def test_subclasses_and_layers_with_hooks_are_kept() -> None:
    model = nn.ModuleDict({"attention": nn.MultiheadAttention(8, 2), "plain": nn.Linear(8, 8), "seen": nn.Linear(8, 8)})
    model["seen"].register_forward_hook(lambda *args: None)
    became = {layer.name: layer.format or layer.reason for layer in quantize(model, Int8()).layers}
    assert became == {
        "attention": "not a linear layer",
        "attention.out_proj": "a subclass of Linear",
        "plain": "int8",
        "seen": "has hooks",
    }


def test_a_saved_model_is_loaded_into_one_quantised_alike() -> None:
    one, other = Tiny(), Tiny()
    with torch.no_grad():
        other.shared.weight.mul_(2)
    quantize(one, Groupwise(4, 16))
    quantize(other, Groupwise(4, 16))
    other.load_state_dict(one.state_dict())
    assert torch.equal(one(TOKENS), other(TOKENS))


def test_a_quantised_base_passes_gradients_and_takes_none() -> None:
    model = Tiny()
    quantize(model, NF4(16))
    assert {name for name, _ in model.named_parameters() if name.endswith("0.weight")} == set()
    F.cross_entropy(model(TOKENS).flatten(0, 1), TOKENS.flatten()).backward()
    assert model.embedding.weight.grad is not None and float(model.embedding.weight.grad.abs().sum()) > 0


def test_encoder_layers_of_torch_still_run() -> None:
    model = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 1, enable_nested_tensor=False
    )
    model.eval()
    x = normal(2, 5, 16)
    with torch.no_grad():
        before = model(x)
        quantize(model, Int8())
        assert float((model(x) - before).abs().max()) < 0.1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: quantize(nn.Linear(3, 3), Int8()), "model: a Linear"),
        (lambda: quantize(nn.Sequential(nn.ReLU()), Int8()), "contains no nn.Linear"),
        (lambda: quantize(Tiny(), "int8"), "config: '\\*' -> 'int8'"),  # type: ignore[arg-type]
        (lambda: quantize(Tiny(), {"mlp.*": Int8()}), "'mlp.\\*' fits none"),
        (lambda: quantize(Tiny(), Int8(), skip=["lm_head"]), "'lm_head' fits none"),
        (lambda: quantize(Tiny(), Int8(), skip=[3]), "skip=\\[3\\]"),  # type: ignore[list-item]
        (lambda: quantize(nn.Sequential(nn.Linear(3, 3, device="meta")), Int8()), "meta device"),
    ],
)
def test_bad_input_is_refused(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        call()
