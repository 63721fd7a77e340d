"""The ways of compressing a linear layer that are measured: ours, torchao's, bitsandbytes', and none at all."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bancada.suite import Case, Contender, Device, Origin, Run, Tensors
from bancada_compression._suites.problem import WIDTHS

GROUP = 64
Product = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Way:
    """A format: `layer` makes, from a weight, a product for x, the weight that is stored, and its bytes."""

    id: str
    technique: str
    origin: Origin
    label: str
    bits: int
    layer: Callable[[int, Tensor], tuple[Product, Callable[[], Tensor], int]]
    precision: str
    requires: tuple[str, ...] = ()
    backend: str = ""
    activations: bool = False


# Ours


def _ours(make: Callable[[int, Tensor], Any], bits: int, weight: Tensor) -> tuple[Product, Callable[[], Tensor], int]:
    layer = make(bits, weight)
    return layer, lambda: layer.quantized.dequantize(weight.dtype), layer.quantized.nbytes


def _int8(bits: int, weight: Tensor) -> Any:
    import bancada_compression as ours

    return ours.Int8().layer(weight)


def _w8a8(bits: int, weight: Tensor) -> Any:
    import bancada_compression as ours

    return ours.W8A8().layer(weight)


def _groupwise(symmetric: bool, bits: int, weight: Tensor) -> Any:
    import bancada_compression as ours

    return ours.QuantizedLinear(ours.quantize_groupwise(weight, bits, GROUP, symmetric))


def _nf4(double: bool, bits: int, weight: Tensor) -> Any:
    import bancada_compression as ours

    return ours.QuantizedLinear((ours.quantize_nf4_double if double else ours.quantize_nf4)(weight, GROUP))


# torchao


def _torchao(config_of: Callable[[int], Any], bits: int, weight: Tensor) -> tuple[Product, Callable[[], Tensor], int]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torchao.quantization import quantize_  # type: ignore[import-not-found, import-untyped, unused-ignore]

        layer = nn.Linear(weight.shape[1], weight.shape[0], bias=False, device="meta")
        layer.weight = nn.Parameter(weight.clone(), requires_grad=False)
        quantize_(layer, config_of(bits))
    stored: Any = layer.weight
    names = [*stored.tensor_data_names, *getattr(stored, "optional_tensor_data_names", [])]
    tensors = [getattr(stored, name) for name in names]
    return layer, stored.dequantize, sum(tensor.nbytes for tensor in tensors if isinstance(tensor, Tensor))


def _torchao_int8(bits: int) -> Any:
    from torchao.quantization import Int8WeightOnlyConfig  # type: ignore[import-not-found, import-untyped, unused-ignore]

    return Int8WeightOnlyConfig()


def _torchao_w8a8(bits: int) -> Any:
    from torchao.quantization import Int8DynamicActivationInt8WeightConfig  # type: ignore[import-not-found, import-untyped, unused-ignore]

    return Int8DynamicActivationInt8WeightConfig()


def _torchao_intx(bits: int) -> Any:
    from torchao.quantization import IntxWeightOnlyConfig  # type: ignore[import-not-found, import-untyped, unused-ignore]
    from torchao.quantization.granularity import PerGroup  # type: ignore[import-not-found, import-untyped, unused-ignore]

    return IntxWeightOnlyConfig(weight_dtype=getattr(torch, f"int{bits}"), granularity=PerGroup(GROUP))


# bitsandbytes


def _bitsandbytes(double: bool, bits: int, weight: Tensor) -> tuple[Product, Callable[[], Tensor], int]:
    import bitsandbytes.functional as functional  # type: ignore[import-not-found, import-untyped, unused-ignore]

    codes, state = functional.quantize_4bit(weight, blocksize=GROUP, quant_type="nf4", compress_statistics=double)
    stored = [codes, state.absmax, *([state.offset, state.state2.absmax] if double else [])]

    def back() -> Tensor:
        found: Tensor = functional.dequantize_4bit(codes, state)
        return found

    return lambda x: F.linear(x, back()), back, sum(tensor.nbytes for tensor in stored)


# None at all


def _kept(dtype: torch.dtype | None, bits: int, weight: Tensor) -> tuple[Product, Callable[[], Tensor], int]:
    own = weight if dtype is None else weight.to(dtype)
    return (
        lambda x: F.linear(x.to(own.dtype), own).to(x.dtype),
        lambda: own.to(weight.dtype, copy=True),
        own.nbytes,
    )


_ONLY = "weight only; the product in the inputs' dtype"
_OURS = functools.partial
WAYS = (
    Way("torch-linear", "dense-linear", "peer", "torch linear", 0, functools.partial(_kept, None), "inputs' dtype"),
    Way(
        "torch-linear-bf16",
        "dense-linear",
        "peer",
        "torch linear, bf16",
        0,
        functools.partial(_kept, torch.bfloat16),
        "bf16 weights and inputs",
    ),
    Way("int8", "int8", "bancada", "int8 (ours)", 8, _OURS(_ours, _int8), _ONLY),
    Way(
        "w8a8",
        "w8a8",
        "bancada",
        "W8A8 (ours)",
        8,
        _OURS(_ours, _w8a8),
        "int8 weights and inputs, exact sums",
        activations=True,
    ),
    Way("groupwise", "groupwise", "bancada", "group-wise (ours)", -8, _OURS(_ours, _OURS(_groupwise, False)), _ONLY),
    Way(
        "groupwise-symmetric",
        "groupwise",
        "bancada",
        "group-wise, symmetric (ours)",
        -8,
        _OURS(_ours, _OURS(_groupwise, True)),
        _ONLY,
    ),
    Way("nf4", "nf4", "bancada", "NF4 (ours)", 4, _OURS(_ours, _OURS(_nf4, False)), _ONLY),
    Way("nf4-double", "nf4", "bancada", "NF4, double (ours)", 4, _OURS(_ours, _OURS(_nf4, True)), _ONLY),
    Way("torchao-int8", "int8", "peer", "torchao int8", 8, _OURS(_torchao, _torchao_int8), _ONLY, ("torchao",)),
    Way(
        "torchao-w8a8",
        "w8a8",
        "peer",
        "torchao W8A8",
        8,
        _OURS(_torchao, _torchao_w8a8),
        "int8 weights and inputs, exact sums",
        ("torchao",),
        activations=True,
    ),
    Way(
        "torchao-intx",
        "groupwise",
        "peer",
        "torchao int4/int3",
        -8,
        _OURS(_torchao, _torchao_intx),
        _ONLY,
        ("torchao",),
        "codes kept in a byte each",
    ),
    Way(
        "bitsandbytes-nf4",
        "nf4",
        "peer",
        "bitsandbytes NF4",
        4,
        _OURS(_bitsandbytes, False),
        _ONLY,
        ("bitsandbytes",),
        "dequantize_4bit, then torch linear",
    ),
    Way(
        "bitsandbytes-nf4-double",
        "nf4",
        "peer",
        "bitsandbytes NF4, double",
        4,
        _OURS(_bitsandbytes, True),
        _ONLY,
        ("bitsandbytes",),
        "dequantize_4bit, then torch linear",
    ),
)
"""`bits` is the width a way has; 0: it is no format and runs beside every one; -8: any width below 8."""


def _widths(way: Way) -> tuple[int, ...]:
    """The widths of the cases that are this way's own."""
    return tuple(
        bits for bits in WIDTHS
        if way.bits == 0 or bits == way.bits or (way.bits < 0 and bits < -way.bits)
    )  # fmt: skip


