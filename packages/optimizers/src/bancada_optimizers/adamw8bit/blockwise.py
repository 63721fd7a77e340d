"""Blockwise dynamic quantisation without a search: the nearest of 256 codes from the bits of a number.

The upper 16 bits of a float32 (sign, exponent, 7 bits of fraction) leave at most one border between two codes below
them, since codes lie at least 0.7% apart and those bits resolve 0.4%. A table of 65,536 bytes gives the code at the
lower end; one comparison with the border above it gives the right one. The result is exact.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch
from torch import Tensor

from bancada_optimizers.adamw8bit.reference import BLOCK, dynamic_map


@dataclass(frozen=True)
class Tables:
    """The map, the borders between its codes, and the code at the lower end of every pattern of 16 bits."""

    values: Tensor
    borders: Tensor
    lowest: Tensor
    zero: int


@functools.lru_cache(maxsize=8)
def tables(signed: bool, device: torch.device) -> Tables:
    """The tables of a map on a device."""
    exact = dynamic_map(signed)
    middles = (exact[:-1] + exact[1:]) / 2
    # float32 neighbours: the border is the largest float32 that still belongs below.
    borders = middles.to(torch.float32)
    borders = torch.where(borders.double() > middles, torch.nextafter(borders, torch.tensor(-2.0)), borders)
    patterns = torch.arange(1 << 16, dtype=torch.int64)
    ends = torch.stack([patterns << 16, (patterns << 16) | 0xFFFF]).to(torch.int32).view(torch.float32)
    lower = torch.nan_to_num(ends, nan=0.0).amin(0)
    lowest = torch.searchsorted(borders, lower).to(torch.uint8)  # how many borders lie below
    above = torch.cat([borders, torch.tensor([torch.inf])])
    zero = int((exact == 0).nonzero())
    return Tables(exact.to(device, torch.float32), above.to(device), lowest.to(device), zero)


def quantize_blockwise(x: Tensor, signed: bool) -> tuple[Tensor, Tensor]:
    """Each number's nearest code and each block's largest magnitude.

    x = scale[i // 256] * map[code[i]]. A block of zeros has scale 0; one with a NaN has scale NaN, and is NaN.

    Args:
        x: float32, any shape, read as flat.
        signed: which `dynamic_map`; numbers below 0 are 0 in the unsigned one.

    Returns:
        codes, uint8 [numel], and scales, float32 [ceil(numel / 256)].
    """
    if x.dtype != torch.float32:
        raise ValueError(f"x: dtype {x.dtype}; must be torch.float32")
    count = x.numel()
    flat = x.reshape(-1)
    if count % BLOCK:
        flat = torch.nn.functional.pad(flat, (0, -count % BLOCK))
    blocks = flat.view(-1, BLOCK)
    scales = blocks.abs().amax(1) if signed else blocks.amax(1).clamp_(min=0)
    scaled = (blocks / torch.where(scales == 0, 1.0, scales)[:, None]).view(-1)
    known = tables(signed, x.device)
    patterns = scaled.view(torch.int32).bitwise_right_shift(16).bitwise_and_(0xFFFF)
    lower = known.lowest.index_select(0, patterns)
    codes = lower.add_(scaled > known.borders.index_select(0, lower.to(torch.int32)))
    return codes[:count], scales


def dequantize_blockwise(codes: Tensor, scales: Tensor, signed: bool) -> Tensor:
    """The numbers that codes stand for: float32 [numel].

    Args:
        codes: uint8, flat.
        scales: float32 [ceil(numel / 256)].
        signed: which `dynamic_map`.
    """
    if scales.numel() != -(-codes.numel() // BLOCK):
        raise ValueError(f"scales: {scales.numel()} for {codes.numel()} codes; must be {-(-codes.numel() // BLOCK)}")
    found = tables(signed, codes.device).values.index_select(0, codes.to(torch.int32))
    if codes.numel() % BLOCK:
        return found.mul_(scales.repeat_interleave(BLOCK)[: codes.numel()])
    found.view(-1, BLOCK).mul_(scales[:, None])
    return found
