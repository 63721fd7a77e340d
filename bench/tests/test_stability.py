"""Drift and two-humped samples: made-up races, and how rarely recorded ones of identical contenders are blamed."""

from __future__ import annotations

import numpy as np
import pytest

from bancada import stability, stats

ROUNDS = 60


def steady(contenders: int, rounds: int = ROUNDS, seed: int = 0, scatter: float = 0.02) -> stats.Floats:
    rng = np.random.default_rng(seed)
    return 1e-3 * np.exp(rng.normal(0, scatter, (contenders, rounds)))


def test_what_keeps_its_place_is_left_alone() -> None:
    told = [reason for seed in range(50) for reason in stability.unstable(steady(6, seed=seed))]
    assert len(told) == 300 and not any(told)


@pytest.mark.parametrize("contenders", [2, 3, 6])
def test_a_drift_of_one_contender_is_told_of_it_alone(contenders: int) -> None:
    """nvbench 206: clocks drop in a run (case 5)."""
    times = steady(contenders)
    times[1] *= np.linspace(1.0, 1.3, ROUNDS)
    reasons = stability.unstable(times)
    assert [bool(reason) for reason in reasons] == [place == 1 for place in range(contenders)]
    assert "changed by +" in reasons[1] and "first and the last third of 60 rounds" in reasons[1]


def test_a_drift_that_all_share_is_noise_and_no_contenders_fault() -> None:
    times = steady(4) * np.linspace(1.0, 2.0, ROUNDS)
    assert not any(stability.unstable(times))
    assert stability.own_drift(times[0]) == pytest.approx(
        0.58, abs=0.06
    )  # 1.67 fold at the first of a third, 1.5 at its last


@pytest.mark.parametrize("contenders", [2, 5])
def test_two_humps_are_told_with_their_distance_and_share(contenders: int) -> None:
    times = steady(contenders)
    times[0, np.random.default_rng(1).permutation(ROUNDS)[:24]] *= 1.4
    reasons = stability.unstable(times)
    assert [bool(reason) for reason in reasons] == [place == 0 for place in range(contenders)]
    assert "two humps" in reasons[0] and "40% of 60 rounds" in reasons[0]


def test_a_few_interruptions_make_no_second_hump() -> None:
    times = steady(4)
    times[2, ::12] *= 5.0
    assert not any(stability.unstable(times))


def test_two_bad_ones_are_both_told_and_no_third() -> None:
    times = steady(4)
    times[0] *= np.linspace(1.0, 1.5, ROUNDS)
    times[3, ::2] *= 1.5
    reasons = stability.unstable(times)
    assert "third" in reasons[0] and "humps" in reasons[3] and not reasons[1] and not reasons[2]


def test_with_few_rounds_or_nobody_beside_it_nothing_is_said() -> None:
    drifting = steady(3, rounds=stability.FEWEST_FOR_DRIFT - 1)
    drifting[0] *= np.linspace(1.0, 3.0, drifting.shape[1])
    assert not any(stability.unstable(drifting)) and stability.own_drift(drifting[0]) is None
    assert stability.unstable(np.linspace(1.0, 3.0, ROUNDS)[None, :]) == [""]
    with pytest.raises(ValueError, match="contenders"):
        stability.relative(np.ones((1, ROUNDS)))


@pytest.mark.parametrize(("factor", "told"), [(1.031, True), (1.029, False), (1 / 1.031, True), (1 / 1.029, False)])
def test_a_drift_counts_beyond_3_percent_either_way(factor: float, told: bool) -> None:
    times = np.full((3, ROUNDS), 1e-3)
    times[1, ROUNDS - ROUNDS // 3 :] *= factor
    assert [bool(reason) for reason in stability.unstable(times)] == [False, told, False]


def test_how_sure_a_drift_must_be() -> None:
    series = np.random.default_rng(0).normal(0, 0.1, (1, ROUNDS))
    for end, at_999 in zip(
        stability.thirds(series), stats.trimmed(series[:, 40:] - series[:, :20], 0.999), strict=True
    ):
        assert end == pytest.approx(at_999)


@pytest.mark.parametrize(("factor", "rounds", "told"), [(1.051, 24, True), (1.049, 24, False), (1.051, 23, False)])
def test_humps_count_from_5_percent_apart_and_24_rounds_on(factor: float, rounds: int, told: bool) -> None:
    times = np.full((3, rounds), 1e-3)
    times[1, ::2] *= factor
    assert [bool(reason) for reason in stability.unstable(times)] == [False, told, False]


def test_times_that_no_clock_can_tell_apart_are_no_humps() -> None:
    times = np.full((3, ROUNDS), 1e-3)
    times[1, ::2] *= 1.001
    assert not any(stability.unstable(times))
