"""The rows a sweep writes: `rows.jsonl`, one JSON object a line, scalars only (raw samples capped).

Schema version 1. The kinds of row:

`run`      the head: environment (`env.*`), versions (`version.*`), sweep, command.
`cell`     one contender at one case: a status, the measures, the errors, how to measure it again.
`pair`     two contenders of one case, compared round by round: ratio of times a/b, interval, verdict; `confidence`
           is that of the interval (rows without it: 98%).
`trial`    one point of a contender's search space, tried in tuning: what it reached, and what it cost.
`curve`    one training run of one contender from one seed: losses and metrics along the way.
`contrast` two contenders' outcomes at one case over the seeds: difference a - b, interval, verdict.
`ceiling`  what this machine reaches: `matmul` in FLOP/s, `copy` in bytes/s, by dtype, before and after.
`aa`       identical contenders raced: how many comparisons, how many false verdicts.
`end`      the foot: how long the parts took.

A cell of status `unstable` was measured, but did not keep its place through the race (see `stability`): its times
stand, and nobody is compared with it. `drift_share` is how much longer its last third of rounds took than its first.
Where `isolate` is `process`, each sample is the median of a block of `block_rounds` rounds in a process of its own.
On a GPU `time_s` is the device's own, caches cold; `warm_s` with warm caches, `host_s` by the host's clock to the end.
`energy_j` is the whole device's for one call; `clocks_mhz` its clock before each round, `slowed_by` what held it down.

A cell of a compile suite was compiled and never timed: it has no `time_s`, but `measure.compile_s` and what the
compiler told (`measure.registers`, `measure.resident_warps`, ...; see `bancada.compiled.item`).

Units are in the names: `_s` seconds, `_bytes` bytes, `_flops` operations. A row that does not fit is
never written; a row that cannot be read is told and skipped, and the others are kept. Rows of an older
schema are read through `UPGRADES`.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROWS, PARTS = "rows.jsonl", "parts.jsonl"
"""Files of a run's folder: its rows, and the seconds that its parts took."""

SCHEMA = 1
STATUSES = ("ok", "unsupported", "incorrect", "out_of_memory", "timeout", "crashed", "unstable")
VERDICTS = ("faster", "slower", "too close to call")
OUTCOMES = ("better", "worse", "too close to call")
MOST_SAMPLES = 200
LONGEST_TEXT = 4_000

Row = dict[str, Any]

_COMMON: dict[str, tuple[type, ...]] = {"schema": (int,), "kind": (str,), "run": (str,), "time": (str,)}
_REQUIRED: dict[str, dict[str, tuple[type, ...]]] = {
    "run": {"sweep": (str,), "command": (str,), "commit": (str,), "device": (str,), "device_name": (str,)},
    "cell": {
        "row_id": (str,), "suite": (str,), "family": (str,), "case": (str,), "contender": (str,), "technique": (str,),
        "origin": (str,), "status": (str,), "reason": (str,), "device": (str,), "device_name": (str,),
        "threads": (int,), "driver": (str,), "commit": (str,), "versions": (str,), "command": (str,),
    },
    "pair": {
        "suite": (str,), "case": (str,), "a": (str,), "b": (str,), "ratio": (float, int), "low": (float, int),
        "high": (float, int), "verdict": (str,), "rounds": (int,), "device": (str,),
    },
    "trial": {
        "suite": (str,), "case": (str,), "contender": (str,), "trial": (int,), "seed": (int,), "status": (str,),
        "reason": (str,), "updates": (int,), "seconds": (float, int), "device": (str,),
    },
    "curve": {
        "suite": (str,), "case": (str,), "contender": (str,), "seed": (int,), "status": (str,), "reason": (str,),
        "updates": (list,), "seconds": (list,), "train": (list,), "evaluated": (list,), "device": (str,),
    },
    "contrast": {
        "suite": (str,), "case": (str,), "a": (str,), "b": (str,), "measure": (str,), "difference": (float, int),
        "low": (float, int), "high": (float, int), "verdict": (str,), "seeds": (int,), "device": (str,),
    },
    "ceiling": {"name": (str,), "dtype": (str,), "when": (str,), "value": (float, int), "device": (str,)},
    "aa": {"suite": (str,), "case": (str,), "comparisons": (int,), "false_verdicts": (int,), "device": (str,)},
    "end": {"wall_s": (float, int)},
}  # fmt: skip
MEASURES: dict[str, tuple[type, ...]] = {
    "time_s": (float, int), "time_low_s": (float, int), "time_high_s": (float, int), "rounds": (int,), "loops": (int,),
    "build_s": (float, int), "first_call_s": (float, int), "peak_bytes": (int,), "host_peak_bytes": (int,),
    "flops": (float, int), "bytes": (float, int), "flops_per_s": (float, int), "bytes_per_s": (float, int),
    "compute_share": (float, int), "bandwidth_share": (float, int), "drift_share": (float, int),
    "energy_j": (float, int), "clock_mhz": (float, int), "clock_low_mhz": (float, int), "clock_high_mhz": (float, int),
    "temperature_c": (float, int), "slowed_by": (str,), "clocks_mhz": (list,),
    "isolate": (str,), "block_rounds": (int,), "warm_s": (float, int), "host_s": (float, int),
    "error_max": (float, int), "error_rel": (float, int), "grad_error_max": (float, int),
    "grad_error_rel": (float, int), "error_limit_share": (float, int), "precision": (str,),
    "backend": (str,), "label": (str,), "reference": (bool,), "samples": (list,),
}  # fmt: skip
_OPEN_PREFIXES = ("axis.", "error.", "measure.", "env.", "version.", "note.", "hyper.")
_POSITIVE = {"cell": ("time_s", "time_low_s", "time_high_s"), "pair": ("ratio", "low", "high")}
_LISTS = ("samples", "clocks_mhz", "updates", "seconds", "train", "evaluated")


