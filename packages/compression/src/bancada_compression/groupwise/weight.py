"""Group-wise round-to-nearest: each row is cut into groups of columns, each with its own scale and zero-point.

W = s (q - z). The range of a group always holds 0, so that a weight of 0 (a pruned one) comes back as exactly 0.
Frantar et al., GPTQ, arXiv 2210.17323 (its RTN baseline and its grouping).
"""

# ruff: noqa: F722  (axis names in jaxtyping strings are no Python expressions)

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import nn

from bancada_compression._check import check_choice, check_count, check_flag, check_matrix, working_dtype
from bancada_compression._typing import Float, Tensor
from bancada_compression.packing import BITS, Order, decode, pack, unpack
from bancada_compression.quantized import QuantizedLinear, QuantizedWeight

TINY = torch.finfo(torch.float32).tiny


@dataclass(frozen=True, eq=False)
class GroupwiseWeight(QuantizedWeight):
    """Packed codes and zero-points, uint8 [out, bytes a row], and scale float32 [out, groups].

    `zero` is None for symmetric codes, whose zero-point is 2^(bits-1) everywhere. The last group of a row is narrower
    where the width is no multiple of the group.
    """

    format: ClassVar[str] = "groupwise"
    codes: Tensor
    scale: Tensor
    zero: Tensor | None
    bits: int
    group_size: int
    order: Order = "little"

    def dequantize_rows(self, first: int, last: int, dtype: torch.dtype) -> Tensor:
        """Rows first to last - 1 of the matrix."""
        columns, groups = self.shape[1], self.scale.shape[1]
        working = working_dtype(dtype)
        middle = 0 if self.zero is not None else 1 << (self.bits - 1)
        levels = tuple(float(code - middle) for code in range(1 << self.bits))
        numbers = decode(self.codes[first:last], self.bits, columns, levels, working, self.order)
        numbers = F.pad(numbers, (0, groups * self.group_size - columns)) if columns % self.group_size else numbers
        numbers = numbers.reshape(-1, groups, self.group_size)
        if self.zero is not None:
            numbers -= unpack(self.zero[first:last], self.bits, groups, self.order)[..., None].to(working)
        numbers *= self.scale[first:last, :, None].to(working)
        return numbers.flatten(1)[:, :columns].to(dtype)


def quantize_groupwise(
    weight: Float[Tensor, "out in"],
    bits: int = 4,
    group_size: int = 64,
    symmetric: bool = False,
    order: Order = "little",
) -> GroupwiseWeight:
    """Rounds each group of columns of each row to 2^bits equal steps: W = s (q - z).

    Asymmetric: s = (max(w, 0) - min(w, 0)) / (2^bits - 1), z = round(-min(w, 0) / s).
    Symmetric: s = max|w| / (2^(bits-1) - 1), z = 2^(bits-1); code 0 is not used.

    Args:
        weight: finite, any strides; the last group of a row is narrower where `in` is no multiple of `group_size`.
        bits: 2, 3, 4 or 8.
        group_size: columns that share a scale.
        symmetric: no zero-points: fewer bytes, one step of the range less.
        order: of the packed bits, see `pack`.

    Returns:
        The quantised weight; each number is within s / 2 of the original (to float32 rounding), zeros stay zeros.

    Raises:
        ValueError: the weight is no finite floating matrix; bits, group_size, symmetric or order is not allowed.

    Paper: Frantar et al., arXiv 2210.17323.
    """
    matrix = check_matrix("weight", weight)
    check_choice("bits", bits, BITS)
    check_count("group_size", group_size)
    check_flag("symmetric", symmetric)
    rows, columns = matrix.shape
    groups = -(-columns // group_size)
    matrix = matrix.to(working_dtype(matrix.dtype))
    # Zeros change no group's range, for 0 lies in every range: a narrow last group is as it would be by itself.
    grouped = F.pad(matrix, (0, groups * group_size - columns)).view(rows, groups, group_size)
    top, half = (1 << bits) - 1, 1 << (bits - 1)
    if symmetric:
        scale = _scale(grouped.abs().amax(-1) / (half - 1))
        zero = torch.full_like(scale, half, dtype=matrix.dtype)
    else:
        low, high = grouped.amin(-1).clamp_max_(0), grouped.amax(-1).clamp_min_(0)
        scale = _scale((high - low) / top)
        zero = (-low / scale.to(matrix.dtype)).round_().clamp_(0, top)
    codes = (grouped / scale[..., None].to(matrix.dtype)).round_().add_(zero[..., None])
    codes = codes.clamp_(1 if symmetric else 0, top).flatten(1)[:, :columns]
    return GroupwiseWeight(
        shape=(rows, columns),
        codes=pack(codes.to(torch.uint8), bits, order),
        scale=scale,
        zero=None if symmetric else pack(zero.to(torch.uint8), bits, order),
        bits=bits,
        group_size=group_size,
        order=order,
    )


def _scale(value: Tensor) -> Tensor:
    """In float32, at least its least normal number: a group of zeros, or nearly so, divides by no zero."""
    scale = value.to(torch.float32)
    if not bool(torch.isfinite(scale).all()):
        raise ValueError("weight: the range of a group is beyond float32; must be finite there")
    return scale.clamp_min_(TINY)


class GroupwiseLinear(QuantizedLinear):
    """A linear layer with a group-wise quantised weight; the activations stay as they are."""


@dataclass(frozen=True)
class Groupwise:
    """Weight-only, `bits` a weight (2, 3, 4 or 8), a float32 scale (and a zero-point) a group of columns."""

    bits: int = 4
    group_size: int = 64
    symmetric: bool = False

    def __post_init__(self) -> None:
        check_choice("bits", self.bits, BITS)
        check_count("group_size", self.group_size)
        check_flag("symmetric", self.symmetric)

    @property
    def name(self) -> str:
        """For example `int4-g64`."""
        return f"int{self.bits}-g{self.group_size}{'-symmetric' if self.symmetric else ''}"

    def layer(self, weight: Tensor, bias: nn.Parameter | None = None) -> GroupwiseLinear:
        """A layer with the quantised weight."""
        return GroupwiseLinear(quantize_groupwise(weight, self.bits, self.group_size, self.symmetric), bias)
