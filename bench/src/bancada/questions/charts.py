"""Charts that several questions draw."""

from __future__ import annotations

from collections.abc import Iterable

from bancada.questions.declare import Chart, Point
from bancada.questions.evidence import Slice
from bancada.questions.words import label
from bancada.verdicts.comparisons import SuiteRows


def times_against(suite: SuiteRows, plain: str, axis: str, lines: Iterable[tuple[str, Slice, str]]) -> Chart:
    """Times over those of `plain`, a line for each (contender, cases by the axis, its name where not the usual)."""
    points = []
    for contender, group, name in lines:
        for x, case in group.items():
            if (found := suite.compare(case, contender, plain)) is not None:
                row = str(suite.cells[case][contender]["row_id"])
                points.append(Point(row, found.ratio, found.low, found.high, x=x, label=name))
    title = f"Time against {label(suite, plain)}'s: below 1x is faster"
    return Chart("lines", title, tuple(points), unit="x", axis=axis, level=1.0)
