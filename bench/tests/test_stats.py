"""Verdicts from paired rounds: properties, a simulated A/A and a planted slowdown."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bancada import stats

SAMPLES = st.lists(st.floats(1e-6, 10), min_size=5, max_size=40)


def noisy(rng: np.random.Generator, contenders: int, rounds: int, slow: float = 1.0) -> stats.Floats:
    """Times as seen on a shared machine: a drift all share, a scatter of each, now and then an interruption."""
    shared = np.exp(np.cumsum(rng.normal(0, 0.05, rounds)))
    own = np.exp(rng.normal(0, 0.03, (contenders, rounds)))
    hit = 1 + (rng.random((contenders, rounds)) < 0.05) * rng.exponential(1.0, (contenders, rounds))
    times = 1e-3 * shared * own * hit
    times[-1] *= slow
    return times


def test_identical_contenders_are_hardly_ever_called_different() -> None:
    rng = np.random.default_rng(0)
    found = [one for _ in range(20) for one in stats.compare(noisy(rng, 8, 30), list("abcdefgh"))]
    false = sum(one.verdict != "too close to call" for one in found)
    assert len(found) == 560
    assert false / len(found) <= 0.02


def test_a_planted_slowdown_of_5_percent_is_found() -> None:
    rng = np.random.default_rng(1)
    found = [stats.compare(noisy(rng, 2, 60, slow=1.05), ["a", "b"])[0] for _ in range(100)]
    assert sum(one.verdict == "faster" for one in found) >= 85
    assert not any(one.verdict == "slower" for one in found)


@pytest.mark.parametrize("rounds", [10, 37, 120])
def test_the_interval_ends_at_0_where_scipy_s_test_of_yuen_says_so(rounds: int) -> None:
    from scipy.stats import ttest_ind

    values = np.random.default_rng(rounds).standard_t(2, rounds) + 0.3
    against = np.zeros(rounds)  # of no scatter: the test of two samples is then that of one
    p = float(ttest_ind(values, against, equal_var=False, trim=stats.TRIM).pvalue)
    middle, low, high = (float(part) for part in stats.trimmed(values, 1 - p))
    assert (low if middle > 0 else high) == pytest.approx(0.0, abs=1e-9 * (high - low))


@pytest.mark.parametrize("rounds", [5, 8, 30, 120])
@pytest.mark.parametrize("tails", [2, 30])
def test_an_interval_misses_the_truth_as_often_as_it_says(rounds: int, tails: int) -> None:
    """At 98% in 2%, with tails as of a busy machine (Student's t with 2 degrees of freedom) a little less often."""
    values = np.random.default_rng(3).standard_t(tails, (10_000, rounds))
    _, low, high = stats.trimmed(values)
    assert 0.002 < np.mean((low > 0) | (high < 0)) < 0.027


def test_a_single_round_says_nothing_of_how_sure_it_is() -> None:
    assert stats.compare(np.ones((2, 1)), ["a", "b"]) == []
    with pytest.raises(ValueError, match="needs 2 or more"):
        stats.trimmed(np.ones((3, 1)))


def test_drift_that_all_share_makes_no_winner() -> None:
    """php-judy 87: arms minutes apart gave 21 false regressions; paired rounds see the same drift (case 9)."""
    drift = np.linspace(1.0, 3.0, 30)
    times = np.stack([drift, drift * 1.001])
    assert stats.compare(times, ["a", "b"])[0].verdict == "too close to call"


@given(SAMPLES, st.floats(1.05, 20))
def test_a_constant_ratio_is_found_whatever_the_noise_they_share(samples: list[float], ratio: float) -> None:
    times = np.array([samples, [sample * ratio for sample in samples]])
    one = stats.compare(times, ["a", "b"])[0]
    assert one.verdict == "faster"
    assert one.ratio == pytest.approx(1 / ratio)
    assert one.low <= one.ratio * (1 + 1e-9) and one.ratio <= one.high * (1 + 1e-9)


@given(SAMPLES, st.randoms(use_true_random=False))
def test_exchanging_the_contenders_mirrors_the_comparison(samples: list[float], random: object) -> None:
    other = list(reversed(samples))
    one = stats.compare(np.array([samples, other]), ["a", "b"])[0]
    mirrored = stats.compare(np.array([other, samples]), ["b", "a"])[0]
    assert one.ratio == pytest.approx(1 / mirrored.ratio)
    assert (one.low, one.high) == pytest.approx((1 / mirrored.high, 1 / mirrored.low))
    opposite = {"faster": "slower", "slower": "faster", "too close to call": "too close to call"}
    assert opposite[one.verdict] == mirrored.verdict


@given(SAMPLES, st.floats(0.01, 100))
def test_the_unit_of_time_does_not_matter(samples: list[float], unit: float) -> None:
    times = np.array([samples, sorted(samples)])
    here, there = stats.compare(times, ["a", "b"])[0], stats.compare(times * unit, ["a", "b"])[0]
    assert here.ratio == pytest.approx(there.ratio, rel=1e-9)


def test_the_same_samples_give_the_same_interval() -> None:
    times = noisy(np.random.default_rng(2), 3, 30)
    assert stats.compare(times, ["a", "b", "c"]) == stats.compare(times, ["a", "b", "c"])


def test_the_band_of_one_percent() -> None:
    assert stats.verdict(0.98, 0.985) == "faster"
    assert stats.verdict(0.985, 0.995) == "too close to call"
    assert stats.verdict(1.005, 1.03) == "too close to call"
    assert stats.verdict(1.02, 1.03) == "slower"


def test_decided_means_that_more_rounds_would_not_change_the_word() -> None:
    tie = stats.Comparison("a", "b", 1.0, 0.99, 1.01, 30, "too close to call")
    open_ = stats.Comparison("a", "b", 1.03, 0.97, 1.08, 30, "too close to call")
    assert tie.decided and not open_.decided


@pytest.mark.parametrize(("low", "high", "done"), [(0.977, 1.024, True), (0.975, 1.0, False), (1.0, 1.026, False)])
def test_a_tie_is_decided_where_both_ends_exclude_half_of_5_percent(low: float, high: float, done: bool) -> None:
    assert stats.decided(np.log([low]), np.log([high])) == [done]


def test_the_fifths_at_either_end_are_left_out_from_eight_rounds_on() -> None:
    for rounds, middle in ((7, 100.0 / 7), (8, 0.0)):
        values = np.zeros(rounds)
        values[3] = 100.0
        assert stats.trimmed(values)[0] == pytest.approx(middle)


def test_the_median_and_its_interval() -> None:
    """The bootstrap's median is at most the k-th of n samples as often as half of n draws are among the first k."""
    from scipy.stats import binom

    spreads = [stats.spread(np.arange(1.0, 302.0), seed) for seed in range(20)]
    below = binom.sf(150, 301, np.arange(1, 302) / 301)
    low = np.searchsorted(below, (1 - stats.CONFIDENCE) / 2) + 1
    assert {one.median for one in spreads} == {151.0}
    assert np.mean([one.low for one in spreads]) == pytest.approx(low, abs=1.2)
    assert np.mean([one.high for one in spreads]) == pytest.approx(302 - low, abs=1.2)


@pytest.mark.parametrize("times", [np.ones((2, 0)), np.ones((3, 5)), np.array([[1.0, 0.0], [1.0, 1.0]])])
def test_bad_samples_are_refused(times: stats.Floats) -> None:
    with pytest.raises(ValueError, match="times"):
        stats.compare(times, ["a", "b"])


def test_one_contender_has_nobody_to_be_compared_with() -> None:
    assert stats.compare(np.ones((1, 5)), ["a"]) == []
    assert math.isclose(stats.spread(np.ones(5)).median, 1.0)
