"""The price of a device-hour: an assumption that a reader makes, which turns times into costs."""

from __future__ import annotations

import math

FIELD = "price_per_hour"
"""The field of a run's head that carries it."""


def check(price: float | None) -> None:
    """ValueError unless `price` is None or a finite number above 0."""
    if price is not None and not (math.isfinite(price) and price > 0):
        raise ValueError(f"price={price!r}: of a device-hour, must be a finite number above 0")
