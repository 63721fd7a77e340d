"""The answers to the questions people ask, as the page needs them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from bancada import questions
from bancada.report.columns import rounded
from bancada.report.load import Loaded


def answered(runs: Sequence[Loaded], catalogue: dict[str, Any]) -> list[questions.Asked]:
    """Every question with what each run says to it; the catalogue is everybody's."""
    return questions.ask([one for run in runs for one in questions.gather(run.rows, run.plan, catalogue)])


def charts(asked: Sequence[questions.Asked]) -> list[dict[str, Any]]:
    """The charts of each question's answers, in the answers' order; null where an answer has none."""
    return [{"id": one.question.id, "charts": [_chart(told) for told in one.told]} for one in asked if one.told]


def _chart(told: questions.Told) -> dict[str, Any] | None:
    chart = told.answer.chart
    if chart is None:
        return None
    fields = {field.name: getattr(chart, field.name) for field in dataclasses.fields(chart)}
    return fields | {"run": told.run, "points": [_point(point) for point in chart.points]}


def _point(point: questions.Point) -> dict[str, Any]:
    """What a point says; what it leaves open is left out."""
    fields = {field.name: getattr(point, field.name) for field in dataclasses.fields(point)}
    parts = {name: rounded(value) for name, value in point.parts.items()}
    kept = {name: rounded(value) for name, value in fields.items() if value is not None and value != ""}
    return kept | {"parts": parts}
