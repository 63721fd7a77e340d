"""The race and the screening, in this process, with contenders whose behaviour is known."""

from __future__ import annotations

import dataclasses
import time
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from _planted import PLANTS, faulty, inputs, late, sound

from bancada import memory, screen
from bancada.clock import CpuClock
from bancada.race import Race, set_loops
from bancada.screen import Entrant, Failed
from bancada.settings import Settings
from bancada.suite import Case, Contender, Device, KernelSuite, Run, Tensors

CLOCK = CpuClock()
QUICK = Settings(rounds=6, least_rounds=3, most_rounds=12, sample_s=1e-4, budget_s=5.0)


class Benchmark:
    """As much of pytest-benchmark's fixture as the race uses; the real one is used by the sweep's tests."""

    def __init__(self, clock: Callable[[], Any] = CLOCK) -> None:
        self.clock = clock
        self.stats = SimpleNamespace(stats=SimpleNamespace(data=[]))

    def pedantic(self, target: Callable[..., Any], setup: Callable[[], Any], rounds: int, iterations: int) -> None:
        for _ in range(rounds):
            args, kwargs = setup()
            before = self.clock()
            target(*args, **kwargs)
            self.stats.stats.data.append(self.clock() - before)


def entrant(name: str, run: Callable[[], Any], estimate_s: float = 1e-3) -> Entrant:
    contender = Contender(name, "planted", "bancada", lambda case, inputs: run)
    return Entrant(contender, run, {}, estimate_s, 1, {})


def spin(seconds: float) -> Callable[[], dict[str, Any]]:
    def run() -> dict[str, Any]:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            pass
        return {}

    return run


def no_beat(step: str, contender: str, limit_s: float) -> None:
    return None


class Virtual(CpuClock):
    """A clock that only goes on when a contender says so: nothing else on the machine can disturb it."""

    now = 0.0

    def __call__(self) -> float:
        return self.now

    def spend(self, seconds: Callable[[], float]) -> Callable[[], dict[str, Any]]:
        def run() -> dict[str, Any]:
            self.now += seconds()
            return {}

        return run


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


class Flushing(Virtual):
    """A clock whose flush takes longer than what is timed."""

    def flush(self) -> None:
        self.now += 5.0


def test_the_flush_is_outside_the_timed_window() -> None:
    """TileOPs 1725: the flush leaked into the timed window (case 3)."""
    clock = Flushing()
    one = Race([entrant("a", clock.spend(lambda: 1.0), 1.0)], clock, Settings(rounds=8, most_rounds=8), 100.0, no_beat)
    one.run(Benchmark(clock))
    assert (one.times() == 1.0).all() and clock.now >= 8 * 6.0


def test_inputs_set_up_and_flush_are_outside_the_timed_window(cpu: Device) -> None:
    """Whatever a sweep does before and between samples takes seconds here, and none of them is in a time."""
    clock = Flushing()

    def costly(case: Case, device: str, seed: int) -> Tensors:
        clock.now += 7.0
        return inputs(case, device, seed)

    def build(case: Case, given: Tensors) -> Run:
        clock.now += 11.0
        x = given["x"]

        def run() -> Tensors:
            clock.now += 1.0
            return {"out": x @ x}

        return run

    contenders = [Contender(name, "planted", "bancada", build) for name in ("a", "b")]
    suite = dataclasses.replace(sound()[0].with_contenders(contenders), inputs=costly)
    asked = question(suite, cpu)
    entrants = [screen.screen(one, asked, cpu, clock, QUICK, lambda step, limit: None) for one in contenders]
    assert [one.estimate_s for one in entrants] == [1.0, 1.0]
    one = Race(entrants, clock, QUICK, 100.0, no_beat, asked.arena)
    one.run(Benchmark(clock))
    assert one.times().shape[0] == 2 and (one.times() == 1.0).all()
    assert clock.now > 2 * 7 + 2 * 11 + one.times().size * (5.0 + 1.0)


@pytest.mark.benchmark(timer=CLOCK, disable_gc=True, warmup=False)
def test_a_known_duration_is_measured_within_3_percent(benchmark: Any) -> None:
    """Through pytest-benchmark itself, as in a sweep: spins of 0.1, 1 and 5 ms.

    The quickest sample is held to it, for what a busy machine does only adds to it; `bancada trust` shows medians.
    """
    known = {"a": 1e-4, "b": 1e-3, "c": 5e-3}
    entrants = [entrant(name, spin(seconds), seconds) for name, seconds in known.items()]
    one = Race(entrants, CLOCK, Settings(rounds=30, most_rounds=30, sample_s=5e-4), 20.0, no_beat)
    one.run(benchmark)
    assert one.times().min(axis=1) == pytest.approx(np.array(list(known.values())), rel=0.03)


class Gpu(Virtual):
    """A device's clock beside the host's: the host waits 20 ms for what the device is said to do in one."""

    def synchronise(self) -> None:
        time.sleep(0.02)


