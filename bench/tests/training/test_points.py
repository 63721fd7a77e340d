"""Points of a search space: the middle first, evenly spread, never twice the same."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bancada.training import Range
from bancada.training.points import points, radical_inverse, size


def test_van_der_corput_numbers_mirror_the_digits() -> None:
    assert [radical_inverse(index, 2) for index in range(6)] == [0, 1 / 2, 1 / 4, 3 / 4, 1 / 8, 5 / 8]
    assert [radical_inverse(index, 3) for index in (1, 2, 3, 5)] == pytest.approx([1 / 3, 2 / 3, 1 / 9, 7 / 9])


def test_the_first_point_is_the_middle_of_every_hyperparameter_on_its_scale() -> None:
    space = {"lr": Range(1e-4, 1e-2), "decay": Range(0.0, 0.5, "linear"), "rank": (2, 4, 8), "warm": Range(1.0, 100.0)}
    assert points(space, 1) == [{"lr": 1e-3, "decay": 0.25, "rank": 4, "warm": 10.0}]


def test_the_points_of_one_range_fill_it_evenly() -> None:
    """After 2^k - 1 points every k-th dyadic cut has been tried, each once."""
    tried = sorted(math.log10(float(point["lr"])) for point in points({"lr": Range(1e-5, 1e-1)}, 7))
    assert tried == pytest.approx([-4.5, -4.0, -3.5, -3.0, -2.5, -2.0, -1.5], abs=1e-3)


def test_the_points_of_two_ranges_leave_no_quarter_of_the_square_empty() -> None:
    space = {"a": Range(0.0, 1.0, "linear"), "b": Range(0.0, 1.0, "linear")}
    quarters = {(float(point["a"]) > 0.5, float(point["b"]) > 0.5) for point in points(space, 8)}
    assert len(quarters) == 4


def test_a_small_space_gives_all_it_has_and_an_empty_one_its_one_point() -> None:
    found = points({"rank": (4, 8), "bias": (True, False)}, 10)
    assert len(found) == 4 and all(found.count(one) == 1 for one in found)
    assert points({}, 5) == [{}] and points({"rank": (8,)}, 5) == [{"rank": 8}]
    assert size({"rank": (4, 8), "bias": (True, False)}) == 4 and size({"lr": Range(1, 2)}) == math.inf


@given(
    low=st.floats(1e-8, 1e3), factor=st.floats(1.01, 1e6), trials=st.integers(1, 12), log=st.booleans()
)  # fmt: skip
def test_any_range_gives_points_inside_it_and_the_same_every_time(
    low: float, factor: float, trials: int, log: bool
) -> None:
    space = {"x": Range(low, low * factor, "log" if log else "linear"), "kind": ("a", "b", "c")}
    found = points(space, trials)
    assert len(found) == trials and found == points(space, trials) == points(space, trials + 3)[:trials]
    assert all(low <= float(point["x"]) <= low * factor for point in found)
    assert all(found.count(one) == 1 for one in found)


def test_bad_spaces_are_refused() -> None:
    with pytest.raises(ValueError, match="trials=0"):
        points({}, 0)
    with pytest.raises(ValueError, match="'rank'"):
        points({"rank": ()}, 3)
    for low, high in ((2.0, 1.0), (0.0, 1.0)):
        with pytest.raises(ValueError, match=f"low={low}"):
            Range(low, high)
