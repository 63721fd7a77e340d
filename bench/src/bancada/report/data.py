"""From runs to what the page needs: cells, pairs and the rest as columns, the figures of its head, the verdicts."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from bancada.compiled import ranking
from bancada.report.columns import rounded, table
from bancada.report.load import Loaded, ceilings, merged_catalogue
from bancada.report.recorded import published_figures, recorded_cells
from bancada.rows import Row, cell_key
from bancada.runs import baselines, published
from bancada.verdicts import Verdict, verdicts

MOST_SAMPLES = 60_000
"""Raw samples on a page, over all cells; beyond it a cell shows the quantiles of its samples."""
QUANTILES = 11
NOT_MEASURED = "not measured"
COMPILED = "compiled"
TOO_FAST = 1.15
"""A result above this share of a ceiling means that the work or the clock is wrong."""


def payload(
    runs: Sequence[Loaded],
    found: Sequence[Verdict],
    recorded: Sequence[baselines.Baseline] = (),
    figures: Sequence[published.Figure] = (),
    sources: Sequence[Loaded] = (),
) -> dict[str, Any]:
    """Everything the page's script reads; `sources` are the runs that `runs` were joined from, where they were."""
    cells = [cell for run in runs for cell in run_cells(run)]
    return {
        "runs": [_run(run) for run in sources or runs],
        "cells": table(cells, skip=("schema", "kind", "samples", "clocks_mhz")),
        "samples": _samples(cells),
        "pairs": table([_pair(row) for run in runs for row in run.rows if row["kind"] == "pair"]),
        "contrasts": table([_contrast(row) for run in runs for row in run.rows if row["kind"] == "contrast"]),
        "curves": [_curve(row) for run in runs for row in run.rows if row["kind"] == "curve"],
        "trials": table([_small(row) for run in runs for row in run.rows if row["kind"] == "trial"]),
        "ceilings": [_small(row) for run in runs for row in run.rows if row["kind"] == "ceiling"],
        "baselines": recorded_cells(recorded, {cell["suite"] for cell in cells}, runs),
        "published": published_figures(figures, cells),
        "catalogue": merged_catalogue(runs),
        "verdicts": [{"suite": v.suite, "run": v.run, "device": v.device} for v in found],
    }


def all_verdicts(runs: Sequence[Loaded], catalogue: dict[str, Any]) -> list[Verdict]:
    """Each run is judged for itself; the catalogue is everybody's."""
    return [verdict for run in runs for verdict in verdicts(run.rows, run.plan, catalogue)]


def run_cells(run: Loaded) -> Iterator[Row]:
    """Every cell row, then one of status `not measured` for each planned cell that has none.

    A row of a compile suite is never one of those measured: its status is `compiled`, and it knows its place.
    """
    seen = set()
    places = ranking.on_a_page(run.rows, run.catalogue)
    for row in run.rows:
        if row["kind"] == "cell":
            seen.add(cell_key(row))
            compiled = {"status": COMPILED} if row["status"] == "ok" and "time_s" not in row else {}
            yield row | compiled | places.get(row["row_id"], {})
    ended = any(row["kind"] == "end" for row in run.rows)
    reason = "the sweep ended without a row for it" if ended else "the sweep stopped before it; start it again to go on"
    known = {
        (suite["id"], contender["id"]): contender
        for suite in run.catalogue.get("suites", ())
        for contender in suite.get("contenders", ())
    }
    for cell in run.plan.get("cells", ()):
        for contender in cell["contenders"]:
            if (cell["suite"], cell["case"], contender) not in seen:
                yield _missing(run, cell, contender, known.get((cell["suite"], contender), {}), reason)


def _missing(run: Loaded, cell: dict[str, Any], contender: str, known: dict[str, Any], reason: str) -> Row:
    head = run.head
    row: Row = {
        "run": run.name,
        "row_id": "",
        "suite": cell["suite"],
        "family": cell.get("family", ""),
        "case": cell["case"],
        "contender": contender,
        "technique": known.get("technique", ""),
        "origin": known.get("origin", ""),
        "label": known.get("label") or contender,
        "reference": bool(known.get("reference", False)),
        "status": NOT_MEASURED,
        "reason": reason,
        "device": head.get("device", ""),
        "device_name": head.get("device_name", ""),
        "command": head.get("command", ""),
    }
    return row | {f"axis.{name}": value for name, value in cell.get("axes", {}).items()}


def _samples(cells: Sequence[Row]) -> dict[str, Any]:
    """Raw samples in order where all fit, else quantiles; a number of samples for each cell in any case."""
    numbers = [len(cell.get("samples") or ()) for cell in cells]
    raw = sum(numbers) <= MOST_SAMPLES
    kept = [_shown(cell.get("samples") or [], raw) for cell in cells]
    return {"raw": raw, "n": numbers, "v": kept}