def test_warm_caches_and_the_host_s_share_are_told_beside_a_gpu_s_time() -> None:
    """triton 404, TileGym 118: warm and cold are different measures, named (case 2)."""
    clock = Gpu()
    told = screen.otherwise(clock.spend(lambda: 1e-3), clock, 1e-3)
    assert told["warm_s"] == pytest.approx(1e-3) and 0.02 <= float(told["host_s"]) < 0.2
    assert clock.now == pytest.approx(screen.OTHERWISE_CALLS * 1e-3)


def test_warm_up_goes_on_until_successive_medians_agree_and_calls_at_least_once() -> None:
    """triton 2306: a fixed warm-up in ms under-warms slow kernels (case 1)."""
    clock, lengths = Virtual(), [30.0, 20.0, 10.0, 8.0, 6.0, 4.0] + [1.0] * 100
    left = iter(lengths)
    estimate = screen.warm_up(clock.spend(lambda: next(left)), clock)
    assert estimate == 1.0 and len(list(left)) == 100 - 5
    calls = 0

    def once() -> dict[str, Any]:
        nonlocal calls
        calls += 1
        return {}

    screen.warm_up(once, CLOCK, limit_s=0.0)
    assert calls == 1


def question(suite: KernelSuite, cpu: Device) -> screen.Question:
    return screen.ask(suite, suite.case(), cpu, 0)


def screened(name: str, cpu: Device) -> Entrant:
    suite = faulty()[0]
    return screen.screen(suite.contender(name), question(suite, cpu), cpu, CLOCK, QUICK, lambda step, limit: None)


@pytest.mark.parametrize(
    ("name", "status", "said"),
    [
        ("zeros", "incorrect", "off by"),
        ("cached", "incorrect", "off by"),
        ("in-place", "incorrect", "changed its inputs in place: x"),
        ("not-a-number", "incorrect", "off by inf"),
        ("nameless", "incorrect", "gives no out"),
        ("imports-nothing", "unsupported", "a_library_that_is_not_there"),
        ("not-installed", "unsupported", "no-such-distribution is not installed"),
        ("not-here", "unsupported", "needs a machine"),
        ("raises", "crashed", "KeyError"),
        ("asks-for-too-much", "out_of_memory", "memory"),
    ],
)
def test_planted_cheats_and_faults_are_caught_while_screening(name: str, status: str, said: str, cpu: Device) -> None:
    assert name in PLANTS or name.startswith("not-")
    with pytest.raises(Failed) as caught:
        screened(name, cpu)
    assert caught.value.status == status and said in caught.value.reason


def test_an_honest_contender_passes_with_its_facts(cpu: Device) -> None:
    passed = screened("honest-a", cpu)
    assert 0 < passed.facts["error_max"] < 1e-3 and 0 < passed.facts["error_limit_share"] < 1
    assert passed.facts["peak_bytes"] == 192 * 192 * 4
    assert passed.facts["first_call_s"] > 0 and passed.estimate_s > 0


def test_changing_the_inputs_only_once_the_race_is_on_is_told_and_costs_nobody_else(cpu: Device) -> None:
    suite = late()
    asked = question(suite, cpu)
    entrants = [screen.screen(one, asked, cpu, CLOCK, QUICK, lambda step, limit: None) for one in suite.contenders]
    one = Race(entrants, CLOCK, QUICK, 20.0, no_beat, asked.arena)
    one.run(Benchmark())
    assert one.names == ["honest-a"] and one.failures["late"].status == "incorrect"
    assert "changed its inputs in place: x" in one.failures["late"].reason
    screen.check(lambda: one.last["honest-a"], entrants[0].inputs, asked)


def test_contenders_work_on_the_same_memory_and_get_their_own_of_what_they_may_change(cpu: Device) -> None:
    seen: list[int] = []

    def build(case: Case, inputs: Tensors) -> Run:
        seen.append(inputs["x"].data_ptr())
        return lambda: {"out": inputs["x"] @ inputs["x"]}

    contenders = [Contender(name, "planted", "bancada", build) for name in ("a", "b")]
    for mutates in ((), ("x",)):
        suite = dataclasses.replace(sound()[0].with_contenders(contenders), mutates=mutates)
        asked = question(suite, cpu)
        kept = [screen.screen(one, asked, cpu, CLOCK, QUICK, lambda step, limit: None) for one in contenders]
        assert len(kept) == 2
    assert seen[0] == seen[1] and seen[2] != seen[3]


def test_inputs_are_the_same_for_every_contender_and_fresh_by_seed(cpu: Device) -> None:
    suite = sound()[0]
    first, second = question(suite, cpu), question(suite, cpu)
    assert torch.equal(first.inputs["x"], second.inputs["x"])
    assert not torch.equal(first.inputs["x"], first.decoy["x"])


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (MemoryError(), "out_of_memory"),
        (torch.OutOfMemoryError("CUDA out of memory"), "out_of_memory"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: 12 bytes"), "out_of_memory"),
        (ImportError("no libfoo"), "unsupported"),
        (NotImplementedError("no backward on CPU"), "unsupported"),
        (type("OutOfResources", (Exception,), {})("shared memory, Required: 300000"), "unsupported"),
        (RuntimeError("boom"), "crashed"),
    ],
)
def test_exceptions_become_typed_statuses(error: BaseException, status: str) -> None:
    """tritonbench 873: OutOfResources ended the run (case 12)."""
    assert screen.failure(error).status == status


