"""What the functions of this package accept; every refusal names the argument, what it was and what is allowed."""

from __future__ import annotations

import math
from collections.abc import Collection

import torch
from torch import Tensor

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_WORDS = ", ".join(str(dtype) for dtype in FLOATS)


def check_matrix(name: str, value: object) -> Tensor:
    """`value` as a detached tensor; ValueError unless it is a finite floating matrix with at least one element."""
    matrix = check_floating(name, value)
    if matrix.dim() != 2 or matrix.numel() == 0:
        raise ValueError(f"{name}: shape {list(matrix.shape)}; must be [out, in] with both at least 1")
    return matrix


def check_floating(name: str, value: object) -> Tensor:
    """`value` as a detached tensor; ValueError unless it is a tensor of finite floating numbers."""
    if not isinstance(value, Tensor):
        raise ValueError(f"{name}={value!r}: must be a tensor")
    if value.dtype not in FLOATS:
        raise ValueError(f"{name}: dtype {value.dtype}; allowed are {_WORDS}")
    if not bool(torch.isfinite(value).all()):
        raise ValueError(f"{name}: holds NaN or infinity; must be finite")
    return value.detach()


def check_choice(name: str, value: object, allowed: Collection[object]) -> None:
    """ValueError unless `value` is one of `allowed` (True is not 1 here)."""
    if isinstance(value, bool) or value not in allowed:
        raise ValueError(f"{name}={value!r}: allowed are {', '.join(map(str, allowed))}")


def check_flag(name: str, value: object) -> None:
    """ValueError unless `value` is True or False."""
    if not isinstance(value, bool):
        raise ValueError(f"{name}={value!r}: must be True or False")


def check_count(name: str, value: object, least: int = 1, most: int | None = None) -> None:
    """ValueError unless `value` is a whole number between `least` and `most`."""
    allowed = f"a whole number of at least {least}" if most is None else f"a whole number from {least} to {most}"
    if isinstance(value, bool) or not isinstance(value, int) or value < least or (most is not None and value > most):
        raise ValueError(f"{name}={value!r}: must be {allowed}")


def check_fraction(name: str, value: object) -> None:
    """ValueError unless `value` is a number from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise ValueError(f"{name}={value!r}: must be a number from 0 to 1")


def check_positive(name: str, value: object) -> None:
    """ValueError unless `value` is a finite number above 0."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value <= 0:
        raise ValueError(f"{name}={value!r}: must be a finite number above 0")


def working_dtype(dtype: torch.dtype) -> torch.dtype:
    """What weights of a dtype are computed in: float64 for float64, else float32."""
    return torch.float64 if dtype == torch.float64 else torch.float32
