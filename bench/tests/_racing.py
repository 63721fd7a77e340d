"""What tests of race, clock and screening share: contenders of known length, a clock that they alone move."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from _planted import faulty

from bancada import screen
from bancada.clock import CpuClock
from bancada.screen import Entrant
from bancada.settings import Settings
from bancada.suite import Contender, Device, KernelSuite

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


def question(suite: KernelSuite, cpu: Device) -> screen.Question:
    return screen.ask(suite, suite.case(), cpu, 0)


def screened(name: str, cpu: Device) -> Entrant:
    suite = faulty()[0]
    return screen.screen(suite.contender(name), question(suite, cpu), cpu, CLOCK, QUICK, lambda step, limit: None)
