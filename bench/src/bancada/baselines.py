"""Recorded runs: a run's rows kept as a baseline, and what of them stands beside a new run.

A baseline is one `.jsonl` in `reports/baselines`, rows of the usual schema without raw samples and curves: small
enough to be committed. Times of another machine are not this one's, so each recorded cell carries its speed against
the reference of its own case, measured in the same rounds: that is what can be put side by side.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bancada import rows
from bancada.rows import Row

KEPT = ("run", "cell", "pair", "contrast", "ceiling", "aa", "end")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*\Z")


@dataclass(frozen=True)
class Baseline:
    """A recorded run by its name: its head and its measured cells, each with its speed against its reference."""

    name: str
    head: Row
    cells: list[Row]
    problems: list[str]


def save(run_dir: Path, name: str, folder: Path) -> Path:
    """Keeps the rows of a finished run as `FOLDER/NAME.jsonl`, and returns the path.

    Raises:
        ValueError: a name that is no plain file name, a run that is not finished, or a baseline of that name.
    """
    if not _NAME.match(name):
        raise ValueError(f"name={name!r}: allowed are letters, digits, '.', '_' and '-', a letter or digit first")
    path = folder / f"{name}.jsonl"
    if path.exists():
        raise ValueError(
            f"name={name!r}: there is a baseline of that name already ({path.name}): take another, or delete it"
        )
    found = rows.read(run_dir / "rows.jsonl").rows
    if not any(row["kind"] == "end" for row in found):
        raise ValueError(f"run={run_dir.name!r}: it did not come to its end; start its sweep again to go on with it")
    folder.mkdir(parents=True, exist_ok=True)
    kept = [{key: value for key, value in row.items() if key != "samples"} for row in found if row["kind"] in KEPT]
    unfinished = path.with_name(f".{path.name}.part")
    unfinished.unlink(missing_ok=True)
    rows.append(unfinished, kept)
    unfinished.replace(path)
    return path


def folder_of(run_dir: Path) -> Path | None:
    """Where the baselines of a run's checkout are: beside the folder of runs it lies in; None where there are none."""
    found = run_dir.resolve().parent.parent / "baselines"
    return found if found.is_dir() else None


def load(folder: Path | None) -> list[Baseline]:
    """Every baseline of a folder, by name."""
    return [_load(path) for path in sorted(folder.glob("*.jsonl"))] if folder else []


def _load(path: Path) -> Baseline:
    read = rows.read(path)
    head = next((row for row in read.rows if row["kind"] == "run"), {})
    cells = [row for row in read.rows if row["kind"] == "cell" and row["status"] == "ok"]
    pairs = {(row["suite"], row["case"], row["a"], row["b"]): row for row in read.rows if row["kind"] == "pair"}
    references = {(row["suite"], row["case"]): row["contender"] for row in cells if row.get("reference")}
    return Baseline(path.stem, head, [cell | _speed(cell, references, pairs) for cell in cells], read.problems)


def _speed(cell: Row, references: Mapping[tuple[str, str], str], pairs: Mapping[tuple[str, str, str, str], Row]) -> Row:
    """How many times as fast as its case's reference, with the interval, from their common rounds."""
    place = cell["suite"], cell["case"]
    reference = references.get(place)
    if reference is None or reference == cell["contender"]:
        return {}
    if (pair := pairs.get((*place, reference, cell["contender"]))) is not None:
        return {"speed": pair["ratio"], "speed_low": pair["low"], "speed_high": pair["high"]}
    if (pair := pairs.get((*place, cell["contender"], reference))) is not None:
        return {"speed": 1 / pair["ratio"], "speed_low": 1 / pair["high"], "speed_high": 1 / pair["low"]}
    return {}


_SHOWN = (
    "suite", "family", "case", "contender", "label", "origin", "technique", "reference", "time_s", "time_low_s",
    "time_high_s", "peak_bytes", "speed", "speed_low", "speed_high",
)  # fmt: skip


def shown(baseline: Baseline, suites: Iterable[str]) -> list[Row]:
    """The recorded cells of these suites, with the fields that the report puts beside a run's own."""
    wanted = set(suites)
    return [
        {name: cell[name] for name in _SHOWN if name in cell}
        | {name: value for name, value in cell.items() if name.startswith("measure.final.")}
        for cell in baseline.cells
        if cell["suite"] in wanted
    ]


def payload(found: Sequence[Baseline], suites: Iterable[str], table: Any) -> list[dict[str, Any]]:
    """What the page reads of each baseline that holds a cell of these suites."""
    wanted = set(suites)
    names = ("device_name", "time", "commit", "sweep", "env.cores", "env.threads", "version.torch")
    return [
        {"name": one.name, "head": {name: one.head[name] for name in names if name in one.head}, "cells": table(cells)}
        for one in found
        if (cells := shown(one, wanted))
    ]
