"""Which configurations are worth a run: the order, what dominates what, and that it turns with the figures."""

from __future__ import annotations

import dataclasses
from typing import Any

import _planted_compiled as planted
import pytest
from _compiled_rows import row
from hypothesis import given
from hypothesis import strategies as st

from bancada import rows
from bancada.compiled.declare import CRITERIA
from bancada.compiled.ranking import Place, on_a_page, placed

SUITE = planted.suite(planted.SOUND)
METRICS = [dataclasses.asdict(metric) for metric in SUITE.metrics]


def judge(found: list[rows.Row]) -> dict[str, Place]:
    return placed(found, SUITE.configuration, METRICS)


def two(first: dict[str, Any], second: dict[str, Any]) -> tuple[str, str]:
    """Who dominates each of two configurations: `a`, `b` or ''."""
    found = [row(SUITE, {"block": 64}, **first), row(SUITE, {"block": 128}, **second)]
    names = {found[0]["row_id"]: "a", found[1]["row_id"]: "b", "": ""}
    places = judge(found)
    return names[places[found[0]["row_id"]].dominated_by], names[places[found[1]["row_id"]].dominated_by]


@pytest.mark.parametrize("metric", CRITERIA, ids=lambda metric: metric.name)
def test_each_criterion_alone_decides_in_its_direction(metric: Any) -> None:
    value = {"stack_bytes": 64, "matrix_missing": 1, "stages": 3}.get(metric.name, 40.0)
    assert two({metric.name: value}, {}) in ((("b", ""), ("", "a")))
    more_is_better = metric.better == "higher"
    worse = two({metric.name: value}, {metric.name: value / 2 if value > 1 else 0})
    assert worse == (("", "a") if more_is_better else ("b", ""))


def test_who_is_better_in_one_thing_and_worse_in_another_is_left() -> None:
    assert two({"resident_warps": 24, "loaded_bytes": 4e9}, {}) == ("", "")
    assert two({"resident_warps": 24, "loaded_bytes": 1e9}, {}) == ("", "a")
    assert two({}, {}) == ("", ""), "equals do not rule each other out"


def test_a_difference_beyond_two_digits_decides_nothing() -> None:
    assert two({"instructions": 12.1}, {"instructions": 12.4}) == ("", "")
    assert two({"instructions": 12.1}, {"instructions": 13.4}) == ("", "a")


@pytest.mark.parametrize("name", ["loaded_bytes", "resident_warps"])
def test_a_figure_that_is_missing_is_worst(name: str) -> None:
    whole, part = row(SUITE, {"block": 64}), row(SUITE, {"block": 128})
    del part[f"measure.{name}"]
    places = judge([part, whole])
    assert places[part["row_id"]] == Place(2, whole["row_id"]) and places[whole["row_id"]] == Place(1, "")


def test_each_suite_on_a_page_is_ranked_by_itself() -> None:
    """A row without words for its configuration is named by its case; a suite without configurations is left out."""
    other = dataclasses.replace(SUITE, id="planted.other")
    found = [
        row(SUITE, {"block": 64}),
        row(SUITE, {"block": 128}, stack_bytes=8),
        row(other, {"block": 256}, stack_bytes=9),
    ]
    del found[0]["note.configuration"]
    suites = [{"id": one.id, "configuration": list(one.configuration), "metrics": METRICS} for one in (SUITE, other)]
    told = on_a_page([{"kind": "run"}, *found], {"suites": [{"id": "timed"}, *suites]})
    best, worse, alone = (told[one["row_id"]] for one in found)
    assert best == alone == {"rank": 1, "dominated_by": ""}
    assert worse == {"rank": 2, "dominated_by": found[0]["case"]}
    assert on_a_page(found, {}) == {}


def test_only_configurations_of_one_question_are_compared() -> None:
    """Another target, dtype, size or run is another question; a row that did not compile takes no part."""
    found = [
        row(SUITE, {"block": 64}),
        row(SUITE, {"block": 64, "target": "sm_90"}, stack_bytes=800),
        row(SUITE, {"block": 64, "length": 99}, stack_bytes=800),
        row(SUITE, {"block": 64}, stack_bytes=800) | {"run": "another", "row_id": "other"},
        row(SUITE, {"block": 128}, "unsupported", "needs more than there is"),
    ]
    places = judge(found)
    assert len(places) == 4 and not any(place.dominated_by for place in places.values())
    assert all(place.rank == 1 for place in places.values())


def test_the_order_begins_with_those_left_and_with_the_weightiest_figure() -> None:
    spilled = row(SUITE, {"block": 16}, stack_bytes=16, resident_warps=64)  # left: it holds more warps
    few = row(SUITE, {"block": 32}, instructions=9.0, resident_warps=8)
    many = row(SUITE, {"block": 64}, instructions=14.0, resident_warps=32)
    beaten = row(SUITE, {"block": 128}, instructions=9.0, resident_warps=8, loaded_bytes=9e9)
    places = judge([beaten, spilled, many, few])
    order = sorted(places, key=lambda row_id: places[row_id].rank)
    assert order == [one["row_id"] for one in (few, many, spilled, beaten)]
    assert places[beaten["row_id"]].dominated_by == few["row_id"]


@given(
    figures=st.lists(
        st.fixed_dictionaries({
            "stack_bytes": st.integers(0, 3), "instructions": st.floats(9.0, 11.0), "resident_warps": st.integers(1, 4),
            "loaded_bytes": st.floats(1e9, 1.2e9),
        }),
        min_size=1, max_size=12,
    )
)  # fmt: skip
def test_somebody_is_always_left_and_all_others_lose_to_one_who_is(figures: list[dict[str, Any]]) -> None:
    found = [row(SUITE, {"block": 16 + i}, **one) for i, one in enumerate(figures)]
    places = judge(found)
    left = {row_id for row_id, place in places.items() if not place.dominated_by}
    assert left and {place.dominated_by for place in places.values()} - {""} <= left
    assert sorted(place.rank for place in places.values()) == list(range(1, len(found) + 1))
    assert {places[row_id].rank for row_id in left} == set(range(1, len(left) + 1))
