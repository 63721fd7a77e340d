"""Symmetric int8 per output channel: q = round(w / s), s = max|w| / 127 of each row; the weight is s q.

Dettmers et al., LLM.int8(), arXiv 2208.07339 (section 2: absmax quantisation, row-wise constants).
"""

# ruff: noqa: F722  (axis names in jaxtyping strings are no Python expressions)

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import nn

from bancada_compression._check import check_matrix, working_dtype
from bancada_compression._typing import Float, Tensor
from bancada_compression._typing import Int8 as Int8Array
from bancada_compression.quantized import QuantizedLinear, QuantizedWeight, blocks

LARGEST = 127
TINY = torch.finfo(torch.float32).tiny


@dataclass(frozen=True, eq=False)
class Int8Weight(QuantizedWeight):
    """codes int8 [out, in], from -127 to 127, and scale float32 [out]; W = scale[:, None] * codes."""

    format: ClassVar[str] = "int8"
    codes: Tensor
    scale: Tensor

    def dequantize_rows(self, first: int, last: int, dtype: torch.dtype) -> Tensor:
        """Rows first to last - 1 of the matrix."""
        working = working_dtype(dtype)
        rows = self.codes[first:last].to(working) * self.scale[first:last, None].to(working)
        return rows.to(dtype)


def absmax_scale(largest: Tensor) -> Tensor:
    """max|w| / 127 in float32; at least the least normal number, so that a row of zeros gives zeros."""
    return (largest / LARGEST).to(torch.float32).clamp_min(TINY)


def quantize_int8(weight: Float[Tensor, "out in"]) -> Int8Weight:
    """Quantises each row to int8 with its own scale: q = round(w / s), s = max|w| / 127.

    Args:
        weight: finite, any strides.

    Returns:
        The quantised weight; each number is within s / 2 of the original, and zeros stay zeros.

    Raises:
        ValueError: the weight is no finite floating matrix.

    Paper: Dettmers et al., arXiv 2208.07339.
    """
    matrix = check_matrix("weight", weight)
    matrix = matrix.to(working_dtype(matrix.dtype))
    scale = absmax_scale(matrix.abs().amax(dim=1))
    if not bool(torch.isfinite(scale).all()):
        raise ValueError(f"weight: up to {float(matrix.abs().max()):.3g}; scales must be finite in float32")
    codes = (matrix / scale[:, None].to(matrix.dtype)).round_().clamp_(-LARGEST, LARGEST)
    return Int8Weight((matrix.shape[0], matrix.shape[1]), codes.to(torch.int8).contiguous(), scale)


class Int8Linear(QuantizedLinear):
    """A linear layer with an int8 weight; the activations stay as they are.

    The scale of an output channel multiplies the output, not the weight: X W^T = (X Q^T) s. Not in float16, where sums
    up to 127 times as large could pass its largest number.
    """

    @staticmethod
    def product(x: Tensor, weight: QuantizedWeight) -> Tensor:
        """(X Q^T) s, block by block."""
        assert isinstance(weight, Int8Weight)
        if x.dtype == torch.float16 or x.numel() == 0:
            return QuantizedLinear.product(x, weight)
        out = x.new_empty(*x.shape[:-1], weight.shape[0])
        for first, last in blocks(weight):
            part = F.linear(x, weight.codes[first:last].to(x.dtype))
            torch.mul(part, weight.scale[first:last].to(working_dtype(x.dtype)), out=out[..., first:last])
        return out


@dataclass(frozen=True)
class Int8:
    """Weight-only int8, one scale an output channel: 8 bits a weight, about 42 dB on normal weights."""

    name: ClassVar[str] = "int8"

    def layer(self, weight: Tensor, bias: nn.Parameter | None = None) -> Int8Linear:
        """A layer with the quantised weight."""
        return Int8Linear(quantize_int8(weight), bias)


def quantize_rows(x: Float[Tensor, "rows in"]) -> tuple[Int8Array[Tensor, "rows in"], Float[Tensor, " rows"]]:
    """Each row of activations to int8 with its own scale, as `quantize_int8`, without its checks."""
    matrix = x.to(working_dtype(x.dtype))
    scale = absmax_scale(matrix.abs().amax(dim=1))
    return (matrix / scale[:, None]).round_().clamp_(-LARGEST, LARGEST).to(torch.int8), scale