UPGRADES: dict[int, Callable[[Row], Row]] = {}
"""By schema version, what makes a row of it one of the next. Whoever raises `SCHEMA` adds the step: rows that were
measured stay readable. New kinds and fields that may be missing need neither."""


class RowError(ValueError):
    """A row that does not fit the schema."""


def upgraded(row: Row) -> Row:
    """A row of an older version as one of this version; RowError for one that no step leads from, or a newer one."""
    version = row.get("schema")
    while isinstance(version, int) and not isinstance(version, bool) and version < SCHEMA:
        if version not in UPGRADES:
            raise RowError(f"schema={version}: too old: read are {min(UPGRADES, default=SCHEMA)} to {SCHEMA}")
        try:
            row, version = UPGRADES[version](row) | {"schema": version + 1}, version + 1
        except (KeyError, TypeError, ValueError) as error:
            raise RowError(f"schema={version}: its row lacks what its version has: {error!r}") from None
    if isinstance(version, int) and version > SCHEMA:
        raise RowError(f"schema={version}: written by a newer Bancada; this one reads up to {SCHEMA}")
    return row


def validate(row: Mapping[str, Any]) -> None:
    """RowError where `row` does not fit schema 1: its message names the field, its value and what is allowed."""
    kind = row.get("kind")
    if not isinstance(kind, str) or kind not in _REQUIRED:
        raise RowError(f"kind={kind!r}: allowed are {', '.join(_REQUIRED)}")
    if row.get("schema") != SCHEMA:
        raise RowError(f"schema={row.get('schema')!r}: this is schema {SCHEMA}")
    required = _COMMON | _REQUIRED[kind]
    for name, types in required.items():
        if name not in row:
            raise RowError(f"{kind} row lacks {name}")
        _check_type(name, row[name], types)
    for name, value in row.items():
        if isinstance(value, list) and (name in _LISTS or name.startswith("metric.")):
            _check_numbers(name, value)
            _check_type(name, value, required.get(name, (list,)))
        elif name in MEASURES:
            _check_type(name, value, MEASURES[name])
        elif name.startswith(("measure.", "error.")):
            _check_type(name, value, (float, int))
        elif not isinstance(value, (str, int, float, bool)) and value is not None:
            raise RowError(f"{name}={value!r}: rows hold scalars only")
        elif name not in required and kind == "cell" and not name.startswith(_OPEN_PREFIXES):
            raise RowError(f"{name}: no such field in schema {SCHEMA}")
        if not _finite(value):
            raise RowError(f"{name}={value!r}: a number must be finite (leave it out, and say why in the status)")
        if name in _POSITIVE.get(kind, ()) and value <= 0:
            raise RowError(f"{name}={value!r}: must be above 0")
    _check_words(row)


