"""What the functions of this package accept; every refusal names the argument, what it was and what is allowed."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor

FLOATING = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def check_count(name: str, value: object, least: int = 1) -> int:
    """`value` itself; ValueError unless it is a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name}={value!r}: must be a whole number of at least {least}")
    return value


def check_choice(name: str, value: str, allowed: Iterable[str]) -> str:
    """`value` itself; ValueError unless it is one of those allowed."""
    words = list(allowed)
    if value not in words:
        raise ValueError(f"{name}={value!r}: allowed are {', '.join(words)}")
    return value


def check_number(name: str, value: object, least: float, below: float = math.inf) -> float:
    """`value` as a float; ValueError unless it is a finite number, `least <= value < below`."""
    right = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if not right or not isinstance(value, (int, float)) or not least <= value < below:
        upper = "" if below == math.inf else f" and below {below}"
        raise ValueError(f"{name}={value!r}: must be a finite number, at least {least}{upper}")
    return float(value)


def check_divides(name: str, value: int, parts: int, what: str) -> int:
    """`value // parts`; ValueError unless `parts` divides it."""
    if value % parts:
        raise ValueError(f"{name}={value}: must be a multiple of {parts}, {what}")
    return value // parts


def check_floating(name: str, value: object) -> Tensor:
    """`value` itself; ValueError unless it is a floating-point tensor."""
    if not isinstance(value, Tensor):
        raise ValueError(f"{name}={value!r}: must be a tensor")
    if value.dtype not in FLOATING:
        raise ValueError(f"{name}: dtype {value.dtype}; allowed are {', '.join(map(str, FLOATING))}")
    return value
