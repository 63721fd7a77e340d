"""What the optimizers accept; every refusal names the argument, what it was and what is allowed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor


def number(
    name: str, value: object, *, least: float | None = None, above: float | None = None, below: float | None = None
) -> float:
    """`value` as a float; ValueError unless it is a finite number in the range."""
    allowed = "a finite number"
    if least is not None:
        allowed += f" of at least {least:g}"
    if above is not None:
        allowed += f" above {above:g}"
    if below is not None:
        allowed += f" below {below:g}"
    right = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if (
        not isinstance(value, (int, float))
        or not right
        or (least is not None and value < least)
        or (above is not None and value <= above)
        or (below is not None and value >= below)
    ):
        raise ValueError(f"{name}={value!r}: must be {allowed}")
    return float(value)


def whole(name: str, value: object, *, least: int = 0) -> int:
    """`value` itself; ValueError unless it is a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name}={value!r}: must be a whole number of at least {least}")
    return value


def flag(name: str, value: object) -> bool:
    """`value` itself; ValueError unless it is a bool."""
    if not isinstance(value, bool):
        raise ValueError(f"{name}={value!r}: must be True or False")
    return value


def choice(name: str, value: object, allowed: Sequence[str]) -> str:
    """`value` itself; ValueError unless it is one of the words."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name}={value!r}: allowed are {', '.join(allowed)}")
    return value


def betas(value: object) -> tuple[float, float]:
    """Two decay rates in [0, 1); ValueError otherwise."""
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise ValueError(f"betas={value!r}: must be two numbers of at least 0 and below 1")
    one, two = (number(f"betas[{i}]", beta, least=0, below=1) for i, beta in enumerate(value))
    return one, two


def parameter(p: Tensor) -> None:
    """ValueError unless an optimizer can step `p`: real, floating point and strided."""
    if p.is_complex():
        raise ValueError(
            f"params: dtype {p.dtype} of shape {list(p.shape)}; complex parameters are not supported: give the "
            "optimizer a real parameter and view it with torch.view_as_complex"
        )
    if not p.is_floating_point():
        raise ValueError(f"params: dtype {p.dtype} of shape {list(p.shape)}; must be floating point")


def gradient(p: Tensor) -> None:
    """ValueError where the gradient of `p` is sparse; torch itself refuses another shape, device or dtype."""
    if p.grad is not None and p.grad.layout != torch.strided:
        raise ValueError(f"grad: layout {p.grad.layout} for a parameter of shape {list(p.shape)}; must be dense")


def not_offered(group: Mapping[str, Any], names: Sequence[str]) -> None:
    """ValueError where a loaded group asks for what torch.optim offers and this package does not."""
    for name in names:
        if group.get(name):
            raise ValueError(f"{name}={group[name]!r}: not offered here; allowed is False")
