"""Run folders as a sweep leaves them: rows, plan and catalogue, with a message for whatever is missing or broken."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bancada import rows as schema
from bancada.price import FIELD as PRICE
from bancada.rows import Row


@dataclass(frozen=True)
class Loaded:
    """One run: its rows with the last of each cell kept, its plan and catalogue (empty where there are none)."""

    folder: Path
    rows: list[Row]
    plan: dict[str, Any]
    catalogue: dict[str, Any]
    problems: list[str] = field(default_factory=list)

    @property
    def head(self) -> Row:
        """The `run` row; empty where the run has none."""
        return schema.head(self.rows)

    @property
    def name(self) -> str:
        """The run's id as its rows give it, else the folder's name."""
        return next((str(row["run"]) for row in self.rows), self.folder.name)


def load(folder: Path) -> Loaded:
    """Reads a run folder; ValueError where it is not one."""
    if not folder.is_dir():
        raise ValueError(f"run={str(folder)!r}: no such folder; a run is a folder with a rows.jsonl")
    if not (folder / schema.ROWS).exists():
        raise ValueError(f"run={str(folder)!r}: it holds no rows.jsonl; a run is a folder with a rows.jsonl")
    read = schema.read(folder / schema.ROWS)
    problems = list(read.problems)
    plan = _json(folder / "plan.json", problems, "cells that were planned but never reached cannot be told")
    catalogue = _json(folder / "catalogue.json", problems, "titles, axes and technique cards are missing")
    return Loaded(folder, [judged(row) for row in rated(latest(read.rows))], plan, catalogue, problems)


def priced(run: Loaded, price: float) -> Loaded:
    """The same run at another price of a device-hour."""
    return replace(run, rows=[row | {PRICE: price} if row["kind"] == "run" else row for row in run.rows])


def _json(path: Path, problems: list[str], loss: str) -> dict[str, Any]:
    if not path.exists():
        problems.append(f"{path.name}: not in the run's folder: {loss}")
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        problems.append(f"{path.name}: cannot be read ({error}): {loss}")
        return {}
    if not isinstance(found, dict):
        problems.append(f"{path.name}: not an object: {loss}")
        return {}
    return found


def latest(rows: Sequence[Row]) -> list[Row]:
    """A cell or pair that a resumed sweep measured twice counts once: the last time."""
    last: dict[tuple[Any, ...], int] = {}
    for number, row in enumerate(rows):
        last[_identity(row, number)] = number
    kept = set(last.values())
    return [row for number, row in enumerate(rows) if number in kept]


def ceilings(rows: Sequence[Row]) -> dict[tuple[str, str], dict[str, float]]:
    """What was measured to be reached, by (name, dtype), `before` and `after` the sweep."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows:
        if row["kind"] == "ceiling":
            found.setdefault((row["name"], row["dtype"]), {})[row["when"]] = float(row["value"])
    return found


def rated(rows: Sequence[Row]) -> list[Row]:
    """Shares of the better of the ceilings before and after the sweep; as they were measured, of the one before."""
    lower = {
        dtype: values["before"] / max(values.values())
        for (name, dtype), values in ceilings(rows).items() if name == "matmul" and "before" in values
    }  # fmt: skip
    return [
        row | {"compute_share": row["compute_share"] * lower.get(row.get("axis.dtype", ""), 1.0)}
        if row["kind"] == "cell" and "compute_share" in row else row
        for row in rows
    ]  # fmt: skip


def judged(row: Row) -> Row:
    """A row of a suite that judges for itself hands over the share of what it allows: that is no error beside it."""
    if "error_max" not in row or row["error_max"] != row.get("error_limit_share"):
        return row
    errors = ("error_max", "error_rel", *(name for name in row if name.startswith("error.")))
    return {name: value for name, value in row.items() if name not in errors}


def _identity(row: Row, number: int) -> tuple[Any, ...]:
    if row["kind"] == "cell":
        return "cell", row["run"], row["device"], row["suite"], row["case"], row["contender"]
    if row["kind"] == "pair":
        return "pair", row["run"], row["device"], row["suite"], row["case"], *sorted((row["a"], row["b"]))
    if row["kind"] == "contrast":
        place = row["run"], row["device"], row["suite"], row["case"], row["measure"]
        return "contrast", *place, *sorted((row["a"], row["b"]))
    if row["kind"] in ("curve", "trial"):
        number_of_it = row["seed"] if row["kind"] == "curve" else row["trial"]
        return row["kind"], row["run"], row["device"], row["suite"], row["case"], row["contender"], number_of_it
    if row["kind"] == "ceiling":
        return "ceiling", row["run"], row["device"], row["name"], row["dtype"], row["when"]
    return row["kind"], number


def merged_catalogue(runs: Sequence[Loaded]) -> dict[str, Any]:
    """The catalogues of several runs as one: the first that names a technique, suite or contender describes it."""
    techniques: dict[str, Any] = {}
    suites: dict[str, Any] = {}
    for run in runs:
        for technique in run.catalogue.get("techniques", ()):
            techniques.setdefault(technique["id"], technique)
        for suite in run.catalogue.get("suites", ()):
            known = suites.setdefault(suite["id"], suite | {"contenders": []})
            ids = {contender["id"] for contender in known["contenders"]}
            known["contenders"] = known["contenders"] + [c for c in suite.get("contenders", ()) if c["id"] not in ids]
    return {"techniques": list(techniques.values()), "suites": list(suites.values())}
