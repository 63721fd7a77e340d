"""NF4: each block of 64 numbers, row after row, is divided by its largest and rounded to one of sixteen levels.

Dettmers et al., QLoRA, arXiv 2305.14314, section 3 and appendix E (which prints the levels).
"""

# ruff: noqa: F722  (axis names in jaxtyping strings are no Python expressions)

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import nn

from bancada_compression._check import check_count, check_flag, check_matrix, working_dtype
from bancada_compression._typing import Float, Tensor
from bancada_compression.packing import decode, pack
from bancada_compression.quantized import QuantizedLinear, QuantizedWeight

# The levels as appendix E prints them. They are fixed numbers: computed anew from the normal quantiles they differ by
# an ulp from library to library, and a code would then mean another number.
# fmt: off
LEVELS = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
)
# fmt: on


@dataclass(frozen=True, eq=False)
class NF4Weight(QuantizedWeight):
    """codes uint8 [ceil(out * in / 2)], the first of two in the high half, and absmax float32 [blocks].

    Blocks are cut from the matrix row after row, and may reach over the end of a row; the last may be shorter.
    """

    format: ClassVar[str] = "nf4"
    codes: Tensor
    absmax: Tensor
    block_size: int

    def absmax_of(self, first: int, last: int) -> Tensor:
        """The largest absolute values of blocks first to last - 1, float32."""
        return self.absmax[first:last]

    def dequantize_rows(self, first: int, last: int, dtype: torch.dtype) -> Tensor:
        """Rows first to last - 1 of the matrix."""
        columns, working = self.shape[1], working_dtype(dtype)
        begin, end = first * columns // self.block_size, -(-last * columns // self.block_size)
        start = begin * self.block_size  # a block is even: it begins with a byte
        codes = self.codes[start // 2 : end * self.block_size // 2]
        pairs = decode(codes[None], 4, 2 * codes.numel(), LEVELS, working, "big").flatten()
        short = (end - begin) * self.block_size - pairs.numel()
        blocks = (F.pad(pairs, (0, short)) if short else pairs).view(end - begin, self.block_size)
        numbers = blocks.mul_(self.absmax_of(begin, end)[:, None].to(working)).flatten()
        return numbers[first * columns - start : last * columns - start].view(last - first, columns).to(dtype)


def quantize_nf4(weight: Float[Tensor, "out in"], block_size: int = 64) -> NF4Weight:
    """Rounds w / max|w| of each block to the nearest of sixteen quantiles of a normal distribution.

    Codes and absmax are bitsandbytes' bit for bit; blocks of zeros alone get the code of 0.

    Args:
        weight: finite, any strides.
        block_size: numbers that share a scale: even, at least 2.

    Returns:
        The quantised weight; zeros stay zeros, and the largest number of a block stays as it is (in float32).

    Raises:
        ValueError: the weight is no finite floating matrix, reaches beyond float32, or block_size is not allowed.

    Paper: Dettmers et al., arXiv 2305.14314.
    """
    matrix = check_matrix("weight", weight)
    check_block("block_size", block_size)
    numbers = matrix.to(torch.float32).flatten()
    if not bool(torch.isfinite(numbers).all()):
        raise ValueError(f"weight: up to {float(matrix.abs().max()):.3g}; must be finite in float32")
    count = numbers.numel()
    blocks = F.pad(numbers, (0, -count % block_size)).view(-1, block_size)
    absmax = blocks.abs().amax(dim=1)
    levels = torch.tensor(LEVELS, device=matrix.device)
    # A block of zeros is divided by 1: its numbers then take the code of 0.
    scaled = blocks / torch.where(absmax > 0, absmax, 1.0)[:, None]
    # The half byte left over after an odd count holds the code of 0, as bitsandbytes' does.
    codes = torch.bucketize(scaled, (levels[1:] + levels[:-1]) / 2).flatten()[: count + count % 2]
    return NF4Weight((matrix.shape[0], matrix.shape[1]), pack(codes, 4, "big"), absmax, block_size)


def check_block(name: str, value: int) -> None:
    """ValueError unless a block size is an even whole number of at least 2."""
    check_count(name, value, least=2)
    if value % 2:
        raise ValueError(f"{name}={value}: must be even, so that a block begins with a byte")


class NF4Linear(QuantizedLinear):
    """A linear layer with an NF4 weight; the activations stay as they are."""


@dataclass(frozen=True)
class NF4:
    """Weight-only NF4; `double` also quantises the blocks' scales to 8 bits (4.127 bits a weight, 4.5 without)."""

    block_size: int = 64
    double: bool = True

    def __post_init__(self) -> None:
        check_block("block_size", self.block_size)
        check_flag("double", self.double)

    @property
    def name(self) -> str:
        """For example `nf4-b64-double`."""
        return f"nf4-b{self.block_size}{'-double' if self.double else ''}"

    def layer(self, weight: Tensor, bias: nn.Parameter | None = None) -> NF4Linear:
        """A layer with the quantised weight."""
        from bancada_compression.nf4.double import quantize_nf4_double

        quantize = quantize_nf4_double if self.double else quantize_nf4
        return NF4Linear(quantize(weight, self.block_size), bias)
