"""`index.html`: the runs of a folder, the newest first, each with what it measured and where its page and rows are."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from bancada import runs
from bancada.report import data
from bancada.report.load import load
from bancada.report.page import STYLES, environment, texts, write_page
from bancada.rows import ROWS

NAME = "index.html"
SUMMARY = "summary.json"
PAGE = "report.html"


@dataclass(frozen=True)
class Summary:
    """A run in a line: when, on what, which sweep and commit, cells measured of planned, and its A/A."""

    name: str
    time: str
    machine: str
    sweep: str
    commit: str
    measured: int
    planned: int
    failed: str
    false_verdicts: int
    comparisons: int
    finished: bool


def place_of(folder: Path) -> Path:
    """Where the index of a folder of runs stands: beside a folder named `runs`, in any other."""
    return (folder.parent if folder.name == "runs" else folder) / NAME


def write(folder: Path) -> Path:
    """Writes the index of a folder of runs, and returns its path. ModuleNotFoundError where jinja2 is missing."""
    path = place_of(folder)
    listed = [_line(one, path.parent) for one in runs.files(folder)]
    listed.sort(key=lambda line: (line["run"].time, line["run"].name), reverse=True)
    template = environment().get_template("index.html.j2")
    write_page(path, template.render(style=texts(STYLES), lines=listed))
    return path


def _line(rows: Path, beside: Path) -> dict[str, Any]:
    """A run with its links, relative to where the index stands."""
    page = rows.with_name(PAGE)
    links = {"rows": _link(rows, beside), "page": _link(page, beside) if page.is_file() else ""}
    return {"run": summary(rows.parent), **links}


def _link(path: Path, beside: Path) -> str:
    return quote(Path(os.path.relpath(path, beside)).as_posix())


def summary(run: Path) -> Summary:
    """A run's summary, kept in its folder until its rows change: an index of many runs must not read all of them."""
    path, written = run / SUMMARY, (run / ROWS).stat()
    mark = [written.st_size, written.st_mtime_ns]
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept.pop("rows") == mark:
            return Summary(**kept)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass  # none yet, or one of another version: it is made again
    made = _read(run)
    with contextlib.suppress(OSError):  # runs in a folder that only reads are listed all the same
        path.write_text(json.dumps(dataclasses.asdict(made) | {"rows": mark}), encoding="utf-8")
    return made


def _read(run: Path) -> Summary:
    found = load(run)
    figures = data.figures([found], [])
    return Summary(
        name=run.name,
        time=str(found.head.get("time", "")),
        machine=runs.machine_words(found.head),
        sweep=str(found.head.get("sweep") or found.plan.get("sweep") or "unnamed"),
        commit=str(found.head.get("commit") or "unknown"),
        measured=figures.measured,
        planned=figures.planned,
        failed=", ".join(f"{number} {name}" for name, number in figures.statuses),
        false_verdicts=figures.false_verdicts,
        comparisons=figures.comparisons,
        finished=any(row["kind"] == "end" for row in found.rows),
    )
