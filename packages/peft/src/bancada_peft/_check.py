"""What the package accepts; every refusal names the argument, what it was and what is allowed."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from torch import nn

_NAME = re.compile(r"[A-Za-z0-9_-]+\Z")


def check_name(name: object) -> str:
    """`name` itself; ValueError unless a `ModuleDict` can hold it and a file name can be made of it."""
    if not isinstance(name, str) or not _NAME.match(name) or hasattr(nn.ModuleDict(), name):
        raise ValueError(f"name={name!r}: must be letters, digits, '_' and '-', and no method of ModuleDict")
    return name


def check_count(argument: str, value: object) -> int:
    """`value` itself; ValueError unless it is a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{argument}={value!r}: must be a whole number of at least 1")
    return value


def check_number(argument: str, value: object, least: float = -math.inf, below: float = math.inf) -> float:
    """`value` itself; ValueError unless it is finite and in [least, below)."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"{argument}={value!r}: must be a finite number")
    if not least <= value < below:
        raise ValueError(f"{argument}={value!r}: must be at least {least:g} and below {below:g}")
    return float(value)


def check_flag(argument: str, value: object) -> bool:
    """`value` itself; ValueError unless it is a bool."""
    if not isinstance(value, bool):
        raise ValueError(f"{argument}={value!r}: must be True or False")
    return value


def check_patterns(argument: str, value: object, *, may_be_empty: bool = False) -> str | tuple[str, ...]:
    """A pattern, or a tuple of names made of any sequence; ValueError for anything else, and for nothing."""
    if isinstance(value, str) and value:
        return value
    named = isinstance(value, Sequence) and all(isinstance(item, str) and item for item in value)
    if isinstance(value, Sequence) and named and (value or may_be_empty):
        return tuple(dict.fromkeys(value))
    raise ValueError(f"{argument}={value!r}: must be a regular expression, or a list of module names")