def _check_words(row: Mapping[str, Any]) -> None:
    kind = row["kind"]
    if kind in ("cell", "trial", "curve"):
        if row["status"] not in STATUSES:
            raise RowError(f"status={row['status']!r}: allowed are {', '.join(STATUSES)}")
        if row["status"] != "ok" and not row["reason"]:
            raise RowError(f"a {kind} of status {row['status']} needs a reason")
    if kind == "cell" and row["status"] == "ok" and not {"time_s", "measure.compile_s"} & set(row):
        raise RowError("a cell of status ok needs time_s (of a compile suite: measure.compile_s)")
    if (allowed := {"pair": VERDICTS, "contrast": OUTCOMES}.get(kind)) and row["verdict"] not in allowed:
        raise RowError(f"verdict={row['verdict']!r}: allowed are {', '.join(allowed)}")


def _check_type(name: str, value: object, types: tuple[type, ...]) -> None:
    if (isinstance(value, bool) and bool not in types) or not isinstance(value, types):
        raise RowError(f"{name}={value!r}: must be {' or '.join(kind.__name__ for kind in types)}")


def _check_numbers(name: str, values: list[object]) -> None:
    if len(values) > MOST_SAMPLES:
        raise RowError(f"{name}: must be a list of at most {MOST_SAMPLES} numbers")
    if not all(isinstance(value, (int, float)) and _finite(value) for value in values):
        raise RowError(f"{name}: must be finite numbers")


def _finite(value: object) -> bool:
    """Whether a value is no number, or one that a float can hold."""
    try:
        return not isinstance(value, (int, float)) or math.isfinite(value)
    except OverflowError:
        return False


def encoded(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Rows as lines of a file; RowError where one does not fit."""
    lines = []
    for row in rows:
        row = {name: value[:LONGEST_TEXT] if isinstance(value, str) else value for name, value in row.items()}
        validate(row)
        lines.append(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")
    return "".join(lines).encode()


def append(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Validates every row, then appends all with a single write: they stand in the file together or not at all."""
    data = encoded(rows)
    if not data:
        return
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        size = os.fstat(descriptor).st_size
        if (
            size and os.pread(descriptor, 1, size - 1) != b"\n"
        ):  # a line cut short by a kill: close it, so that it spoils no other
            data = b"\n" + data
        written = os.write(descriptor, data)
        if written != len(data):
            raise OSError(f"{path}: wrote {written} of {len(data)} bytes")
    finally:
        os.close(descriptor)


@dataclass(frozen=True)
class Read:
    """What a rows file held: the rows that fit, and a message for each line that did not."""

    rows: list[Row]
    problems: list[str]


def cell_key(row: Mapping[str, Any]) -> tuple[str, str, str]:
    """(suite, case, contender) of a row of a contender."""
    return row["suite"], row["case"], row["contender"]


def cells(found: Iterable[Row]) -> set[tuple[str, str, str]]:
    """(suite, case, contender) of every cell among rows."""
    return {cell_key(row) for row in found if row["kind"] == "cell"}


def head(found: Sequence[Row]) -> Row:
    """The `run` row among a run's rows, the last where there are several; empty where there is none."""
    return next((row for row in reversed(found) if row["kind"] == "run"), {})


def read(path: Path) -> Read:
    """Every row of the file that fits; what does not is told, by line, and loses nothing else."""
    rows: list[Row] = []
    problems: list[str] = []
    lines = path.read_bytes().split(b"\n") if path.exists() else []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            if not isinstance(row, dict):
                raise RowError("not an object")
            row = upgraded(row)
            validate(row)
        except RowError as error:
            problems.append(f"{path.name}: line {number}: {error}: skipped")
        except (ValueError, RecursionError):
            where = "the last line, cut short" if number == len(lines) else f"line {number}, not JSON"
            problems.append(f"{path.name}: {where}: dropped")
        else:
            rows.append(row)
    return Read(rows, problems)