def _supports(way: Way, case: Case, device: Device) -> str | None:
    bits, columns = case.number("bits"), case.number("in_features")
    if bits not in (own := _widths(way)):
        return f"bits={bits}: this format has {' or '.join(map(str, own))}"
    if way.id == "torchao-intx" and columns % GROUP:
        return f"in_features={columns}: torchao takes multiples of the group, {GROUP}"
    if way.id in ("torchao-int8", "torchao-w8a8") and columns == 1:
        return "in_features=1: torchao takes the one column for a scale that all rows share"
    if way.id == "bitsandbytes-nf4" and case.number("out_features") * columns <= 2:
        return "two weights or fewer: bitsandbytes takes their one byte for a transposed weight"
    if way.id == "bitsandbytes-nf4-double" and case.number("out_features") * columns <= GROUP:
        return "one block: bitsandbytes divides its scale's distance from the mean, 0, by itself"
    return None


def _speed(way: Way, case: Case, inputs: Tensors) -> Run:
    with torch.no_grad():
        product, _, size = way.layer(case.number("bits"), inputs["weight"])
    x, bytes_of = inputs["x"], torch.tensor(float(size))

    def run() -> dict[str, Tensor]:
        with torch.no_grad():
            return {"out": product(x), "measure.bytes": bytes_of}

    return run


def _size(way: Way, case: Case, inputs: Tensors) -> Run:
    weight, bits = inputs["weight"], case.number("bits")

    def run() -> dict[str, Tensor]:
        with torch.no_grad():
            _, back, size = way.layer(bits, weight)
            found = back()
        return {
            "weight": found,
            "measure.bytes": torch.tensor(float(size)),
            "measure.bits_per_weight": torch.tensor(8.0 * size / weight.numel()),
            "measure.sqnr_db": torch.tensor(_decibels(weight, found)),
        }

    return run


MOST_DECIBELS = 200.0
"""What a weight that lost nothing is said to have: beyond what fp32 can show, and finite, as a row's number must be."""


def _decibels(weight: Tensor, found: Tensor) -> float:
    noise, signal = float((weight - found).square().sum()), float(weight.square().sum())
    return MOST_DECIBELS if noise == 0 else min(MOST_DECIBELS, 10 * math.log10(max(signal, 1e-300) / noise))


def _contender(way: Way, build: Callable[[Way, Case, Tensors], Run]) -> Contender:
    return Contender(
        id=way.id,
        technique=way.technique,
        origin=way.origin,
        label=way.label,
        build=functools.partial(build, way),
        requires=way.requires,
        supports=functools.partial(_supports, way),
        only={"bits": _widths(way)},
        reference=way.id == "torch-linear",
        precision=way.precision,
        backend=way.backend or "torch operators",
    )


def speed_contenders() -> tuple[Contender, ...]:
    """Those of `compression.speed`."""
    return tuple(_contender(way, _speed) for way in WAYS)


def size_contenders() -> tuple[Contender, ...]:
    """Those of `compression.size`: W8A8 stores the same weights as int8."""
    return tuple(_contender(way, _size) for way in WAYS if not way.activations)
