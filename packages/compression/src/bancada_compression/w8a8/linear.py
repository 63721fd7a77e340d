"""Dynamic W8A8: activations are quantised row by row at each call, and integers are multiplied.

Y = s_x s_w (Q_x Q_w^T), with int32 sums, which are exact. Dettmers et al., LLM.int8(), arXiv 2208.07339, section 2.
"""

# ruff: noqa: F722  (axis names in jaxtyping strings are no Python expressions)

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import nn

from bancada_compression._typing import Int, Int8, Tensor
from bancada_compression.int8 import Int8Weight, quantize_int8
from bancada_compression.int8.weight import LARGEST, quantize_rows
from bancada_compression.quantized import QuantizedLinear, QuantizedWeight

EXACT_IN_FLOAT32 = (1 << 24) // LARGEST**2
"""Terms of 127 * 127 that a float32 sum holds exactly: 1040."""
MOST_TERMS = (1 << 31) // LARGEST**2
"""Terms that an int32 sum holds: 133,144."""
CUDA_ROWS, CUDA_MULTIPLE = 32, 8
"""cuBLASLt's int8 product takes more than 16 rows, and widths that are multiples of 8."""


def int8_matmul(a: Int8[Tensor, "m k"], b: Int8[Tensor, "n k"]) -> Int[Tensor, "m n"]:
    """A B^T of int8 matrices with exact int32 sums.

    On CUDA the tensor cores' integer product, padded to the sizes it takes. Elsewhere the float32 product of up to 1040
    columns at a time: the integers and their sums are below 2^24, so no bit is lost, and the BLAS is many times
    faster than integer loops on processors without integer dot products.

    Args:
        a: from -127 to 127.
        b: from -127 to 127.

    Raises:
        ValueError: dtypes other than int8, shapes that do not fit, or k above 133,144, where int32 could overflow.
    """
    for name, value in (("a", a), ("b", b)):
        if value.dtype != torch.int8 or value.dim() != 2:
            raise ValueError(f"{name}: {value.dtype} {list(value.shape)}; must be an int8 matrix")
    if a.shape[1] != b.shape[1] or a.shape[1] > MOST_TERMS:
        raise ValueError(f"b: shape {list(b.shape)}; must have a's columns, {a.shape[1]}, at most {MOST_TERMS}")
    if a.is_cuda:
        return _on_cuda(a, b)
    out: Tensor | None = None
    for first in range(0, a.shape[1], EXACT_IN_FLOAT32):
        columns = slice(first, first + EXACT_IN_FLOAT32)
        part = F.linear(a[:, columns].float(), b[:, columns].float()).to(torch.int32)
        out = part if out is None else out.add_(part)
    return a.new_zeros(a.shape[0], b.shape[0], dtype=torch.int32) if out is None else out


def _on_cuda(a: Tensor, b: Tensor) -> Tensor:
    rows, columns = a.shape[0], b.shape[0]
    more_rows = max(CUDA_ROWS - rows, 0)
    deep, wide = -a.shape[1] % CUDA_MULTIPLE, -columns % CUDA_MULTIPLE
    a = F.pad(a, (0, deep, 0, more_rows)) if deep or more_rows else a.contiguous()
    b = F.pad(b, (0, deep, 0, wide)) if deep or wide else b.contiguous()
    return torch._int_mm(a, b.T)[:rows, :columns]


class DynamicInt8Linear(QuantizedLinear):
    """A linear layer with an int8 weight whose input rows are quantised to int8 at each call.

    The gradient of x is that of the product with the dequantised weight (rounding counts as the identity).
    """

    @staticmethod
    def product(x: Tensor, weight: QuantizedWeight) -> Tensor:
        """The integer product, scaled back."""
        assert isinstance(weight, Int8Weight)
        if x.numel() == 0:
            return QuantizedLinear.product(x, weight)
        codes, scale = quantize_rows(x.reshape(-1, x.shape[-1]))
        sums = int8_matmul(codes, weight.codes)
        out = sums.to(torch.promote_types(x.dtype, torch.float32)).mul_(weight.scale).mul_(scale[:, None])
        return out.to(x.dtype).reshape(*x.shape[:-1], weight.shape[0])


@dataclass(frozen=True)
class W8A8:
    """Int8 weights (one scale an output channel) and int8 activations (one scale a row, taken at each call)."""

    name: ClassVar[str] = "w8a8"

    def layer(self, weight: Tensor, bias: nn.Parameter | None = None) -> DynamicInt8Linear:
        """A layer with the quantised weight; ValueError for an input wider than int32 sums hold."""
        if weight.dim() == 2 and weight.shape[1] > MOST_TERMS:
            raise ValueError(f"weight: shape {list(weight.shape)}; in must be at most {MOST_TERMS}")
        return DynamicInt8Linear(quantize_int8(weight), bias)
