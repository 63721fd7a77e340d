"""What a few seeds can say: intervals that hold what they promise, verdicts that are hardly ever false."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from bancada.training.seeds import BAND, contrast, interval

TRIALS = 700


def verdicts(differences: NDArray[np.float64]) -> list[str]:
    """The verdicts on contenders whose losses lie around 0 and differ by `differences`, one row a comparison."""
    return [contrast([*row], [0.0] * len(row), "lower").verdict for row in differences]


@pytest.mark.parametrize("seeds", [3, 5, 8])
@pytest.mark.parametrize(("spread", "most"), [("normal", 0.02), ("uniform", 0.03), ("heavy", 0.02)])
def test_equal_contenders_are_hardly_ever_told_apart(seeds: int, spread: str, most: float) -> None:
    rng = np.random.default_rng(seeds)
    draw = {
        "normal": rng.normal(size=(TRIALS, seeds)),
        "uniform": rng.uniform(-1, 1, size=(TRIALS, seeds)),
        "heavy": rng.standard_t(3, size=(TRIALS, seeds)),
    }[spread]
    false = sum(said != "too close to call" for said in verdicts(draw))
    assert false <= most * TRIALS


@pytest.mark.parametrize(("seeds", "effect", "least"), [(3, 8.0, 0.8), (5, 4.0, 0.95), (8, 3.0, 0.98)])
def test_a_clear_effect_is_found_and_never_the_wrong_way_round(seeds: int, effect: float, least: float) -> None:
    rng = np.random.default_rng(seeds)
    said = verdicts(rng.normal(effect, 1.0, size=(500, seeds)))
    assert said.count("worse") >= least * 500 and "better" not in said


def test_a_plain_bootstrap_would_promise_too_much() -> None:
    """The reason for the wider interval: three seeds' resamples reach no further than the seeds themselves."""
    found = interval([1.0, 2.0, 3.0])
    assert found.mean == 2.0 and found.low < 1.0 and found.high > 3.0
    wide = [interval([-1.0, 0.0, 1.0] * count) for count in (1, 2, 4)]
    assert wide[0].high > wide[1].high > wide[2].high > 0


def test_an_interval_is_the_same_at_every_call_and_knows_no_order() -> None:
    values = [0.3, 0.9, 0.1, 0.4, 0.2, 0.8]
    assert interval(values) == interval(values)
    assert interval(values[:4]).high == pytest.approx(interval(values[3::-1]).high)
    assert interval([5.0, 5.0, 5.0]) == interval([5.0] * 3) and interval([5.0] * 3).low == 5.0


def test_one_seed_gives_a_difference_but_no_verdict() -> None:
    said = contrast([1.0], [2.0], "lower")
    assert said.verdict == "too close to call"
    assert said.difference.mean == said.difference.low == said.difference.high == -1.0 and said.difference.seeds == 1


def test_better_is_lower_or_higher_as_the_metric_says() -> None:
    a, b = [0.50, 0.52, 0.51], [0.90, 0.91, 0.92]
    assert contrast(a, b, "lower").verdict == "better" and contrast(a, b, "higher").verdict == "worse"
    assert contrast(b, a, "lower").verdict == "worse" and contrast(b, a, "higher").verdict == "better"
    turned = contrast(b, a, "lower").difference
    assert turned.mean == pytest.approx(-contrast(a, b, "lower").difference.mean)


def test_a_sure_difference_too_small_to_matter_is_no_verdict() -> None:
    base = [4.0, 4.1, 3.9]
    small = [value * (1 - BAND / 2) for value in base]
    large = [value * (1 - 20 * BAND) for value in base]
    assert contrast(small, base, "lower").verdict == "too close to call"
    assert contrast(large, base, "lower").verdict == "better"
    assert contrast(base, base, "lower").verdict == "too close to call"


def test_pairing_by_seed_finds_what_unpaired_seeds_would_hide() -> None:
    base = [3.0, 4.0, 5.0]
    assert contrast([value - 0.1 for value in base], base, "lower").verdict == "better"
    assert contrast([value - 0.1 for value in reversed(base)], base, "lower").verdict == "too close to call"


def test_bad_values_are_refused() -> None:
    for values in ([], [1.0, math.nan], [math.inf]):
        with pytest.raises(ValueError, match="values="):
            interval(values)
    with pytest.raises(ValueError, match="a has 2 values, b 3"):
        contrast([1.0, 2.0], [1.0, 2.0, 3.0], "lower")
