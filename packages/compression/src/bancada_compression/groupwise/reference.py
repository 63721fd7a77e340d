"""Group-wise quantisation, number by number: the oracle of `weight.py`."""

from __future__ import annotations

from bancada_compression.int8.reference import TINY, float32


def quantize_group_reference(group: list[float], bits: int, symmetric: bool) -> tuple[list[int], float, int]:
    """Codes 0 to 2^bits - 1, scale and zero-point of one group; w is about s (q - z).

    Asymmetric: s = (max(w, 0) - min(w, 0)) / (2^bits - 1), z = round(-min(w, 0) / s).
    Symmetric: s = max|w| / (2^(bits-1) - 1), z = 2^(bits-1).
    """
    top = (1 << bits) - 1
    if symmetric:
        half = 1 << (bits - 1)
        scale, zero, least = max(float32(max(abs(w) for w in group) / (half - 1)), TINY), half, 1
    else:
        low, high = min(0.0, *group), max(0.0, *group)
        scale = max(float32((high - low) / top), TINY)
        zero, least = min(top, round(-low / scale)), 0
    return [max(least, min(top, round(w / scale) + zero)) for w in group], scale, zero
