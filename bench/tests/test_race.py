"""The race, in this process, with contenders whose behaviour is known."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from _planted import late
from _racing import CLOCK, QUICK, Benchmark, Virtual, entrant, no_beat, question, spin

from bancada import screen
from bancada.race import Race, set_loops
from bancada.settings import Settings
from bancada.suite import Device, Tensors


def test_samples_are_dealt_back_to_whom_they_belong() -> None:
    clock, lengths = Virtual(), {"a": 0.001, "b": 0.002, "c": 0.004}
    entrants = [entrant(name, clock.spend(lambda length=length: length), length) for name, length in lengths.items()]
    one = Race(entrants, clock, Settings(rounds=8, most_rounds=8, sample_s=1e-4), 5.0, no_beat)
    one.run(Benchmark(clock))
    times = one.times()
    assert times.shape == (3, 8) and one.names == ["a", "b", "c"]
    assert times == pytest.approx(np.array([[length] * 8 for length in lengths.values()]))


def test_every_contender_runs_once_a_round_in_shuffled_order() -> None:
    seen: list[str] = []

    def noting(name: str) -> Callable[[], Any]:
        return lambda: seen.append(name) or {}  # type: ignore[func-returns-value]

    names = ["a", "b", "c", "d"]
    one = Race([entrant(name, noting(name), 1.0) for name in names], CLOCK, QUICK, 100.0, no_beat)
    one.run(Benchmark())
    rounds = [seen[start : start + 4] for start in range(0, len(seen), 4)]
    assert all(sorted(found) == names for found in rounds)
    assert len({tuple(found) for found in rounds}) > 1


def test_no_contender_keeps_a_place_in_memory_to_itself() -> None:
    """The answers of a round are let go before the next, so that who runs first takes whatever place comes first."""
    answers: list[weakref.ref[torch.Tensor]] = []
    held: list[int] = []

    def answering() -> Tensors:
        out = torch.zeros(16)
        answers.append(weakref.ref(out))
        return {"out": out}

    def look() -> None:
        held.append(sum(answer() is not None for answer in answers))

    entrants = [entrant(name, answering, 1.0) for name in ("a", "b", "c")]
    one = Race(entrants, CLOCK, QUICK, 100.0, no_beat, note=look)
    one.run(Benchmark())
    assert len(held) >= 6 and not any(held)
    assert sorted(one.last) == ["a", "b", "c"], "the last round's are judged"


def test_contenders_of_about_one_speed_are_looped_alike() -> None:
    made = [
        entrant("a", spin(0), 1.0e-3),
        entrant("b", spin(0), 1.2e-3),
        entrant("c", spin(0), 1.5e-3),
        entrant("d", spin(0), 1.0),
    ]
    set_loops(made, 7.5e-3)
    assert [one.loops for one in made] == [8, 8, 8, 1]


def test_a_contender_that_raises_in_the_race_is_out_and_the_others_go_on() -> None:
    calls = 0

    def breaks() -> dict[str, Any]:
        nonlocal calls
        calls += 1
        if calls > 3:
            raise RuntimeError("not enough memory: you tried to allocate 3 bytes")
        return {}

    one = Race([entrant("a", spin(1e-4)), entrant("b", breaks), entrant("c", spin(1e-4))], CLOCK, QUICK, 5.0, no_beat)
    one.run(Benchmark())
    assert one.names == ["a", "c"] and one.failures["b"].status == "out_of_memory"
    assert one.times().shape[1] >= QUICK.rounds
    assert [(found.a, found.b) for found in one.comparisons()] == [("a", "c")]


@pytest.mark.parametrize("loops", [1, 4])
def test_a_contender_that_ends_the_process_is_out_and_is_not_called_again(loops: int) -> None:
    calls: list[int] = []

    def leaves() -> dict[str, Any]:
        calls.append(1)
        raise SystemExit(3)

    one = Race([entrant("a", leaves, QUICK.sample_s / loops)], CLOCK, QUICK, 5.0, no_beat)
    one.run(Benchmark())
    assert one.names == [] and one.comparisons() == [] and one.times().size == 0 and calls == [1]
    assert one.failures["a"].status == "crashed" and "SystemExit(3)" in one.failures["a"].reason


def test_a_race_whose_contenders_are_slower_than_they_seemed_ends_with_its_time() -> None:
    settings = Settings(rounds=30, least_rounds=3, sample_s=1e-4)
    one = Race([entrant("a", spin(0.02), 1e-4)], CLOCK, settings, 0.05, no_beat)
    one.run(Benchmark())
    assert one.times().shape[1] == settings.least_rounds


def test_a_race_goes_on_while_undecided_up_to_the_cap() -> None:
    clock, rng = Virtual(), np.random.default_rng(0)
    jittery = clock.spend(lambda: float(rng.lognormal(0, 1.0)))
    undecided = Race([entrant("a", jittery, 1.0), entrant("b", jittery, 1.0)], clock, QUICK, 30.0, no_beat)
    undecided.run(Benchmark(clock))
    steady = [entrant("a", clock.spend(lambda: 1.0), 1.0), entrant("b", clock.spend(lambda: 3.0), 3.0)]
    clear = Race(steady, clock, QUICK, 30.0, no_beat)
    clear.run(Benchmark(clock))
    assert undecided.times().shape[1] == QUICK.most_rounds
    assert clear.times().shape[1] == QUICK.rounds


def test_a_small_budget_means_fewer_rounds_but_never_fewer_than_the_least() -> None:
    clock = Virtual()
    for budget_s, rounds in ((8.0, 4), (0.1, QUICK.least_rounds)):
        entrants = [entrant("a", clock.spend(lambda: 1e-3), 1.0), entrant("b", clock.spend(lambda: 9e-3), 1.0)]
        one = Race(entrants, clock, QUICK, budget_s, no_beat)
        one.run(Benchmark(clock))
        assert one.times().shape[1] == rounds


def test_changing_the_inputs_only_once_the_race_is_on_is_told_and_costs_nobody_else(cpu: Device) -> None:
    suite = late()
    asked = question(suite, cpu)
    entrants = [screen.screen(one, asked, cpu, CLOCK, QUICK, lambda step, limit: None) for one in suite.contenders]
    one = Race(entrants, CLOCK, QUICK, 20.0, no_beat, asked.arena)
    one.run(Benchmark())
    assert one.names == ["honest-a"] and one.failures["late"].status == "incorrect"
    assert "changed its inputs in place: x" in one.failures["late"].reason
    screen.check(lambda: one.last["honest-a"], entrants[0].inputs, asked)
