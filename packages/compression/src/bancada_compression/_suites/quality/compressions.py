"""The ways of compressing a whole model: ours, torchao's, bitsandbytes', torch's pruning, and none at all."""

from __future__ import annotations

import functools
import importlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from bancada.suite import Origin
from bancada_compression._suites.quality.subjects import Subject

GROUP = 64
Compress = Callable[[nn.Module, Subject, float], None]
"""`compress(model, subject, keep)` changes the model in place; `keep` is the share that pruning leaves."""


@dataclass(frozen=True)
class Compression:
    """A contender: what it does to a model, and whether its layers round their inputs too."""

    id: str
    technique: str
    origin: Origin
    label: str
    compress: Compress
    precision: str = "fp32 weights and inputs"
    requires: tuple[str, ...] = ()
    rounds_inputs: bool = False
    half_only: bool = False


def _nothing(model: nn.Module, subject: Subject, keep: float) -> None:
    """The model as it was trained."""


# Ours


def _quantize(config: Callable[[Any], Any], model: nn.Module, subject: Subject, keep: float) -> None:
    import bancada_compression as ours

    kept: dict[str, Any] = dict.fromkeys(subject.skip)
    ours.quantize(model, {**kept, "*": config(ours)})


def _prune(method: str, pattern: str, model: nn.Module, subject: Subject, keep: float) -> None:
    import bancada_compression as ours

    norms = subject.calibrate(ours.activation_norms) if method == "wanda" else None
    ours.prune(model, 1 - keep, method, norms, pattern, subject.skip)  # type: ignore[arg-type]
    ours.make_permanent(model)


def _factorize(whitened: bool, model: nn.Module, subject: Subject, keep: float) -> None:
    import bancada_compression as ours

    ours.factorize(model, keep, subject.calibrate(ours.input_grams) if whitened else None, subject.skip)


# Libraries'


def _torchao(config: Callable[[Any], Any], model: nn.Module, subject: Subject, keep: float) -> None:
    chosen = set(subject.layers())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import torchao.quantization as torchao  # type: ignore[import-not-found, import-untyped, unused-ignore]

        torchao.quantize_(model, config(torchao), filter_fn=lambda module, name: name in chosen)


def _intx(bits: int, torchao: Any) -> Any:
    from torchao.quantization.granularity import PerGroup  # type: ignore[import-not-found, import-untyped, unused-ignore]

    return torchao.IntxWeightOnlyConfig(weight_dtype=getattr(torch, f"int{bits}"), granularity=PerGroup(GROUP))


def _bitsandbytes(double: bool, model: nn.Module, subject: Subject, keep: float) -> None:
    bitsandbytes: Any = importlib.import_module("bitsandbytes")
    for name in subject.layers():
        old = model.get_submodule(name)
        assert isinstance(old, nn.Linear)
        new = bitsandbytes.nn.Linear4bit(
            old.in_features,
            old.out_features,
            bias=old.bias is not None,
            compute_dtype=torch.float32,
            quant_type="nf4",
            compress_statistics=double,
        )
        new.load_state_dict(old.state_dict())
        model.set_submodule(name, new.requires_grad_(False).to(old.weight.device))


def _torch_prune(model: nn.Module, subject: Subject, keep: float) -> None:
    prune: Any = importlib.import_module("torch.nn.utils.prune")
    for name in subject.layers():
        layer = model.get_submodule(name)
        prune.l1_unstructured(layer, "weight", amount=1 - keep)
        prune.remove(layer, "weight")


_ours = functools.partial
_INT8_INPUTS = "int8 weights and inputs, exact sums"
_WEIGHTS = "compressed weights, fp32 products"
COMPRESSIONS = (
    Compression("torch-dense", "dense-linear", "peer", "not compressed", _nothing),
    Compression("int8", "int8", "bancada", "int8 (ours)", _ours(_quantize, lambda ours: ours.Int8()), _WEIGHTS),
    Compression(
        "w8a8",
        "w8a8",
        "bancada",
        "W8A8 (ours)",
        _ours(_quantize, lambda ours: ours.W8A8()),
        _INT8_INPUTS,
        rounds_inputs=True,
    ),
    *(
        Compression(
            f"int{bits}",
            "groupwise",
            "bancada",
            f"int{bits}, groups of {GROUP} (ours)",
            _ours(_quantize, functools.partial(lambda bits, ours: ours.Groupwise(bits, GROUP), bits)),
            _WEIGHTS,
        )
        for bits in (4, 3)
    ),
    *(
        Compression(
            f"nf4{'-double' if double else ''}",
            "nf4",
            "bancada",
            f"NF4{', double' if double else ''} (ours)",
            _ours(_quantize, functools.partial(lambda double, ours: ours.NF4(GROUP, double), double)),
            _WEIGHTS,
        )
        for double in (False, True)
    ),
    Compression("magnitude", "magnitude", "bancada", "magnitude pruning (ours)", _ours(_prune, "magnitude", "matrix")),
    Compression("wanda", "wanda", "bancada", "Wanda (ours)", _ours(_prune, "wanda", "row")),
    Compression("wanda-2-4", "two-four", "bancada", "Wanda, 2:4 (ours)", _ours(_prune, "wanda", "2:4"), half_only=True),
    Compression("svd", "svd", "bancada", "truncated SVD (ours)", _ours(_factorize, False)),
    Compression("whitened-svd", "whitened-svd", "bancada", "whitened SVD (ours)", _ours(_factorize, True)),
    Compression(
        "torchao-int8",
        "int8",
        "peer",
        "torchao int8",
        functools.partial(_torchao, lambda torchao: torchao.Int8WeightOnlyConfig()),
        _WEIGHTS,
        ("torchao",),
    ),
    Compression(
        "torchao-w8a8",
        "w8a8",
        "peer",
        "torchao W8A8",
        functools.partial(_torchao, lambda torchao: torchao.Int8DynamicActivationInt8WeightConfig()),
        _INT8_INPUTS,
        ("torchao",),
        rounds_inputs=True,
    ),
    *(
        Compression(
            f"torchao-int{bits}",
            "groupwise",
            "peer",
            f"torchao int{bits}, groups of {GROUP}",
            functools.partial(_torchao, functools.partial(_intx, bits)),
            _WEIGHTS,
            ("torchao",),
        )
        for bits in (4, 3)
    ),
    *(
        Compression(
            f"bitsandbytes-nf4{'-double' if double else ''}",
            "nf4",
            "peer",
            f"bitsandbytes NF4{', double' if double else ''}",
            functools.partial(_bitsandbytes, double),
            _WEIGHTS,
            ("bitsandbytes",),
        )
        for double in (False, True)
    ),
    Compression("torch-prune", "magnitude", "peer", "torch.nn.utils.prune", _torch_prune),
)
