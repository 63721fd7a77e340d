"""What the compression suites ask: axes, inputs, the right answer, and how much quantisation noise is allowed.

The right answer is that of the original weight, in float64: that is what a user gives up. A case names the bits, and
every contender of those bits is held to the noise that plain symmetric rounding makes with them:

* `compression.speed`: rounding a number to steps of s makes noise of at most s / sqrt(12) (uniform), so an output, the
  sum over columns, has noise of sqrt(sum x^2 s^2 / 12). Allowed are six times that, with s = max|w| / (2^(bits-1) - 1)
  of each group of 64 columns (of each row at 8 bits, where rows of x count in the same way, for those that quantise
  them too). For 4 bits on normal weights six times the noise is about 0.6 of the outputs' own deviation: a product with
  another weight, of another input, or with none at all is far outside.
* `compression.size`: every number within half of the widest step that a format of those bits has, times the largest
  weight: 1 / (2^bits - 2) for even steps, and for NF4, whose outermost levels lie 0.304 apart, 0.152.

To both, the rounding of the dtype is added.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from bancada.ceilings import TORCH_DTYPES
from bancada.suite import Axis, Case, Scalar, Tensors, Work

SIGMAS = 6.0
EPSILONS = 8.0
GROUP = 64
NF4_HALF_GAP = 0.1525
"""Half the distance of NF4's outermost levels, (1 - 0.6962) / 2, and 0.4% for scales that are rounded themselves."""

_SIZES = (
    Axis("out_features", "o{}", minimum=1, scale="log"),
    Axis("in_features", "i{}", minimum=1, scale="log"),
)
WIDTHS = (3, 4, 8)
_BITS = Axis("bits", "w{}", choices=WIDTHS, unit="bits a weight")
_DTYPE = Axis("dtype", "{}", str, choices=("fp32", "bf16"))
SPEED_AXES = (Axis("tokens", "m{}", minimum=1, unit="tokens", scale="log"), *_SIZES, _BITS, _DTYPE)
SPEED_DEFAULTS: dict[str, Scalar] = {
    "tokens": 16,
    "out_features": 1024,
    "in_features": 1024,
    "bits": 4,
    "dtype": "fp32",
}
SIZE_AXES = (*_SIZES, Axis("weights", "{}", str, choices=("normal", "uniform")), _BITS, _DTYPE)
SIZE_DEFAULTS: dict[str, Scalar] = {
    "out_features": 1024,
    "in_features": 1024,
    "weights": "normal",
    "bits": 4,
    "dtype": "fp32",
}
SMALL: dict[str, Scalar] = {"tokens": 5, "out_features": 32, "in_features": 128, "bits": 4, "dtype": "fp32"}


def _normal(shape: tuple[int, ...], seed: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def speed_inputs(case: Case, device: str, seed: int) -> dict[str, torch.Tensor]:
    """x [tokens, in] and weight [out, in] from N(0, 1) / sqrt(in), in the case's dtype."""
    dtype, columns = TORCH_DTYPES[case.word("dtype")], case.number("in_features")
    x = _normal((case.number("tokens"), columns), 2 * seed)
    weight = _normal((case.number("out_features"), columns), 2 * seed + 1) / math.sqrt(columns)
    return {"x": x.to(device, dtype), "weight": weight.to(device, dtype)}


def speed_oracle(case: Case, inputs: Tensors) -> dict[str, torch.Tensor]:
    """`out` = x W^T in float64 with the weight as it was before compression."""
    return {"out": inputs["x"].double() @ inputs["weight"].double().T}


def speed_tolerance(case: Case, inputs: Tensors, answer: Tensors) -> dict[str, float]:
    """Six times the noise of plain symmetric rounding to the case's bits, and the rounding of the dtype."""
    x, weight, bits = inputs["x"].double(), inputs["weight"].double(), case.number("bits")
    variance = x.square() @ steps(weight, bits).square().T / 12
    if bits == 8:
        variance += steps(x, bits).square() @ weight.square().T / 12
    return {"out": SIGMAS * math.sqrt(float(variance.max())) + _rounding(case, x, weight)}


def steps(matrix: torch.Tensor, bits: int) -> torch.Tensor:
    """The step of plain symmetric rounding at each number: max|w| / (2^(bits-1) - 1) of its group, or row at 8 bits."""
    rows, columns = matrix.shape
    group = columns if bits == 8 else GROUP
    grouped = F.pad(matrix.abs(), (0, -columns % group)).view(rows, -1, group)
    wide = (grouped.amax(-1, keepdim=True) / ((1 << (bits - 1)) - 1)).expand_as(grouped)
    return wide.reshape(rows, -1)[:, :columns]


def _rounding(case: Case, x: torch.Tensor, weight: torch.Tensor) -> float:
    """Eight eps of the dtype times the deviation of a sum of these terms with random signs, sqrt(sum x^2 w^2)."""
    terms = float((x.square() @ weight.square().T).max())
    return EPSILONS * torch.finfo(TORCH_DTYPES[case.word("dtype")]).eps * math.sqrt(terms)


def speed_work(case: Case) -> Work:
    """2 * tokens * out * in operations; x, the codes (bits a weight) and the output moved once."""
    tokens, out, columns = (case.number(name) for name in ("tokens", "out_features", "in_features"))
    moved = (tokens * (out + columns)) * TORCH_DTYPES[case.word("dtype")].itemsize
    return Work(flops=2.0 * tokens * out * columns, bytes=float(moved) + out * columns * case.number("bits") / 8)


def size_inputs(case: Case, device: str, seed: int) -> dict[str, torch.Tensor]:
    """weight [out, in]: N(0, 1), or uniform in -1 to 1."""
    shape = (case.number("out_features"), case.number("in_features"))
    if case.word("weights") == "normal":
        weight = _normal(shape, seed)
    else:
        weight = torch.rand(shape, generator=torch.Generator().manual_seed(seed)) * 2 - 1
    return {"weight": weight.to(device, TORCH_DTYPES[case.word("dtype")])}


def size_oracle(case: Case, inputs: Tensors) -> dict[str, torch.Tensor]:
    """`weight`: what went in, in float64."""
    return {"weight": inputs["weight"].double()}


def size_tolerance(case: Case, inputs: Tensors, answer: Tensors) -> dict[str, float]:
    """Half the widest step of a format of those bits, and two eps of rounding, times the largest weight."""
    bits, largest = case.number("bits"), float(answer["weight"].abs().max())
    half = NF4_HALF_GAP if bits == 4 else 0.5 / ((1 << (bits - 1)) - 1)
    return {"weight": largest * (half + 2 * torch.finfo(TORCH_DTYPES[case.word("dtype")]).eps)}


def size_work(case: Case) -> Work:
    """The weight read once, and the codes and the dequantised weight written; a division and a rounding a number."""
    count, size = case.number("out_features") * case.number("in_features"), TORCH_DTYPES[case.word("dtype")].itemsize
    return Work(flops=2.0 * count, bytes=2.0 * count * size + count * case.number("bits") / 8)
