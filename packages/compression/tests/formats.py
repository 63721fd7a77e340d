"""What the tests of quantised weights share: the formats, signal-to-noise, and awkward matrices."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from bancada_compression import quantize_groupwise, quantize_int8, quantize_nf4, quantize_nf4_double
from bancada_compression.quantized import QuantizedWeight

FORMATS: dict[str, Callable[[Tensor], QuantizedWeight]] = {
    "int8": quantize_int8,
    **{f"int{b}": lambda w, b=b: quantize_groupwise(w, b, 16) for b in (2, 3, 4, 8)},
    **{f"int{b}-symmetric": lambda w, b=b: quantize_groupwise(w, b, 16, symmetric=True) for b in (2, 3, 4, 8)},
    "nf4": quantize_nf4,
    "nf4-double": quantize_nf4_double,
}


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def sqnr(weight: Tensor, found: Tensor) -> float:
    """Signal to quantisation noise in dB: 10 log10(sum w^2 / sum (w - q)^2)."""
    w = weight.double()
    noise = float((w - found.double()).detach().square().sum())
    return math.inf if noise == 0 else 10 * math.log10(float(w.detach().square().sum()) / noise)
