"""Tables as compact columns: what the page's script reads, small enough for thousands of cells.

A column is one of `{"k": value}` (the same everywhere), `{"d": [values], "i": [places]}` (few values; -1 where
missing), `{"s": [rows], "v": [values]}` (mostly missing) or `{"v": [values]}` (null where missing).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

DIGITS = 5
"""Significant digits kept of a float: more than any interval here can tell apart."""


def rounded(value: Any) -> Any:
    """A float to `DIGITS` significant digits, and as a whole number where it is one; anything else unchanged."""
    if not isinstance(value, float):
        return value
    short = float(f"{value:.{DIGITS}g}")
    if not math.isfinite(short):  # rounded up past the largest float
        return value
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


def column(values: Sequence[Any]) -> dict[str, Any]:
    """One column; see the module's text for its forms."""
    short = [rounded(value) for value in values]
    present = [(row, value) for row, value in enumerate(short) if value is not None]
    if len(present) < len(short) / 4:
        return {"s": [row for row, _ in present], "v": [value for _, value in present]}
    if all(isinstance(value, (str, bool)) for _, value in present):
        places: dict[Any, int] = {}
        codes = [-1 if value is None else places.setdefault(value, len(places)) for value in short]
        if len(places) == 1 and len(present) == len(short):
            return {"k": short[0]}
        if len(places) <= len(short) / 2:
            return {"d": list(places), "i": codes}
    return {"v": short}


def table(records: Iterable[Mapping[str, Any]], skip: Iterable[str] = ()) -> dict[str, Any]:
    """Records as columns: `{"n": rows, "c": {name: column}}`; a name no record fills is left out."""
    kept, left = list(records), set(skip)
    names: dict[str, None] = {}
    for record in kept:
        names.update(dict.fromkeys(name for name, value in record.items() if value is not None and name not in left))
    return {"n": len(kept), "c": {name: column([record.get(name) for record in kept]) for name in names}}