def _shown(samples: list[float], raw: bool) -> list[Any]:
    if not raw and len(samples) > QUANTILES:
        cuts = statistics.quantiles(samples, n=QUANTILES - 1, method="inclusive")
        samples = [min(samples), *cuts, max(samples)]
    return [rounded(float(f"{sample:.4g}")) for sample in samples]


def _pair(row: Row) -> Row:
    names = ("run", "device", "suite", "case", "a", "b", "ratio", "low", "high", "verdict", "rounds")
    return {name: row[name] for name in names}


def _contrast(row: Row) -> Row:
    names = ("run", "device", "suite", "case", "measure", "a", "b", "difference", "low", "high", "verdict", "seeds")
    return {name: row[name] for name in names}


def _curve(row: Row) -> Row:
    """A training run's row, its lists at four significant digits."""
    names = ("schema", "kind", "time", "samples")
    return {
        name: [rounded(float(f"{number:.4g}")) for number in value] if isinstance(value, list) else rounded(value)
        for name, value in row.items()
        if name not in names
    }


def _small(row: Row) -> Row:
    return {name: rounded(value) for name, value in row.items() if name not in ("schema", "kind")}


def _run(run: Loaded) -> dict[str, Any]:
    """A run's head, foot, A/A rows and problems."""
    foot = next((row for row in reversed(run.rows) if row["kind"] == "end"), {})
    return {
        "name": run.name,
        "head": _small(run.head),
        "end": _small(foot),
        "aa": [_small(row) for row in run.rows if row["kind"] == "aa"],
        "problems": run.problems + _impossible(run),
        "sweep": run.plan.get("sweep", ""),
    }


def _impossible(run: Loaded) -> list[str]:
    """Cells above what the machine was measured to reach."""
    shares = ("compute_share", "bandwidth_share")
    return [
        f"{row['row_id']}: {row[share]:.0%} of the measured ceiling ({share}): its work or its clock is wrong"
        for row in run.rows
        if row["kind"] == "cell"
        for share in shares
        if row.get(share, 0) > TOO_FAST
    ]


MOST_DRIFT = 0.10
MOST_FALSE = 0.02
"""Beyond these a reader is warned beside the verdicts, not only in the section on trust."""


def unmeasured(runs: Iterable[Loaded]) -> set[tuple[str, ...]]:
    """(device, suite, case, contender) of every planned cell without a row."""
    cells = ((run, cell) for run in runs for cell in run_cells(run))
    return {(run.head.get("device_name", ""), *cell_key(cell)) for run, cell in cells if cell["status"] == NOT_MEASURED}


def cautions(run: Loaded, nowhere: Collection[tuple[str, ...]]) -> list[str]:
    """What should make a reader of this run's verdicts careful, in words.

    `nowhere` is `unmeasured` of the runs as the page joins them: what another of the same machine has is not missing.
    """
    found = []
    drifts = [
        one["after"] / before - 1
        for one in ceilings(run.rows).values() if "after" in one and (before := one.get("before"))
    ]  # fmt: skip
    if (drift := max(drifts, key=abs, default=0.0)) and abs(drift) > MOST_DRIFT:
        found.append(f"what this machine reaches drifted by {drift:+.0%} between the sweep's start and its end")
    races = [row for row in run.rows if row["kind"] == "aa"]
    wrong, raced = sum(row["false_verdicts"] for row in races), sum(row["comparisons"] for row in races)
    if raced and wrong / raced > MOST_FALSE:
        found.append(f"{wrong / raced:.0%} of the verdicts between identical contenders were false")
    if missing := len(unmeasured([run]).intersection(nowhere)):
        found.append(f"{missing:,} planned {'cell has' if missing == 1 else 'cells have'} no row")
    if above := len(_impossible(run)):
        found.append(f"{above} figure{'s' if above > 1 else ''} above what this machine was measured to reach")
    if problems := len(run.problems):
        found.append(f"{problems} problem{'s' if problems > 1 else ''} met when reading the rows")
    return found


@dataclasses.dataclass(frozen=True)
class Figures:
    """The head's three large figures, and what stands under them."""

    measured: int
    planned: int
    statuses: tuple[tuple[str, int], ...]
    clear: int
    suites: int
    false_verdicts: int
    comparisons: int


def figures(runs: Sequence[Loaded], found: Sequence[Verdict]) -> Figures:
    """Counts over all runs."""
    statuses: dict[str, int] = {}
    for run in runs:
        for cell in run_cells(run):
            statuses[cell["status"]] = statuses.get(cell["status"], 0) + 1
    aa = [row for run in runs for row in run.rows if row["kind"] == "aa"]
    rest = sorted(((name, number) for name, number in statuses.items() if name != "ok"), key=lambda item: -item[1])
    return Figures(
        statuses.get("ok", 0),
        sum(statuses.values()),
        tuple((name.replace("_", " "), number) for name, number in rest),
        sum(verdict.clear for verdict in found),
        sum(verdict.kind != "compiled" for verdict in found),
        sum(row["false_verdicts"] for row in aa),
        sum(row["comparisons"] for row in aa),
    )
