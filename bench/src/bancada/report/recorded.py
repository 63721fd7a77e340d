"""What stands beside a page's own figures, drawn apart from them: recorded runs, and figures from papers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from bancada.report.columns import rounded, table
from bancada.report.load import Loaded
from bancada.rows import Row, cell_key
from bancada.runs import identity, published
from bancada.runs.baselines import Baseline
from bancada.runs.compare import Compared, Side, cells_of, compare

_HEAD = ("device_name", "time", "commit", "sweep", "env.cores", "env.threads", "version.torch")
_KEPT = (
    "suite", "family", "case", "contender", "label", "origin", "technique", "reference", "time_s", "time_low_s",
    "time_high_s", "peak_bytes", "speed", "speed_low", "speed_high",
)  # fmt: skip


def recorded_cells(
    found: Sequence[Baseline], suites: Collection[str], runs: Sequence[Loaded] = ()
) -> list[dict[str, Any]]:
    """Of each baseline that holds a cell of these suites: whence it is, and what stands beside a run's own cells.

    A cell that one of `runs` measured too, on the same machine, carries the ratio of the times, here over recorded,
    with its interval and what it says (`ratio`, `ratio_low`, `ratio_high`, `says`); `compared` counts what they say.
    """
    return [
        _recorded(one, cells, runs) for one in found if (cells := [row for row in one.cells if row["suite"] in suites])
    ]


def _recorded(one: Baseline, cells: Sequence[Row], runs: Sequence[Loaded]) -> dict[str, Any]:
    compared = _compared(one, runs)
    ratios = {cell_key(change.after): change.times for change in compared.changes} if compared else {}
    shown = []
    for cell in cells:
        kept = {name: value for name, value in cell.items() if name in _KEPT or name.startswith("measure.final.")}
        if (ratio := ratios.get(cell_key(cell))) is not None:
            ends = {"ratio": ratio.ratio, "ratio_low": ratio.low, "ratio_high": ratio.high}
            kept |= ends | {"says": {"tie": "level", "open": "not decided"}.get(ratio.outcome, ratio.outcome)}
        shown.append(kept)
    head = {name: one.head[name] for name in _HEAD if name in one.head}
    return {"name": one.name, "head": head, "cells": table(shown)} | (
        {"compared": _counts(compared)} if compared else {}
    )


def _compared(one: Baseline, runs: Sequence[Loaded]) -> Compared | None:
    """The first run of the same machine against a baseline; None where there is none, or none that shares a cell."""
    before = Side(one.name, one.head, {cell_key(row): row for row in one.cells}, ())
    for run in runs:
        after = Side(run.name, run.head, cells_of(run.rows), ())
        if one.head and identity(run.head) == identity(one.head) and not before.cells.keys().isdisjoint(after.cells):
            return compare(before, after)
    return None


def _counts(found: Compared) -> dict[str, Any]:
    counted = Counter(change.times.outcome for change in found.changes)
    told = {"slower": counted["slower"], "faster": counted["faster"], "level": counted["tie"], "open": counted["open"]}
    return told | {"controls": found.controls, "widening": rounded(found.widening), "run": found.b.name}


def published_figures(found: Sequence[published.Figure], cells: Sequence[Row]) -> dict[str, Any]:
    """The published figures that concern the families at hand, and the architecture of each device at hand."""
    families = {str(cell["family"]) for cell in cells}
    devices = {str(cell["device_name"]): published.device_family(str(cell["device_name"])) for cell in cells}
    return {
        "figures": [_figure(one) for one in found if one.family in families],
        "devices": {name: family for name, family in devices.items() if family},
    }


def _figure(one: published.Figure) -> dict[str, Any]:
    fields = {name: getattr(one, name) for name in ("family", "technique", "system", "what", "value", "unit", "device")}
    fields |= {"source": one.source, "note": one.note, "device_family": one.device_family}
    if one.high is not None:
        fields["high"] = one.high
    if one.suite:
        fields |= {"suite": one.suite, "measure": one.measure, "scale": one.scale, "axes": dict(one.axes)}
    return fields
