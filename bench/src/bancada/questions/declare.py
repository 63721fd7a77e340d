"""What a question is: how people put it, which rows it needs, and what it makes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from bancada.questions.evidence import Evidence, Lacking

Kind = Literal["lines", "bars", "scatter", "curves"]


@dataclass(frozen=True)
class Point:
    """One mark of a chart, and the row it comes from.

    Args:
        row: the id of a cell row: it gives the name and the colour, and opens on a click.
        y: the figure, with its interval where there is one.
        x: `lines`: the value of the chart's axis; `scatter`: the other figure, with its interval.
        parts: `bars`: the share of each kind, by the names of the chart's `parts`.
        label: what stands beside it where the row's own label is not enough.
    """

    row: str
    y: float = 0.0
    low: float | None = None
    high: float | None = None
    x: Any = None
    x_low: float | None = None
    x_high: float | None = None
    parts: Mapping[str, float] = field(default_factory=dict)
    label: str = ""


@dataclass(frozen=True)
class Chart:
    """What is drawn beside an answer.

    Args:
        kind: `lines` over an axis of the suite (dots where one value of it was measured), stacked `bars`, a
            `scatter` of two figures, or the learning `curves` of the rows' training runs.
        title: what it shows.
        unit: of y: `s`, `bytes`, `x` (a ratio), or a word (`calls`, `nats`).
        axis: `lines`: the name of the axis; `curves`: `updates` or `seconds`; `scatter`: what x is.
        x_unit: `scatter`: of x.
        level: a value of y at which a line is drawn, such as 1 for a ratio.
        linear: whether y stands on a linear scale; times, bytes and ratios stand on a logarithmic one.
        parts: `bars`: (name, title) of each kind, in order.
        better: which way is better in (x, y), for `scatter`.
    """

    kind: Kind
    title: str
    points: tuple[Point, ...]
    unit: str = ""
    axis: str = ""
    x_unit: str = ""
    level: float | None = None
    linear: bool = False
    parts: tuple[tuple[str, str], ...] = ()
    better: tuple[str, str] = ("lower", "lower")


@dataclass(frozen=True)
class Answer:
    """What one run's rows say to a question.

    Args:
        sentence: the answer, with figures, intervals and units.
        why: the mechanism, as the rows show it.
        rows: the ids of the cell rows it rests on.
        turns: where the answer changes, or that it does not between the sizes measured.
        open: what these rows cannot tell.
    """

    sentence: str
    why: str
    rows: tuple[str, ...]
    chart: Chart | None = None
    turns: str = ""
    open: str = ""


@dataclass(frozen=True)
class Question:
    """A question that people ask again and again, answered from rows alone.

    Args:
        id: of its place in the page.
        text: as people put it.
        sources: where it was asked.
        suites: whose rows it needs.
        measure: what `bancada sweep` is told to measure them.
        answer: None where the rows it needs are not there; it raises `Lacking` where one lacks a field it needs.
    """

    id: str
    text: str
    sources: str
    suites: tuple[str, ...]
    measure: str
    answer: Callable[[Evidence], Answer | None] = field(repr=False)

    def put(self, evidence: Evidence) -> Answer | None:
        """The answer of these rows; None where they do not hold what it needs."""
        try:
            return self.answer(evidence)
        except Lacking:
            return None

    @property
    def command(self) -> str:
        """The command that measures what it needs."""
        return f"python -m bancada sweep {self.measure}"
