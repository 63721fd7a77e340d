"""Runs by name: where they are, and on which machine they were measured."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bancada.registry import unknown
from bancada.rows import ROWS

IDENTITY = ("device", "device_name", "env.cores", "env.threads")
"""What makes two runs of one machine: its device, not its clock, its driver or the day."""
PUBLISHED = "published.jsonl"
"""The one file among the baselines that holds no run: figures from papers."""


def newest(folder: Path) -> Path:
    """The run of a folder that was written to last; ValueError where there is none."""
    found = files(folder)
    if not found:
        raise ValueError(f"there is no run in {folder} yet: `python -m bancada sweep` makes one")
    return found[0].parent


def run_dir(name: str, folder: Path) -> Path:
    """A run's folder from its path or its name in `folder`; ValueError with near names where there is none."""
    for path in (Path(name), folder / name):
        if _is_file(path / ROWS):
            return path
    raise unknown("run", name, names(folder))


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name longer than the system allows names nothing either
        return False


def names(folder: Path) -> list[str]:
    """The runs of a folder, the oldest first."""
    return sorted(path.parent.name for path in folder.glob(f"*/{ROWS}"))


def recorded(folder: Path) -> list[Path]:
    """The recorded runs of a folder of baselines, by name."""
    return sorted(path for path in folder.glob("*.jsonl") if path.name != PUBLISHED)


def rows_file(name: str, folder: Path, baselines: Path) -> Path:
    """The rows of a run (its path, or its name), or of a baseline (the same); ValueError with near names."""
    for path in (Path(name) / ROWS, folder / name / ROWS, Path(name), baselines / f"{name}.jsonl"):
        if _is_file(path) and path.name != PUBLISHED:
            return path
    raise unknown("run or baseline", name, [*names(folder), *(path.stem for path in recorded(baselines))])


def baseline_file(name: str, baselines: Path) -> Path:
    """The rows of a recorded run by its name; ValueError with near names where there is none."""
    path = baselines / f"{name}.jsonl"
    if path not in recorded(baselines):
        raise unknown("baseline", name, [one.stem for one in recorded(baselines)])
    return path


def name_of(path: Path) -> str:
    """The name of the run or the baseline whose rows stand in this file."""
    return path.resolve().parent.name if path.name == ROWS else path.stem


def files(folder: Path, baselines: Path | None = None) -> list[Path]:
    """The rows of every run, the newest first, then those of every baseline where their folder is given."""
    found = sorted(folder.glob(f"*/{ROWS}"), key=lambda path: path.stat().st_mtime, reverse=True)
    return found + (recorded(baselines) if baselines else [])


def identity(head: Mapping[str, Any]) -> tuple[Any, ...]:
    """What tells a run's machine from others, of its `run` row."""
    return tuple(head.get(name) for name in IDENTITY)


def machine_words(head: Mapping[str, Any]) -> str:
    """`AMD EPYC (2 cores, 2 threads)`: a run's machine as people say it."""
    name = str(head.get("device_name") or "an unknown device")
    if head.get("device") != "cpu":
        return name
    told = [f"{head[f'env.{what}']} {what}" for what in ("cores", "threads") if head.get(f"env.{what}")]
    return f"{name} ({', '.join(told)})" if told else name
