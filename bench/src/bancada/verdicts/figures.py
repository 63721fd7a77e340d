"""What a kernel suite's own figures say: who is best in each, beside the reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bancada.rows import Row
from bancada.verdicts.comparisons import SuiteRows
from bancada.verdicts.phrases import names

MOST_FIGURES = 3
MOST_NAMES = 2
SAME = 0.01
"""Figures within this share of the best one share its place."""


def figures_of_its_own(suite: SuiteRows) -> tuple[str, ...]:
    """One sentence over the figures that a suite declares, at the case with most contenders; none where it has none."""
    case = max(suite.cells, key=lambda one: len(suite.ok(one)), default=None)
    if case is None or not suite.metrics:
        return ()
    cells = [suite.cells[case][one] for one in suite.ok(case)]
    said = [text for metric in suite.metrics if (text := _best(metric, cells))][:MOST_FIGURES]
    place = f" (case {case})" if len(suite.cells) > 1 else ""
    return (f"Best in its own figures{place}: {'; '.join(said)}.",) if said else ()


def _best(metric: Mapping[str, Any], cells: Sequence[Row]) -> str:
    """`KL to the dense model, int8 with 2e-05 nats`; the reference is what is compared with, and never the best."""
    name, sign = f"measure.{metric['name']}", 1 if metric["better"] == "lower" else -1
    found = [row for row in cells if name in row and not row.get("reference")]
    if len(found) < 2:
        return ""
    best = min(found, key=lambda row: sign * float(row[name]))
    value = float(best[name])
    alike = [row for row in found if abs(float(row[name]) - value) <= SAME * abs(value)]
    if len(alike) == len(found):
        return f"{metric['title']}, all alike with {say(value, metric)}"
    who = names([_label(row) for row in alike], MOST_NAMES, " and ")
    reference = next((row for row in cells if row.get("reference") and name in row), None)
    beside = f" ({_label(reference)}: {say(float(reference[name]), metric)})" if reference is not None else ""
    return f"{metric['title']}, {who} with {say(value, metric)}{beside}"


def _label(row: Row) -> str:
    return str(row.get("label") or row["contender"])


def say(value: float, metric: Mapping[str, Any]) -> str:
    """A figure with its unit, three significant digits."""
    if metric["unit"] != "bytes":
        said = f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"
        return f"{said} {metric['unit']}".rstrip()
    return say_bytes(value)


def say_bytes(value: float) -> str:
    """`3.54 MiB`: a number of bytes as people say it."""
    for size, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.0f} B"


def say_time(seconds: float) -> str:
    """`1.42 ms`: a time as people say it."""
    for size, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= size:
            return f"{_three(seconds / size)} {unit}"
    return f"{_three(seconds / 1e-9)} ns"


def _three(value: float) -> str:
    return f"{value:,.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"
