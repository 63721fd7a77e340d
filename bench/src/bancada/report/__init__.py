"""The report: one offline HTML page from the rows of one or more runs."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from bancada.price import check as check_price
from bancada.report import answers, data
from bancada.report.drawing import only_drawn
from bancada.report.joined import by_machine
from bancada.report.load import Loaded, load, merged_catalogue, priced
from bancada.report.page import STYLES, environment, missing, texts, write_page
from bancada.rows import ROWS
from bancada.runs import PUBLISHED, baselines, published

__all__ = ["build"]
PAGE, JOINED = "report.html", "joined.html"
SCRIPTS = (
    "core.js",
    "styles.js",
    "state.js",
    "charts.js",
    "metrics.js",
    "crossings.js",
    "lines.js",
    "costs.js",
    "tables.js",
    "spent.js",
    "maps.js",
    "regions.js",
    "summary.js",
    "equal.js",
    "csv.js",
    "detail.js",
    "outcomes.js",
    "suites.js",
    "training.js",
    "ranks.js",
    "compiled.js",
    "limits.js",
    "published.js",
    "baselines.js",
    "questions.js",
    "coverage.js",
    "trust.js",
    "app.js",
)


def build(
    runs: Sequence[Path], output: Path | None = None, recorded: Path | None = None, price: float | None = None
) -> Path:
    """Writes the report of these run folders, and returns its path.

    Args:
        runs: folders with a `rows.jsonl`, and a `plan.json` and `catalogue.json` where there are any.
        output: the file to write, its folder made where missing; by default in the last of the folders, `report.html`
            of a single run, `joined.html` of several.
        price: of a device-hour, in place of the one that a run was given.
        recorded: the folder of baselines; by default `baselines` beside the folder of runs that the last run lies in.

    Raises:
        ValueError: there is no run, one is not a run folder, or the price is no finite number above 0.
        ModuleNotFoundError: jinja2 or plotly is not installed (the extra `bancada[report]` brings them).
    """
    if not runs:
        raise ValueError("runs=[]: at least one run folder is needed")
    check_price(price)
    loaded = [load(run) for run in {Path(run).resolve(): Path(run) for run in runs}.values()]  # each counts once
    if price is not None:
        loaded = [priced(run, price) for run in loaded]
    name = PAGE if len(loaded) == 1 else JOINED  # a page of several runs must not replace one's own
    path = Path(output) if output is not None else Path(runs[-1]) / name
    kept = recorded or baselines.folder_of(Path(runs[-1]))
    figures = published.load(kept / PUBLISHED) if kept else []
    page = render(loaded, path, baselines.load(kept), figures)
    write_page(path, page)
    return path


def render(
    runs: Sequence[Loaded],
    path: Path,
    recorded: Sequence[baselines.Baseline] = (),
    figures: Sequence[published.Figure] = (),
) -> str:
    """The page as text; `path` is where it will stand, for the links to the rows."""
    template, plotly = environment().get_template("template.html.j2"), _plotly()
    shown = by_machine(runs)
    catalogue = merged_catalogue(shown)
    verdicts = data.all_verdicts(shown, catalogue)
    asked = answers.answered(shown, catalogue)
    nowhere = data.unmeasured(shown)
    return str(
        template.render(
            style=texts(STYLES),
            script=texts(SCRIPTS),
            plotly=only_drawn(plotly.get_plotlyjs()),
            payload=in_script(
                data.payload(shown, verdicts, recorded, figures, runs) | {"questions": answers.charts(asked)}
            ),
            figures=data.figures(shown, verdicts),
            verdicts=verdicts,
            asked=asked,
            runs=[_in_words(run, path, nowhere) for run in runs],
        )
    )


def in_script(value: Any) -> str:
    """JSON that may stand inside a script element: no `<` of its own can end it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _plotly() -> Any:
    try:
        import plotly.offline
    except ModuleNotFoundError as error:
        raise missing(error) from None
    return plotly.offline


def _in_words(run: Loaded, path: Path, nowhere: Collection[tuple[str, ...]]) -> dict[str, str]:
    """A run in words: its machine, when, which commit, how long, and what to be careful about."""
    head = run.head
    parts = [str(head.get("device_name") or "unknown device")]
    if cores := head.get("env.cores"):
        parts.append(f"{cores} cores")
    if threads := head.get("env.threads"):
        parts.append(f"{threads} threads")
    if memory := head.get("env.memory_bytes"):
        parts.append(f"{memory / 2**30:,.0f} GiB")
    if torch := head.get("version.torch"):
        parts.append(f"torch {torch}")
    end = next((row for row in reversed(run.rows) if row["kind"] == "end"), None)
    rows = os.path.relpath(run.folder / ROWS, path.parent)
    return {
        "name": run.name,
        "machine": ", ".join(parts),
        "date": _date(str(head.get("time", ""))),
        "commit": str(head.get("commit") or "unknown")[:12],
        "took": f"took {_duration(float(end['wall_s']))}" if end else "not finished",
        "sweep": str(head.get("sweep") or run.plan.get("sweep") or "unnamed"),
        "rows": Path(rows).as_posix(),
        "cautions": "; ".join(data.cautions(run, nowhere)),
    }


def _date(text: str) -> str:
    try:
        return datetime.fromisoformat(text).strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return text or "undated"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
