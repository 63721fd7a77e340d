"""The timed window: what is in it, what is not, and what a GPU tells beside it."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from _planted import inputs, sound
from _racing import CLOCK, QUICK, Benchmark, Virtual, entrant, no_beat, question, spin

from bancada import screen
from bancada.race import Race
from bancada.settings import Settings
from bancada.suite import Case, Contender, Device, Run, Tensors


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