def test_peak_memory_sees_what_is_freed_on_the_way_and_inside_operators(cpu: Device) -> None:
    size = 1 << 20

    def call() -> torch.Tensor:
        first = torch.empty(2 * size, dtype=torch.uint8)
        second = torch.empty(3 * size, dtype=torch.uint8)
        del first, second
        return torch.empty(size, dtype=torch.uint8)

    assert memory.peak(call, cpu).allocated == 5 * size


@pytest.mark.parametrize(("waited", "seconds"), [(0.0, 0.001), (0.02, 0.021)])
def test_a_reading_waits_for_other_streams_and_counts_the_wait(
    waited: float, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pytorch 177765: no synchronisation (case 4). Events 1 ms apart on the current stream; others work on."""
    from bancada import clock

    now = 0.0

    def wait() -> None:
        nonlocal now
        now += waited

    event = SimpleNamespace(record=lambda: None, synchronize=lambda: None, elapsed_time=lambda later: 1.0)
    monkeypatch.setattr(torch.cuda, "Event", lambda enable_timing: event)
    monkeypatch.setattr(torch.cuda, "synchronize", wait)
    monkeypatch.setattr(clock, "time", SimpleNamespace(perf_counter=lambda: now))
    assert clock.CudaReading() - clock.CudaReading() == pytest.approx(seconds)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_work_left_on_a_stream_of_its_own_is_counted() -> None:
    """mlx-benchmark 21: no synchronisation, 0.03 ms for a 1.36 ms matmul (case 4)."""
    from bancada.clock import CudaClock

    x = torch.randn(4096, 4096, device="cuda")
    stream, clock = torch.cuda.Stream(), CudaClock()

    def here() -> None:
        for _ in range(10):
            x @ x

    def elsewhere() -> None:
        with torch.cuda.stream(stream):
            here()

    def seconds(call: Callable[[], None]) -> float:
        call()
        torch.cuda.synchronize()
        before = clock()
        call()
        return float(clock() - before)

    assert seconds(elsewhere) > 0.5 * seconds(here)


class Counter:
    """A stateful contender: every call adds x to its sum."""

    def __init__(self, inputs: Tensors, keeps_state: bool) -> None:
        self._x, self._sum, self._keeps = inputs["x"], torch.zeros_like(inputs["x"]), keeps_state

    def __call__(self) -> Tensors:
        self._sum = self._sum + self._x @ self._x
        return {"out": self._sum, "measure.state_bytes": torch.tensor(float(self._sum.nbytes))}

    def reset(self) -> None:
        if not self._keeps:
            self._sum = torch.zeros_like(self._x)


@pytest.mark.parametrize("keeps", [False, True])
def test_a_stateful_contender_is_judged_from_its_start_and_its_measures_are_kept(keeps: bool, cpu: Device) -> None:
    contender = Contender("counter", "planted", "bancada", lambda case, inputs: Counter(inputs, keeps))
    suite = dataclasses.replace(sound()[0].with_contenders([contender]), stateful=True)
    if keeps:  # one that does not go back is told: its answer goes on from the decoy's
        with pytest.raises(Failed, match="off by"):
            screen.screen(contender, question(suite, cpu), cpu, CLOCK, QUICK, lambda step, limit: None)
        return
    passed = screen.screen(contender, question(suite, cpu), cpu, CLOCK, QUICK, lambda step, limit: None)
    assert passed.facts["measure.state_bytes"] == 192 * 192 * 4


def test_static_inputs_may_be_worked_on_before_the_first_call(cpu: Device) -> None:
    def build(case: Case, inputs: Tensors) -> Run:
        weight = inputs["x"].clone()
        return lambda: {"out": weight @ weight}

    contender = Contender("prepared", "planted", "bancada", build)
    plain = sound()[0].with_contenders([contender])
    with pytest.raises(Failed, match="off by"):
        screen.screen(contender, question(plain, cpu), cpu, CLOCK, QUICK, lambda step, limit: None)
    static = dataclasses.replace(plain, static=("x",))
    screen.screen(contender, question(static, cpu), cpu, CLOCK, QUICK, lambda step, limit: None)


def test_the_last_cache_is_flushed_before_every_sample_where_the_device_asks_for_it() -> None:
    """triton 404, TileGym 118: without a flush the ranking flips and bandwidth is 1.6x too high (case 2)."""

    class Counting(Virtual):
        events: ClassVar[list[str]] = []

        def flush(self) -> None:
            self.events.append("flush")

    def run() -> dict[str, Any]:
        Counting.events.append("call")
        return {}

    clock = Counting()
    one = Race([entrant("a", run, 1.0), entrant("b", run, 1.0)], clock, QUICK, 100.0, no_beat)
    one.run(Benchmark(clock))
    assert len(Counting.events) >= 4 and Counting.events[0::2] == ["flush"] * (len(Counting.events) // 2)
