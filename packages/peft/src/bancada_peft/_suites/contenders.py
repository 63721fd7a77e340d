"""Who races in `peft.cost`: full fine-tuning, our methods, and HF peft's."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
from torch import Tensor, nn

from bancada.suite import Case, Contender, Run, Tensors
from bancada_peft._suites import cost
from bancada_peft._suites.block import PROJECTIONS, Block
from bancada_peft._suites.split import split

IA3_TARGETS = ("k_proj", "v_proj", "down_proj")
BOTTLENECK_TARGETS = ("o_proj", "down_proj")
Make = Callable[[Case, Tensors], nn.Module]
PRECISION = "weights in the case's dtype, adapters in fp32 where that is bf16"


def runner(make: Make, case: Case, given: Tensors) -> Run:
    """A contender's run: out, dx, and the gradient of every trained parameter."""
    block = make(case, given)
    trained = [parameter for parameter in block.parameters() if parameter.requires_grad]
    numbers = sum(parameter.numel() for parameter in trained)
    size = sum(parameter.numel() * parameter.element_size() for parameter in trained)
    measures = {
        "measure.trainable_parameters": torch.tensor(float(numbers)),
        "measure.trained_bytes": torch.tensor(float(size)),
        "measure.adamw_bytes": torch.tensor(2.0 * size),
    }
    x = given["x"].detach().requires_grad_()
    measures |= split(block, x, given["dout"], trained)

    def run() -> Tensors:
        out = block(x)
        dx, *_ = torch.autograd.grad(out, [x, *trained], given["dout"])
        return {"out": out.detach(), "dx": dx, **measures}

    return run


def _block(case: Case, weights: dict[str, Tensor]) -> Block:
    return Block(case.number("hidden"), weights)


def _effective(case: Case, given: Tensors) -> Block:
    return _block(case, {name: given[f"w.{name}"].clone() for name in PROJECTIONS})


def _adapter(block: nn.Module, name: str) -> dict[str, Tensor]:
    """The parameters of one projection's adapter of ours, by their own names."""
    prefix = f"{name}.adapters.default."
    return {key.removeprefix(prefix): p for key, p in block.named_parameters() if key.startswith(prefix)}


@torch.no_grad()
def _lora(dora: bool, case: Case, given: Tensors) -> nn.Module:
    import bancada_peft

    frozen = cost.frozen_dora if dora else cost.frozen_lora
    block = _block(case, {name: frozen(case, given, name) for name in PROJECTIONS})
    method = bancada_peft.Dora if dora else bancada_peft.Lora
    bancada_peft.adapt(block, method(PROJECTIONS, r=case.number("rank"), alpha=cost.ALPHA))
    for name in PROJECTIONS:
        own = _adapter(block, name)
        own["lora_A"].copy_(given[f"a.{name}"])
        own["lora_B"].copy_(given[f"b.{name}"])
        if dora:
            own["magnitude"].copy_(given[f"w.{name}"].double().norm(dim=1))
    return block


def _ia3_weights(case: Case, given: Tensors) -> dict[str, Tensor]:
    return {
        name: cost.frozen_ia3(given, name) if name in IA3_TARGETS else given[f"w.{name}"].clone()
        for name in PROJECTIONS
    }


@torch.no_grad()
def _ia3(case: Case, given: Tensors) -> nn.Module:
    import bancada_peft

    block = _block(case, _ia3_weights(case, given))
    bancada_peft.adapt(block, bancada_peft.Ia3(IA3_TARGETS, feedforward_modules=("down_proj",)))
    for name in IA3_TARGETS:
        _adapter(block, name)["ia3_l"].copy_(given[f"l.{name}"])
    return block


def _bottleneck(case: Case, given: Tensors) -> nn.Module:
    import bancada_peft

    block = _effective(case, given)
    bancada_peft.adapt(block, bancada_peft.Bottleneck(BOTTLENECK_TARGETS, r=case.number("rank")))
    return block


def _freezing(case: Case, given: Tensors) -> nn.Module:
    import bancada_peft

    block = _effective(case, given)
    bancada_peft.train_only(block, ("down_proj",))
    return block


# HF peft: the adapted block itself is called, without its outer wrapper.


@torch.no_grad()
def _hf_lora(dora: bool, case: Case, given: Tensors) -> nn.Module:
    import peft

    frozen = cost.frozen_dora if dora else cost.frozen_lora
    block = _block(case, {name: frozen(case, given, name) for name in PROJECTIONS})
    settings = peft.LoraConfig(
        target_modules=list(PROJECTIONS), r=case.number("rank"), lora_alpha=cost.ALPHA, use_dora=dora
    )
    peft.get_peft_model(block, settings)
    for name in PROJECTIONS:
        layer = block.get_submodule(name)
        layer.get_parameter("lora_A.default.weight").copy_(given[f"a.{name}"])
        layer.get_parameter("lora_B.default.weight").copy_(given[f"b.{name}"])
        if dora:
            norms = given[f"w.{name}"].double().norm(dim=1)
            layer.get_parameter("lora_magnitude_vector.default.weight").copy_(norms)
    return block


@torch.no_grad()
def _hf_ia3(case: Case, given: Tensors) -> nn.Module:
    import peft

    block = _block(case, _ia3_weights(case, given))
    settings = peft.IA3Config(target_modules=list(IA3_TARGETS), feedforward_modules=["down_proj"])
    peft.get_peft_model(block, settings)
    for name in IA3_TARGETS:
        factors = block.get_submodule(name).get_parameter("ia3_l.default")
        factors.copy_(given[f"l.{name}"].reshape(factors.shape))
    return block


def contenders() -> tuple[Contender, ...]:
    """Every contender of `peft.cost`."""

    def ours(id: str, technique: str, label: str, make: Make) -> Contender:
        build = functools.partial(runner, make)
        return Contender(id, technique, "bancada", build, label=label, precision=PRECISION, backend="torch")

    def hf(id: str, technique: str, label: str, make: Make) -> Contender:
        build = functools.partial(runner, make)
        return Contender(id, technique, "peer", build, ("peft",), label=label, precision=PRECISION, backend="HF peft")

    full = functools.partial(runner, _effective)
    return (
        Contender("full", "full-fine-tuning", "peer", full, label="full fine-tuning", reference=True, backend="torch"),
        ours("lora", "lora", "LoRA", functools.partial(_lora, False)),
        ours("dora", "dora", "DoRA", functools.partial(_lora, True)),
        ours("ia3", "ia3", "(IA)³", _ia3),
        ours("bottleneck", "bottleneck-adapters", "bottleneck adapters", _bottleneck),
        ours("freezing", "freezing", "last projection only", _freezing),
        hf("hf-lora", "lora", "HF peft LoRA", functools.partial(_hf_lora, False)),
        hf("hf-dora", "dora", "HF peft DoRA", functools.partial(_hf_lora, True)),
        hf("hf-ia3", "ia3", "HF peft (IA)³", _hf_ia3),
    )
