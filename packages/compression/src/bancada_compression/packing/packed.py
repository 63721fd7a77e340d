"""Packing in torch: a unit of codes becomes one integer, the integer becomes bytes."""

# ruff: noqa: F722  (axis names in jaxtyping strings are no Python expressions)

from __future__ import annotations

import math
from typing import Literal

import torch
import torch.nn.functional as F

from bancada_compression._check import check_choice, check_count
from bancada_compression._typing import Int, Tensor, UInt8

BITS = (2, 3, 4, 8)
ORDERS = ("little", "big")
Order = Literal["little", "big"]


def packed_bytes(count: int, bits: int) -> int:
    """Bytes of a row of `count` codes: ceil(count * bits / 8)."""
    return -(-count * bits // 8)


def pack(codes: Int[Tensor, "*rows count"], bits: int, order: Order = "little") -> UInt8[Tensor, "*rows bytes"]:
    """Packs codes along the last dimension: byte k of a row holds bits 8k to 8k+7 of its stream of bits.

    Args:
        codes: integers from 0 to 2^bits - 1, any strides.
        bits: bits a code: 2, 3, 4 or 8.
        order: `little` puts a code's lowest bit first and fills a byte from its lowest bit; `big` puts the highest bit
            first and fills from the highest (for 4 bits: the first code in the high half, as bitsandbytes packs NF4).

    Returns:
        uint8, ceil(count * bits / 8) bytes a row; the last byte is filled up with zeros.

    Raises:
        ValueError: codes are no integers, have no dimension, or lie outside 0 to 2^bits - 1; bits or order unknown.
    """
    _check(bits, order)
    if not isinstance(codes, Tensor) or codes.is_floating_point() or codes.is_complex() or codes.dtype == torch.bool:
        raise ValueError(f"codes: {getattr(codes, 'dtype', codes)!r}; must be a tensor of integers")
    if codes.dim() == 0:
        raise ValueError("codes: no dimension; must be [..., count]")
    if codes.numel() and not 0 <= int(codes.min()) <= int(codes.max()) < 1 << bits:
        raise ValueError(f"codes: from {int(codes.min())} to {int(codes.max())}; must be 0 to {(1 << bits) - 1}")
    if bits == 8:
        return codes.to(torch.uint8, copy=True).contiguous()
    count, a_unit, unit_bytes = codes.shape[-1], _codes_a_unit(bits), _bytes_a_unit(bits)
    units = -(-count // a_unit)
    padded = F.pad(codes.to(torch.int32), (0, units * a_unit - count)).reshape(*codes.shape[:-1], units, a_unit)
    words = (padded << _shifts(bits, order, codes.device)).sum(-1, keepdim=True, dtype=torch.int32)
    found = (words >> _shifts(8, order, codes.device, 8 * unit_bytes)) & 0xFF
    return found.flatten(-2)[..., : packed_bytes(count, bits)].to(torch.uint8).contiguous()


def unpack(
    packed: UInt8[Tensor, "*rows bytes"], bits: int, count: int, order: Order = "little"
) -> UInt8[Tensor, "*rows count"]:
    """The first `count` codes of each row; `unpack(pack(codes, b), b, count)` is `codes`.

    Args:
        packed: what `pack` made, any strides.
        bits: as given to `pack`.
        count: codes a row.
        order: as given to `pack`.

    Raises:
        ValueError: packed is not uint8, or a row has not exactly ceil(count * bits / 8) bytes; bits or order unknown.
    """
    _check(bits, order)
    check_count("count", count, least=0)
    if not isinstance(packed, Tensor) or packed.dtype != torch.uint8 or packed.dim() == 0:
        raise ValueError(f"packed: {getattr(packed, 'dtype', packed)!r}; must be a uint8 tensor [..., bytes]")
    if packed.shape[-1] != packed_bytes(count, bits):
        raise ValueError(f"packed: {packed.shape[-1]} bytes a row; {count} codes of {bits} bits take "
                         f"{packed_bytes(count, bits)}")  # fmt: skip
    if bits == 8:
        return packed.clone()
    a_unit, unit_bytes = _codes_a_unit(bits), _bytes_a_unit(bits)
    if unit_bytes == 1:  # no word spans bytes: stay in uint8, which is four times less to move
        halves = packed.unsqueeze(-1) >> _shifts(bits, order, packed.device, 8).to(torch.uint8)
        return (halves & ((1 << bits) - 1)).flatten(-2)[..., :count].contiguous()
    units = -(-count // a_unit)
    padded = F.pad(packed.to(torch.int32), (0, units * unit_bytes - packed.shape[-1]))
    places = _shifts(8, order, packed.device, 8 * unit_bytes)
    words = (padded.reshape(*packed.shape[:-1], units, unit_bytes) << places).sum(-1, keepdim=True, dtype=torch.int32)
    found = (words >> _shifts(bits, order, packed.device)) & ((1 << bits) - 1)
    return found.flatten(-2)[..., :count].to(torch.uint8).contiguous()


def _codes_a_unit(bits: int) -> int:
    return 8 // math.gcd(bits, 8)


def _bytes_a_unit(bits: int) -> int:
    return bits // math.gcd(bits, 8)


def _shifts(step: int, order: str, device: torch.device, total: int | None = None) -> Tensor:
    """Where each piece of `step` bits stands in a word of `total` bits (None: a whole unit of codes)."""
    total = step * _codes_a_unit(step) if total is None else total
    shifts = torch.arange(0, total, step, device=device, dtype=torch.int32)
    return shifts if order == "little" else shifts.flip(0)


def _check(bits: int, order: str) -> None:
    check_choice("bits", bits, BITS)
    check_choice("order", order, ORDERS)
