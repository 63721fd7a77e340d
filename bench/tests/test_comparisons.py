"""Ratios over several cases: means, what cases say together, regions and ratios in words."""

from __future__ import annotations

import math

import _synthetic as made
import pytest
from _asked import raced
from _judged import NARROW

from bancada.verdicts import regions
from bancada.verdicts.clauses import times
from bancada.verdicts.comparisons import Comparison, geometric_mean, joint, suites


def test_the_geometric_mean_takes_the_common_cells_only_and_says_how_many() -> None:
    """tritonbench 1224: an average over different sets of inputs."""
    recipe = made.Recipe(grid=NARROW | {"dtype": ["bf16"]}, suites=("attention.forward",))
    (suite,) = suites(made.make_rows(recipe), {}, {})
    mean = geometric_mean(suite.common("flex", "eager"))
    assert mean is not None and mean.cases == 5  # incorrect at 128 and crashed at 256
    ratios = [
        suite.pairs[case, "flex", "eager"].ratio for case in suite.cells if (case, "flex", "eager") in suite.pairs
    ]
    assert len(ratios) == 5
    assert mean.value == pytest.approx(math.prod(ratios) ** (1 / 5))
    assert (mean.least, mean.most) == pytest.approx((min(ratios), max(ratios)))


def test_the_mean_s_interval_adds_independent_noise_in_squares() -> None:
    one = Comparison(2.0, 2.0 / 1.1, 2.0 * 1.1, "slower")
    mean = geometric_mean([one] * 4)
    assert mean is not None and mean.value == pytest.approx(2.0)
    assert math.log(mean.high / mean.value) == pytest.approx(math.log(1.1) / 2)
    assert mean.inverse().value == pytest.approx(0.5) and mean.inverse().high == pytest.approx(1 / mean.low)
    assert geometric_mean([]) is None


@pytest.mark.parametrize(
    ("outcomes", "said"),
    [
        ("fff", "faster"),
        ("fft", "faster"),
        ("ffs", "mixed"),
        ("sst", "slower"),
        ("ttf", "tie"),
        ("tfs", "mixed"),
        ("tto", "tie"),
        ("too", "open"),
        ("foo", "open"),
        ("ffo", "faster"),
        ("fto", "open"),
        ("fso", "mixed"),
        ("", None),
    ],
)
def test_cases_say_something_together_only_where_none_says_the_opposite(outcomes: str, said: str | None) -> None:
    full = {"f": "faster", "s": "slower", "t": "tie", "o": "open"}
    assert joint([Comparison(1.0, 1.0, 1.0, full[letter]) for letter in outcomes]) == said  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ([128, 256, 512, 1024, 2048, 4096, 8192], "At every size measured (128 to 8,192 tokens)"),
        ([2048, 4096, 8192], "At 2,048 tokens and more"),
        ([8192], "At 8,192 tokens"),
        ([1], "At 1 token"),
        ([128, 256], "Up to 256 tokens"),
        ([512, 1024], "From 512 to 1,024 tokens"),
    ],
)
def test_regions_in_words(sizes: list[int], said: str) -> None:
    recipe = made.Recipe(grid=NARROW, suites=("attention.forward",))
    (suite,) = suites(made.make_rows(recipe), made.plan(recipe), made.catalogue(recipe))
    assert regions.where(suite, sizes) == said


@pytest.mark.parametrize(
    ("unit", "said"),
    [("", ["At width 0.1", "From width 0.02 to 0.1", "Up to width 0.02", "At every width measured (0.01 to 0.5)"]),
     ("layers", ["At 0.1 layers", "From 0.02 to 0.1 layers", "Up to 0.02 layers",
                 "At every size measured (0.01 to 0.5 layers)"]),
     ("share of weights", ["At 10% of weights", "From 2% to 10% of weights", "Up to 2% of weights",
                           "At every size measured (1% to 50% of weights)"])],
)  # fmt: skip
def test_regions_in_words_without_a_unit_and_of_shares(unit: str, said: list[str]) -> None:
    widths = [0.01, 0.02, 0.1, 0.5]
    kinds = {"plain": "p", "mine": "m"}
    rows = [
        row for w in widths for row in raced("s.t", {"width": w}, dict.fromkeys(kinds, 1.0), kinds, reference="plain")
    ]
    catalogue = {"suites": [{"id": "s.t", "x_axis": "width", "axes": [{"name": "width", "unit": unit}]}]}
    (suite,) = suites(rows, {}, catalogue)
    assert [regions.where(suite, xs) for xs in ([0.1], [0.02, 0.1], [0.01, 0.02], widths)] == said


@pytest.mark.parametrize(
    ("ratio", "said"),
    [(1.0, "1.00x"), (1.04, "1.04x"), (1.999, "2.0x"), (3.58, "3.6x"), (9.96, "10x"), (1234.5, "1,234x")],
)
def test_ratios_as_people_say_them(ratio: float, said: str) -> None:
    assert times(ratio) == said
