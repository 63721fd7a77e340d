"""`peft.merge`: LoRA computed into one layer's weight and taken out of it again, in one call."""

from __future__ import annotations

import functools
import math
from typing import Any

import torch
from torch import Tensor, nn

from bancada.suite import Axis, Case, Contender, Run, Scalar, Tensors, Work
from bancada_peft._suites.cost import ALPHA, DTYPES

AXES = (
    Axis("features", "n{}", int, minimum=1, scale="log"),
    Axis("rank", "r{}", int, minimum=1, scale="log"),
    Axis("dtype", "{}", str, choices=tuple(DTYPES)),
)
DEFAULTS: dict[str, Scalar] = {"features": 1024, "rank": 16, "dtype": "fp32"}
SMALL: dict[str, Scalar] = {"features": 12, "rank": 2, "dtype": "fp32"}
MUTATES = ("w",)
"""The layer's weight, which a call without a copy gives back with a rounding error."""


def inputs(case: Case, device: str, seed: int) -> dict[str, Tensor]:
    """W [out, in] with out = features and in = features + 1, and A, B of a trained adapter."""
    generator = torch.Generator().manual_seed(seed)
    outer, r = case.number("features"), case.number("rank")
    inner = outer + 1  # never square, so that a weight that lies the other way is noticed
    dtype = DTYPES[case.word("dtype")]
    W = torch.randn(outer, inner, generator=generator) / math.sqrt(inner)
    A = torch.randn(r, inner, generator=generator) / math.sqrt(inner)
    B = torch.randn(outer, r, generator=generator) * 0.1 * math.sqrt(r) / ALPHA
    adapter = torch.promote_types(dtype, torch.float32)
    return {"w": W.to(device, dtype), "a": A.to(device, adapter), "b": B.to(device, adapter)}


def answer(case: Case, given: Tensors) -> dict[str, Tensor]:
    """`merged` = W + s B A and `restored` = W, in float64."""
    W = given["w"].double()
    return {"merged": W + _delta(case, given), "restored": W}


def tolerance(case: Case, given: Tensors, right: Tensors) -> dict[str, float]:
    """Merged: twice the error of plain torch in the case's types, and 8 eps of the terms; restored: `merge`'s bound."""
    s = ALPHA / case.number("rank")
    plain = (given["w"] + s * (given["b"] @ given["a"])).to(given["w"].dtype)
    terms = float((right["restored"].abs() + (given["b"].double().abs() @ given["a"].double().abs()) * s).max())
    sums = torch.finfo(given["a"].dtype).eps
    bound = float((right["restored"].abs() + _delta(case, given).abs()).max()) * torch.finfo(given["w"].dtype).eps
    error = float((plain.double() - right["merged"]).abs().max())
    return {"merged": 2 * error + 8 * sums * terms, "restored": bound}


def work(case: Case) -> Work:
    """B A once, one addition; W read and written to merge and to restore, and the merged weight handed out."""
    outer, r = case.number("features"), case.number("rank")
    numbers = outer * (outer + 1)
    return Work(2.0 * numbers * r + numbers, 5.0 * numbers * DTYPES[case.word("dtype")].itemsize)


def _delta(case: Case, given: Tensors) -> Tensor:
    return given["b"].double() @ given["a"].double() * (ALPHA / case.number("rank"))


def _layer(given: Tensors) -> nn.Module:
    """A model of one layer, whose weight is the input's own memory."""
    outer, inner = given["w"].shape
    with torch.device("meta"):
        layer = nn.Linear(inner, outer, bias=False)
    layer.weight = nn.Parameter(given["w"], requires_grad=False)
    return nn.ModuleDict({"layer": layer})


def _ours(keep_copy: bool, case: Case, given: Tensors) -> Run:
    from bancada_peft import Lora, adapt, merge, unmerge

    model = _layer(given)
    adapt(model, Lora(("layer",), r=case.number("rank"), alpha=ALPHA))
    layer = model.get_submodule("layer")
    for own, key in (("lora_A", "a"), ("lora_B", "b")):
        layer.get_parameter(f"adapters.default.{own}").data = given[key]
    kept = torch.tensor(float(given["w"].numel() * given["w"].element_size() if keep_copy else 0))

    def run() -> Tensors:
        merge(model, keep_copy=keep_copy)
        merged = given["w"].clone()
        unmerge(model)
        return {"merged": merged, "restored": given["w"], "measure.copy_bytes": kept}

    return run


def _hf(case: Case, given: Tensors) -> Run:
    import peft

    model = _layer(given)
    settings = peft.LoraConfig(target_modules=["layer"], r=case.number("rank"), lora_alpha=ALPHA)
    peft.get_peft_model(model, settings)
    layer: Any = model.get_submodule("layer")
    layer.lora_A["default"].weight.data = given["a"]
    layer.lora_B["default"].weight.data = given["b"]
    nothing = torch.tensor(0.0)

    def run() -> Tensors:
        layer.base_layer.weight.data = given["w"]
        layer.merge()
        merged = layer.base_layer.weight.detach().clone()
        layer.unmerge()
        return {"merged": merged, "restored": layer.base_layer.weight.detach(), "measure.copy_bytes": nothing}

    return run


def _torch(case: Case, given: Tensors) -> Run:
    s, W, A, B = ALPHA / case.number("rank"), given["w"], given["a"], given["b"]
    nothing = torch.tensor(0.0)

    def run() -> Tensors:
        delta = s * (B @ A)
        W.copy_(W + delta)
        merged = W.clone()
        W.copy_(W - s * (B @ A))
        return {"merged": merged, "restored": W, "measure.copy_bytes": nothing}

    return run


def contenders() -> tuple[Contender, ...]:
    """Every contender of `peft.merge`."""
    precision = "weights in the case's dtype, sums in fp32 at least"
    keep, without = (functools.partial(_ours, keep_copy) for keep_copy in (True, False))
    return (
        Contender(
            "torch",
            "lora",
            "peer",
            _torch,
            label="W ± s B A in torch",
            reference=True,
            precision=precision,
            backend="torch",
        ),
        Contender("keep-copy", "lora", "bancada", keep, label="merge, keeping a copy", precision=precision),
        Contender("no-copy", "lora", "bancada", without, label="merge without a copy", precision=precision),
        Contender("hf", "lora", "peer", _hf, ("peft",), label="HF peft merge", precision=precision, backend="HF peft"),
    )
