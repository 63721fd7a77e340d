"""A row by its id: found among runs and recorded runs, with what it was compared with."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bancada import rows
from bancada.rows import Row
from bancada.runs import name_of
from bancada.runs.compare import Side, side

_IDS = re.compile(rb'"row_id":\s*"([^"\\]*)"')
MOST_NAMED = 5


@dataclass(frozen=True)
class Found:
    """A row.

    Args:
        row: the last one of that id in its run.
        of: its run.
        pairs: its case's comparisons that it is in, with it as `a`.
        others: further runs that hold a row of that id.
    """

    row: Row
    of: Side
    pairs: Sequence[Row]
    others: Sequence[str]


def find(row_id: str, files: Sequence[Path]) -> Found:
    """The row of an id, or of a prefix that only one id has, in the newest file that holds it.

    Args:
        row_id: all of it, or its beginning.
        files: the rows of runs, the newest first.

    Raises:
        ValueError: no such row (near ids, and where was searched), none that can be read, or a prefix of several ids.
    """
    ids = {path: {name.decode("utf-8", "replace") for name in _IDS.findall(path.read_bytes())} for path in files}
    everywhere = set[str]().union(*ids.values())
    meant = sorted(one for one in everywhere if one.startswith(row_id)) if row_id else []
    if row_id in meant:
        meant = [row_id]
    if not meant:
        raise _nowhere(row_id, files, everywhere)
    holders = [path for path in files if not ids[path].isdisjoint(meant)]
    if len(meant) > 1:
        raise ValueError(f"row {row_id!r}: {len(meant)} rows begin so: {_named(meant, holders)}; give more of the id")
    for place, path in enumerate(holders):
        of = side(path)
        row = next((row for row in of.cells.values() if row["row_id"] == meant[0]), None)
        if row is not None:  # a line that cannot be read may hold an id too
            return Found(row, of, _pairs(path, row), [name_of(other) for other in holders[place + 1 :]])
    where = ", ".join(name_of(path) for path in holders)
    raise ValueError(
        f"row {meant[0]!r}: in {where} no line of it can be read ({'; '.join(side(holders[0]).problems[:1])})"
    )


def _nowhere(row_id: str, files: Sequence[Path], everywhere: set[str]) -> ValueError:
    """Near ids, and where was looked."""
    searched = [name_of(path) for path in files]
    more = f" and {len(searched) - MOST_NAMED} more" if len(searched) > MOST_NAMED else ""
    where = f"searched {', '.join(searched[:MOST_NAMED]) or 'no run, for there is none'}{more}"
    near = difflib.get_close_matches(row_id, everywhere, n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else "no id is near it"
    return ValueError(f"row {row_id!r} is not known: {hint} ({where})")


def _named(ids: Sequence[str], files: Sequence[Path]) -> str:
    """The first few ids with what they are of."""
    known = {row["row_id"]: row for path in reversed(files) for row in side(path).cells.values()}
    told = [f"{one} ({known[one]['case']} {known[one]['contender']})" for one in ids[:MOST_NAMED] if one in known]
    return ", ".join(told) + (" and others" if len(ids) > MOST_NAMED else "")


def _pairs(path: Path, row: Row) -> list[Row]:
    """The comparisons of a cell with the others of its case, turned so that it is `a`."""
    turned = {"faster": "slower", "slower": "faster"}
    found: dict[str, Row] = {}
    for pair in rows.read(path).rows:
        if pair["kind"] != "pair" or (pair["suite"], pair["case"]) != (row["suite"], row["case"]):
            continue
        if pair["a"] == row["contender"]:
            found[pair["b"]] = pair
        elif pair["b"] == row["contender"]:
            ends = {"ratio": 1 / pair["ratio"], "low": 1 / pair["high"], "high": 1 / pair["low"]}
            verdict = turned.get(pair["verdict"], pair["verdict"])
            found[pair["a"]] = pair | ends | {"a": pair["b"], "b": pair["a"], "verdict": verdict}
    return list(found.values())
