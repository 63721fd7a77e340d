"""Columns: whatever goes in comes out, in little room."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bancada.report.columns import column, rounded, table

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**53), 2**53),
    st.text(max_size=5),
    st.floats(allow_nan=False, allow_infinity=False),
)


def decode(found: dict[str, Any], number: int) -> list[Any]:
    if "k" in found:
        return [found["k"]] * number
    if "i" in found:
        return [None if place < 0 else found["d"][place] for place in found["i"]]
    if "s" in found:
        places = dict(zip(found["s"], found["v"], strict=True))
        return [places.get(row) for row in range(number)]
    return list(found["v"])


@given(st.lists(SCALARS, max_size=30))
def test_a_column_gives_back_its_values(values: list[Any]) -> None:
    found = json.loads(json.dumps(column(values)))
    for before, after in zip(values, decode(found, len(values)), strict=True):
        if isinstance(before, float):
            assert after == pytest.approx(before, rel=1e-4)
        else:
            assert after == before and type(after) is type(before)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_five_digits_are_kept(value: float) -> None:
    assert float(rounded(value)) == pytest.approx(value, rel=5.1e-5)


def test_repeated_texts_are_written_once() -> None:
    assert column(["a"] * 100) == {"k": "a"}
    assert column(["a", "b"] * 2) == {"d": ["a", "b"], "i": [0, 1, 0, 1]}


def test_what_is_mostly_missing_names_its_rows() -> None:
    assert column([None] * 9 + [0.5]) == {"s": [9], "v": [0.5]}


def test_true_and_one_are_not_the_same() -> None:
    assert decode(column([True, 1, True, 1]), 4) == [True, 1, True, 1]
    assert [type(v) for v in decode(column([True, 1, True, 1]), 4)] == [bool, int, bool, int]


def test_a_table_leaves_out_what_nobody_fills() -> None:
    found = table([{"a": 1, "b": None}, {"a": 2, "c": "x", "skipped": 3}], skip=("skipped",))
    assert found["n"] == 2 and set(found["c"]) == {"a", "c"}
