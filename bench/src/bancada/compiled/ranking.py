"""Which configurations are worth a run on the GPU: those that no other beats in everything the compiler tells.

A dominates B where, of the same kernel, target and sizes, A is nowhere worse than B in the suite's metrics and
somewhere better, each taken at two significant digits: smaller differences of such counts decide nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bancada.rows import Row

Metrics = Sequence[Mapping[str, Any]]
"""As a catalogue holds them: `name`, `better` and what else there is."""
_MARGIN = ".2g"


@dataclass(frozen=True)
class Place:
    """Where a configuration stands among those of its group.

    Args:
        rank: from 1; those that nobody dominates come first.
        dominated_by: the row id of the best-placed configuration that dominates it, or ''.
    """

    rank: int
    dominated_by: str


def groups(rows: Iterable[Row], configuration: Sequence[str]) -> list[list[Row]]:
    """A suite's compiled rows by all that they have in common but the configuration: run, contender, other axes."""
    chosen = {f"axis.{name}" for name in configuration}
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        axes = tuple(sorted((name, value) for name, value in row.items()
                            if name.startswith("axis.") and name not in chosen))  # fmt: skip
        found.setdefault((row["run"], row["contender"], axes), []).append(row)
    return list(found.values())


def placed(rows: Iterable[Row], configuration: Sequence[str], metrics: Metrics) -> dict[str, Place]:
    """The place of each of a suite's rows of status `ok`, by row id."""
    found: dict[str, Place] = {}
    for group in groups((row for row in rows if row["status"] == "ok"), configuration):
        best = {row["row_id"]: _figures(row, metrics) for row in group}
        order = sorted(group, key=lambda row: best[row["row_id"]])
        over = {
            row["row_id"]: next((other["row_id"] for other in order if _beats(best, other, row)), "") for row in order
        }
        order.sort(key=lambda row: bool(over[row["row_id"]]))
        found |= {row["row_id"]: Place(rank, over[row["row_id"]]) for rank, row in enumerate(order, 1)}
    return found


def _figures(row: Row, metrics: Metrics) -> tuple[float, ...]:
    """A row's metrics, such that less is better, at two digits; one that is missing is worst."""
    return tuple(
        float(format(row[f"measure.{one['name']}"] * (1 if one["better"] == "lower" else -1), _MARGIN))
        if f"measure.{one['name']}" in row
        else float("inf")
        for one in metrics
    )


def _beats(best: Mapping[str, tuple[float, ...]], a: Row, b: Row) -> bool:
    first, second = best[a["row_id"]], best[b["row_id"]]
    return first != second and all(x <= y for x, y in zip(first, second, strict=True))


def on_a_page(rows: Iterable[Row], catalogue: Mapping[str, Any]) -> dict[str, Row]:
    """What the report shows beside a compiled row, by row id: its `rank`, and the name of what dominates it."""
    every = [row for row in rows if row["kind"] == "cell"]
    found: dict[str, Row] = {}
    for suite in catalogue.get("suites", ()):
        if not suite.get("configuration"):
            continue
        mine = [row for row in every if row["suite"] == suite["id"]]
        names = {row["row_id"]: row.get("note.configuration", row["case"]) for row in mine}
        for row_id, place in placed(mine, suite["configuration"], suite.get("metrics", ())).items():
            found[row_id] = {"rank": place.rank, "dominated_by": names.get(place.dominated_by, "")}
    return found
