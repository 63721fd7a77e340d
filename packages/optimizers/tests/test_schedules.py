"""Schedules: their shape, and that a resumed run has the rates of one that was not interrupted."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch

from bancada_optimizers import (
    AdamW,
    Constant,
    Cosine,
    DynamicLossScaler,
    InverseSqrt,
    Linear,
    Scheduler,
    WarmupStableDecay,
)

SCHEDULES: dict[str, Any] = {
    "constant": Constant(10),
    "linear": Linear(10, 50, 0.1),
    "cosine": Cosine(10, 50, 0.1),
    "inverse-sqrt": InverseSqrt(10),
    "wsd": WarmupStableDecay(10, 20, 20, 0.1),
    "wsd-sqrt": WarmupStableDecay(10, 20, 20, 0.1, "sqrt"),
}
every = pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)


def optimizer(*rates: float) -> AdamW:
    return AdamW([{"params": [torch.nn.Parameter(torch.ones(2))], "lr": rate} for rate in rates])


@every
def test_case17_warm_up_is_linear_and_peaks_at_its_last_step(schedule: Any) -> None:
    assert [schedule.factor(t) for t in range(1, 11)] == pytest.approx([t / 10 for t in range(1, 11)])
    assert schedule.factor(10) == 1.0
    assert max(schedule.factor(t) for t in range(1, 80)) == 1.0


def test_shapes_by_hand() -> None:
    """Half way between the warm-up's end, 10, and the last update, 50, and at and after the last."""
    for name, half in (("linear", 0.55), ("cosine", 0.55)):
        schedule = SCHEDULES[name]
        assert schedule.factor(30) == pytest.approx(half)
        assert schedule.factor(50) == schedule.factor(500) == pytest.approx(0.1)
    assert SCHEDULES["cosine"].factor(20) == pytest.approx(0.1 + 0.9 * (1 + math.cos(math.pi / 4)) / 2)
    assert SCHEDULES["inverse-sqrt"].factor(40) == pytest.approx(0.5)
    wsd, root = SCHEDULES["wsd"], SCHEDULES["wsd-sqrt"]
    assert [wsd.factor(t) for t in (11, 30, 35, 50, 51)] == pytest.approx([1, 1, 1 - 0.9 / 4, 0.1, 0.1])
    assert [root.factor(t) for t in (30, 35, 50)] == pytest.approx([1, 0.55, 0.1])
    assert Constant().factor(1) == Linear(0, 4).factor(0 + 1) / 0.75 == 1.0
    assert Linear(5, 5).factor(5) == 1.0


@every
def test_case16_a_resumed_run_has_the_rates_of_an_uninterrupted_one(schedule: Any) -> None:
    """PT65342, PT78003, PT162591: bit-equal, by state and by the number of the update alone; nothing compounds."""
    whole, rates = optimizer(0.3, 0.07), []
    scheduler = Scheduler(whole, schedule)
    for t in range(1, 61):
        rates.append([group["lr"] for group in whole.param_groups])
        if t == 23:
            saved = copy.deepcopy((whole.state_dict(), scheduler.state_dict()))
        scheduler.step()
    assert rates == [[0.3 * schedule.factor(t), 0.07 * schedule.factor(t)] for t in range(1, 61)]
    for by_state in (True, False):
        other = optimizer(5.0, 5.0)  # the rates of the constructor do not matter
        if by_state:
            resumed = Scheduler(other, schedule)
            other.load_state_dict(saved[0])
            resumed.load_state_dict(saved[1])
        else:
            other.load_state_dict(saved[0])
            resumed = Scheduler(other, schedule, update=23)
        for t in range(23, 61):
            assert [group["lr"] for group in other.param_groups] == rates[t - 1]
            resumed.step()


def test_a_group_that_joins_late_is_scheduled_too() -> None:
    one = optimizer(0.1)
    scheduler = Scheduler(one, Constant(4))
    one.add_param_group({"params": [torch.nn.Parameter(torch.ones(2))], "lr": 0.2})
    scheduler.step()
    assert [group["lr"] for group in one.param_groups] == [0.05, 0.1]


def test_case18_an_overflow_advances_neither_schedule_nor_state() -> None:
    """accelerate 4242."""
    p = torch.nn.Parameter(torch.ones(3))
    one = AdamW([p], lr=0.1)
    scheduler, scaler, average = Scheduler(one, Constant(10)), DynamicLossScaler(1024.0), p.detach().clone()
    p.grad = torch.tensor([1.0, math.inf, 1.0])
    if scaler.step(one):
        scheduler.step()
        average.lerp_(p.detach(), 0.1)
    assert scheduler.update == 1 and not one.state and torch.equal(p, torch.ones(3)) and torch.equal(average, p)
    assert scaler.value == 512
    p.grad = torch.full((3,), 512.0)
    assert scaler.step(one)
    assert float(one.state[p]["step"]) == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Constant(-1), "warmup=-1"),
        (lambda: Linear(5, 4), "warmup=5: must be at most updates=4"),
        (lambda: Cosine(0, 0), "updates=0"),
        (lambda: Cosine(0, 5, -0.1), "final=-0.1"),
        (lambda: InverseSqrt(0), "warmup=0"),
        (lambda: WarmupStableDecay(1, 1, 0), "decay=0"),
        (lambda: WarmupStableDecay(1, 1, 1, 0.0, "cosine"), "shape='cosine'"),
        (lambda: Cosine(0, 5).factor(0), "update=0"),
        (lambda: Scheduler(optimizer(0.1), Constant(), update=0), "update=0"),
        (lambda: Scheduler(optimizer(0.1), Constant()).load_state_dict({"update": 1, "rates": [1.0, 2.0]}), "2 rates"),
    ],
)
def test_wrong_schedules_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
