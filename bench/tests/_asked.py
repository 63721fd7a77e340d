"""Made-up rows for questions: contenders at one case with their times, raced, and what else their rows carry."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import _synthetic_kinds as kinds

from bancada.questions import Answer, Evidence, Question, gather
from bancada.rows import Row, validate

Fields = Mapping[str, Mapping[str, Any]]


def case_of(axes: Mapping[str, Any]) -> str:
    return "-".join(f"{name}{value}" for name, value in axes.items())


def raced(
    suite: str,
    axes: Mapping[str, Any],
    times: Mapping[str, float],
    technique: Mapping[str, str],
    *,
    reference: str,
    ours: Iterable[str] = (),
    noise: float = 0.02,
    fields: Fields | None = None,
) -> list[Row]:
    """A cell row for each contender of a case, and a comparison of every two; `noise` is a half-width of ratios."""
    case, family, fields = case_of(axes), suite.partition(".")[0], fields or {}
    rows = []
    for one, time in times.items():
        who = {"contender": one, "label": one, "technique": technique[one], "reference": one == reference}
        who["origin"] = "bancada" if one in set(ours) else "peer"
        timing = {"time_s": time, "time_low_s": time * (1 - noise), "time_high_s": time * (1 + noise), "rounds": 30}
        rows.append(kinds._cell(suite, family, case, axes, who) | timing | dict(fields.get(one, {})))
    pairs = itertools.combinations(times, 2)
    return rows + [kinds._pair(suite, case, a, b, times[a] / times[b], noise) for a, b in pairs]


def contrast(
    suite: str,
    axes: Mapping[str, Any],
    measure: str,
    a: str,
    b: str,
    difference: float,
    half: float,
    better: str = "lower",
) -> Row:
    """What the seeds say of a against b."""
    low, high = difference - half, difference + half
    sign = 1 if better == "lower" else -1
    best, worst = sorted((sign * low, sign * high))
    verdict = "better" if worst < 0 else "worse" if best > 0 else "too close to call"
    fields = {"kind": "contrast", "suite": suite, "case": case_of(axes), "measure": measure, "a": a, "b": b, "seeds": 3}
    ends = {"difference": difference, "low": low, "high": high, "verdict": verdict, "device": "cpu"}
    return kinds.COMMON | fields | ends


def ceiling(value: float) -> Row:
    fields = {"kind": "ceiling", "name": "matmul", "dtype": "fp32", "when": "before", "value": value, "device": "cpu"}
    return kinds.COMMON | fields


def evidence(rows: Sequence[Row], catalogue: Mapping[str, Any] | None = None) -> Evidence:
    """What one run of these rows is; every row fits the schema."""
    for row in rows:
        validate(row)
    [found] = gather(rows, {}, catalogue or {})
    return found


def answer(question: Question, rows: Sequence[Row], catalogue: Mapping[str, Any] | None = None) -> Answer:
    """The answer, of which every point of the chart names one of the rows it rests on."""
    found = question.answer(evidence(rows, catalogue))
    assert found is not None
    assert found.rows and len(set(found.rows)) == len(found.rows)
    known = {row["row_id"] for row in rows if row["kind"] == "cell"}
    assert set(found.rows) <= known
    assert found.chart is None or {point.row for point in found.chart.points} <= known
    for text in (found.sentence, found.why, found.turns, found.open):
        assert "None" not in text and "nan" not in text and "  " not in text, text
    return found
