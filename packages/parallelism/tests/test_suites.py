"""The suites of several ranks: every contender gives what one process gives; ours send and hold what formulas say."""

from __future__ import annotations

import functools
from typing import Any

import jobs_suites as jobs
import pytest
from parallel_pool import Pool

from bancada.ranks import RanksSuite
from bancada_parallelism._suites import formulas, suites

SUITES = {suite.id: suite for suite in suites() if isinstance(suite, RanksSuite)}
FOUR = {"hidden": 64, "layers": 5, "micro_batches": 4}
"""Sizes of which four ranks get uneven parts."""


def axes_of(suite: RanksSuite, ranks: int) -> dict[str, Any]:
    axes = {name: value for name, value in suite.small.items() if name != "world_size"}
    return axes | (FOUR if ranks == 4 and "hidden" in axes else {"numel": 96} if "numel" in axes else {})


def check(pool: Pool, suite: RanksSuite, names: list[str], times: int) -> None:
    axes = axes_of(suite, pool.ranks)
    case = suite.case(**axes, world_size=pool.ranks)
    ranks = pool.run(jobs.measure, suite.id, axes, names, times)
    for name in names:
        for number, (error, wrong) in enumerate(ranks[0][name]["wrong"]):
            assert not wrong, f"{name}, after {number} resets: {wrong}"
            assert error["error_rel"] <= suite.tolerance(case)
        expected = suite.expected(case, name)
        assert expected or suite.contender(name).origin == "peer", f"{name}: nothing is demanded of it"
        found = {figure: max(figures[name].get(figure, 0) for figures in ranks) for figure in expected or ()}
        assert found == (expected or {}), name


SLOW = ("torch-fsdp2", "torch-dtensor", "torch-zero-1")
"""Peers that import and compile for seconds on every rank."""


def runnable(suite: RanksSuite, origins: tuple[str, ...] = ("bancada", "peer")) -> list[str]:
    """Contenders of the pool that is torch's, without libraries that need not be installed."""
    found = [c.id for c in suite.contenders if c.pool == "torch" and c.origin in origins and not c.requires]
    return [name for name in found if name not in SLOW]


@pytest.mark.parametrize("suite_id", list(SUITES))
def test_two_ranks(two_ranks: Pool, suite_id: str) -> None:
    suite = SUITES[suite_id]
    names = runnable(suite)
    if suite_id == "parallelism.memory":  # the peers are those of training
        names = runnable(suite, ("bancada",))
    check(two_ranks, suite, names, 2)


@pytest.mark.slow
@pytest.mark.parametrize("suite_id", ["parallelism.training", "parallelism.memory"])
def test_two_ranks_of_slow_peers(two_ranks: Pool, suite_id: str) -> None:
    suite = SUITES[suite_id]
    check(two_ranks, suite, [contender.id for contender in suite.contenders if contender.id in SLOW], 2)


@pytest.mark.parametrize("suite_id", ["parallelism.training", "parallelism.pipeline", "parallelism.collectives"])
def test_four_ranks(four_ranks: Pool, suite_id: str) -> None:
    check(four_ranks, SUITES[suite_id], runnable(SUITES[suite_id], ("bancada",)), 1)


@functools.cache
def activations(pool: Pool, name: str, micro_batches: int) -> list[int]:
    axes = axes_of(SUITES["parallelism.pipeline"], 2) | {"batch": 2 * micro_batches, "micro_batches": micro_batches}
    ranks = pool.run(jobs.measure, "parallelism.pipeline", axes, [name], 1)
    return [figures[name]["bytes.activations"] for figures in ranks]


def test_activations_held_are_the_schedules(two_ranks: Pool) -> None:
    """figures.md: 1F1B holds min(m, p - s) micro-batches' activations at stage s, GPipe m."""
    one = activations(two_ranks, "gpipe", 1)
    assert min(one) > 0
    assert activations(two_ranks, "gpipe", 4) == [4 * size for size in one]
    assert activations(two_ranks, "1f1b", 4) == [2 * one[0], one[1]]


def test_formulas_in_numbers() -> None:
    """Worked out by hand: h = 32, 2 layers, V = 512, batch 4 x 5 tokens, fp64, 2 ranks."""
    case = SUITES["parallelism.training"].case(**SUITES["parallelism.training"].small)
    layer = 12 * 32 * 32 + (1 + 4 + 1) * 32 + 4 * 32
    P = 2 * layer + 2 * 512 * 32 + 2 * 32
    assert sum(formulas.units(case)) == sum(formulas.buckets(case)) == P
    data = formulas.data_parallel(case)
    assert (data["comm.all_reduce.bytes"], data["bytes.optimizer"]) == (8 * P, 16 * P)
    three = formulas.zero(case, 3)
    assert three["comm.bytes"] == 3 * 8 * P and three["bytes.parameters"] == 4 * P
    cut = formulas.tensor_parallel(case)
    assert cut["comm.all_reduce.bytes"] == 8 * 20 * (4 * 2 * 32 + 2 * 32 + 3)
    replicated = 2 * (6 * 32) + 2 * 32
    assert cut["bytes.parameters"] == 8 * (replicated + (P - replicated) // 2)
    stages = formulas.pipeline(case)
    assert stages["comm.send.bytes"] == 8 * 20 * 32 and stages["comm.send.calls"] == 2
    assert stages["bytes.parameters"] == 8 * (layer + 512 * 32 + 2 * 32)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden": 48}, "hidden=48: must be a multiple of 16 x world_size=2"),
        ({"layers": 1}, "layers=1: must be world_size=2 at least"),
        ({"batch": 3}, "batch=3: must be a multiple of world_size=2 and of micro_batches=2"),
        ({"micro_batches": 3}, "must be a multiple of world_size=2 and of micro_batches=3"),
    ],
)
def test_sizes_that_do_not_divide_are_no_case(change: dict[str, int], message: str) -> None:
    suite = SUITES["parallelism.training"]
    with pytest.raises(ValueError, match=message):
        suite.case(**suite.small | change)
