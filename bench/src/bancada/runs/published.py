"""Published figures: what papers and projects report of a technique, never measured here.

`reports/baselines/published.jsonl` holds one JSON object a line:

`id`         unique; lower-case letters, digits, '.' and '-'.
`family`     the family whose readers it concerns.
`technique`  the id of its technique's card, here or to come.
`system`     whose figure it is, as the source names it.
`what`       the quantity and the case, in words.
`value`      the figure; `high` too where the source gives a range.
`unit`       of both.
`device`     as the source names it; empty where it names none.
`source`     paper or repository, with the place.
`note`       what a reader must know; may be empty.

Where the figure can stand beside a measured one: `suite`, `measure` (the field of a cell's row), `scale` (what makes
`value` that field's unit) and `axis.NAME` for the axes that the source states.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bancada.axes import Scalar

_TEXTS = ("id", "family", "technique", "system", "what", "unit", "device", "source", "note")
_MAY_BE_EMPTY = ("device", "note")
_BESIDE = ("suite", "measure", "scale")
_SLUG = re.compile(r"[a-z0-9][a-z0-9.-]*\Z")
FAMILIES = {
    "Hopper": r"\b(H100|H200|H800|H20|GH200)\b",
    "Ampere": r"\b(A100|A800|A10G?|A30|A40|RTX A\d{4}|RTX 30\d\d)\b",
    "Ada": r"\b(L4|L40S?|RTX 40\d\d)\b",
    "Blackwell": r"\b(B100|B200|GB200|RTX 50\d\d)\b",
    "CDNA 3": r"\b(MI300[AX]?|MI325X)\b",
}
"""Devices of one architecture, by their names: their figures may stand in one chart."""


class PublishedError(ValueError):
    """A line that does not fit, named with its field."""


@dataclass(frozen=True)
class Figure:
    """One published figure; the module's text tells the fields."""

    id: str
    family: str
    technique: str
    system: str
    what: str
    value: float
    unit: str
    device: str
    source: str
    note: str
    high: float | None = None
    suite: str = ""
    measure: str = ""
    scale: float = 1.0
    axes: Mapping[str, Scalar] = field(default_factory=dict)

    @property
    def device_family(self) -> str:
        """The architecture of its device; empty where it names none that is known."""
        return device_family(self.device)


def device_family(name: str) -> str:
    """The architecture of a device by its name: `NVIDIA H200` is `Hopper`; empty for a CPU and for unknown names."""
    return next((family for family, names in FAMILIES.items() if re.search(names, name)), "")


def load(path: Path) -> list[Figure]:
    """Every figure of a file; none where there is no file.

    Raises:
        PublishedError: a line that does not fit: it names the line, the field, its value and what is allowed.
    """
    found: dict[str, Figure] = {}
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{path.name}: line {number}"
        try:
            raw = json.loads(line)
        except json.JSONDecodeError as error:
            raise PublishedError(f"{where}: not JSON: {error}") from None
        if not isinstance(raw, dict):
            raise PublishedError(f"{where}: must be an object")
        one = _figure(where, raw)
        if one.id in found:
            raise PublishedError(f"{where}: id={one.id!r}: is there already; each figure has one of its own")
        found[one.id] = one
    return list(found.values())


def _figure(where: str, raw: Mapping[str, Any]) -> Figure:
    axes = {name.removeprefix("axis."): value for name, value in raw.items() if name.startswith("axis.")}
    rest = {name: value for name, value in raw.items() if not name.startswith("axis.")}
    for name in rest:
        if name not in (*_TEXTS, *_BESIDE, "value", "high"):
            raise PublishedError(f"{where}: {name}: no such field")
    for name in _TEXTS:
        _text(where, name, rest.get(name))
    if not _SLUG.match(rest["id"]):
        raise PublishedError(f"{where}: id={rest['id']!r}: allowed are lower-case letters, digits, '.' and '-'")
    for name in ("value", *(name for name in ("high", "scale") if name in rest)):
        _number(where, name, rest.get(name))
    if rest.get("high", math.inf) <= rest["value"]:
        raise PublishedError(f"{where}: high={rest['high']!r}: must be above value, {rest['value']!r}")
    placed = [name for name in _BESIDE[:2] if name in rest]
    if (placed or axes) and len(placed) < 2:
        raise PublishedError(f"{where}: suite and measure: both are needed where either, or an axis, is given")
    for name in placed:
        _text(where, name, rest[name])
    for name, value in axes.items():
        if not isinstance(value, (str, int, float, bool)):
            raise PublishedError(f"{where}: axis.{name}={value!r}: must be a scalar")
    return Figure(**rest, axes=axes)


def _text(where: str, name: str, value: object) -> None:
    if not isinstance(value, str) or not (value.strip() or name in _MAY_BE_EMPTY):
        raise PublishedError(
            f"{where}: {name}={value!r}: must be a text{'' if name in _MAY_BE_EMPTY else ', not empty'}"
        )


def _number(where: str, name: str, value: object) -> None:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
        raise PublishedError(f"{where}: {name}={value!r}: must be a finite number")
