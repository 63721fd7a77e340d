"""Recorded runs: a run's rows kept as a baseline, and what of them stands beside a new run.

A baseline is one `.jsonl` in `reports/baselines`, rows of the usual schema without raw samples and curves: small
enough to be committed. Times of another machine are not this one's, so each recorded cell carries its speed against
the reference of its own case, measured in the same rounds: that is what can be put side by side.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bancada import rows, runs
from bancada.rows import Row
from bancada.verdicts.comparisons import SuiteRows, suites
from bancada.whole import write_whole

RAW = ("samples", "clocks_mhz")
KEPT = ("run", "cell", "pair", "contrast", "ceiling", "aa", "end")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}\Z")


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
        allowed = "up to 100 letters, digits, '.', '_' and '-', a letter or digit first"
        raise ValueError(f"name={name!r}: allowed are {allowed}")
    path = folder / f"{name}.jsonl"
    if path.name in (runs.PUBLISHED, rows.ROWS):
        raise ValueError(f"name={name!r}: {path.name} is the name of other files: take another")
    if path.exists():
        raise ValueError(
            f"name={name!r}: there is a baseline of that name already ({path.name}): take another, or delete it"
        )
    found = rows.read(run_dir / rows.ROWS).rows
    if not any(row["kind"] == "end" for row in found):
        raise ValueError(f"run={run_dir.name!r}: it did not come to its end; start its sweep again to go on with it")
    kept = [{key: value for key, value in row.items() if key not in RAW} for row in found if row["kind"] in KEPT]
    write_whole(path, rows.encoded(kept))
    return path


def folder_of(run_dir: Path) -> Path | None:
    """Where the baselines of a run's checkout are: beside the folder of runs it lies in; None where there are none."""
    found = run_dir.resolve().parent.parent / "baselines"
    return found if found.is_dir() else None


def load(folder: Path | None) -> list[Baseline]:
    """Every baseline of a folder, by name."""
    return [_load(path) for path in runs.recorded(folder)] if folder else []


def _load(path: Path) -> Baseline:
    read = rows.read(path)
    measured = [cell for suite in suites(read.rows, {}, {}) for cell in _measured(suite)]
    return Baseline(path.stem, rows.head(read.rows), measured, read.problems)


def _measured(suite: SuiteRows) -> Iterator[Row]:
    """The measured cells, each with how many times as fast as its case's reference it is, by their common rounds."""
    for case, cells in suite.cells.items():
        ok = suite.ok(case)
        reference = next((one for one in ok if cells[one].get("reference")), "")
        for one in ok:
            speed = suite.pairs.get((case, reference, one))
            told = {"speed": speed.ratio, "speed_low": speed.low, "speed_high": speed.high} if speed else {}
            yield cells[one] | told
