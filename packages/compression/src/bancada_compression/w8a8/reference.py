"""The dynamic W8A8 product, number by number: the oracle of `linear.py`."""

from __future__ import annotations

from bancada_compression.int8.reference import quantize_row_reference


def w8a8_reference(x: list[list[float]], weight: list[list[float]]) -> list[list[float]]:
    """y[m][n] = sx[m] sw[n] sum_k qx[m][k] qw[n][k], with x and W quantised row by row and an exact sum."""
    left = [quantize_row_reference(row) for row in x]
    right = [quantize_row_reference(row) for row in weight]
    return [[sx * sw * sum(a * b for a, b in zip(qx, qw, strict=True)) for qw, sw in right] for qx, sx in left]
