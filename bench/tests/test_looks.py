"""When a race looks at its comparisons, and how sure it has to be."""

from __future__ import annotations

import time

import numpy as np
import pytest

from bancada import looks, stats, traces
from bancada.settings import Settings

SETTINGS = Settings(rounds=30, most_rounds=120)
FOREVER = float("inf")


def said(high: float) -> stats.Comparison:
    return stats.Comparison("a", "b", 0.9, 0.8, high, 30, stats.verdict(0.8, high))


CLEAR, OPEN = said(0.95), said(1.2)


def looks_of(first: int, most: int) -> list[int]:
    """The rounds at which a race looks that is never decided."""
    one, seen = looks.Looks(first, most, FOREVER), [first]
    while (goal := one.next_goal(seen[-1], lambda sure: [CLEAR, OPEN])) > seen[-1]:
        seen.append(goal)
    assert one.confidence == stats.CONFIDENCE
    return seen


def test_the_looks_lie_evenly_between_the_planned_rounds_and_the_cap() -> None:
    assert looks_of(30, 120) == [30, 60, 90, 120]


@pytest.mark.parametrize(("first", "most"), [(5, 120), (29, 120), (30, 121), (30, 31), (30, 30), (2, 9)])
def test_a_race_looks_three_times_before_its_last_look_wherever_it_starts(first: int, most: int) -> None:
    """What all looks together let pass, 2% + 3 x 0.2%, holds for a race too that could not pay for its rounds."""
    seen = looks_of(first, most)
    assert seen[0] == first and seen[-1] == most and len(seen) <= looks.LOOKS + 1


def test_a_race_that_stops_early_has_to_be_surer() -> None:
    asked: list[float] = []
    one = looks.Looks(30, 120, FOREVER)
    assert one.next_goal(30, lambda sure: asked.append(sure) or [CLEAR]) == 30  # type: ignore[func-returns-value]
    assert asked == [one.confidence] == [looks.IN_BETWEEN] and looks.IN_BETWEEN > stats.CONFIDENCE


@pytest.mark.parametrize(("rounds", "deadline"), [(120, FOREVER), (30, 0.0)])
def test_at_the_cap_or_the_end_of_the_time_the_last_look_is_the_usual_one(rounds: int, deadline: float) -> None:
    one = looks.Looks(30, 120, deadline)
    assert time.perf_counter() > 0.0
    assert one.next_goal(rounds, lambda sure: pytest.fail("looked though it is over")) == rounds
    assert one.confidence == stats.CONFIDENCE


def test_all_looks_together_call_a_difference_at_the_edge_of_the_band_as_rarely_as_promised() -> None:
    """True ratio 1.01, looked at up to four times: wrong in 1% at the last look and 0.1% at each one before."""
    noise = np.random.default_rng(0).standard_t(4, (6_000, SETTINGS.most_rounds))
    replayed = traces.replay(stats.BAND + 0.06 * noise, SETTINGS)
    assert 0.002 < np.mean(replayed.said == 1) < 0.016
    assert not (replayed.said == -1).any()
