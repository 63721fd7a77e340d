"""Symmetric int8 per output channel, number by number: the oracle of `weight.py`."""

from __future__ import annotations

import struct

TINY = 2.0**-126
"""The least normal float32: below it a quotient by the scale would overflow."""


def float32(value: float) -> float:
    """`value` rounded to float32, in which scales are stored."""
    return float(struct.unpack("f", struct.pack("f", value))[0])


def quantize_row_reference(row: list[float]) -> tuple[list[int], float]:
    """s = max|w| / 127 and q = round(w / s), halves to even, within -127 to 127."""
    scale = max(float32(max(abs(w) for w in row) / 127), TINY)
    return [max(-127, min(127, round(w / scale))) for w in row], scale
