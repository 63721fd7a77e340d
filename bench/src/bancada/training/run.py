"""One training run: a contender, a seed, a point of its search space. Every update is timed alone."""

from __future__ import annotations

import contextlib
import gc
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import torch

from bancada import memory
from bancada.clock import Clock
from bancada.screen import Failed, failure
from bancada.settings import Settings
from bancada.suite import Case, Device
from bancada.training.declare import Hyper, Learner, Split, Task, TrainingContender

_ENOUGH = 25  # updates whose median stands for those that are not timed
Beat = Callable[[str, str, float], None]
"""`beat(step, contender, limit_s)`: what begins now, and how long it may take."""


@dataclass(frozen=True)
class Bench:
    """What a run is measured with."""

    device: Device
    clock: Clock
    settings: Settings
    beat: Beat


@contextlib.contextmanager
def blamed(place: str) -> Iterator[None]:
    """Turns whatever a contender raises into a typed `Failed` that says where it happened."""
    try:
        yield
    except Failed:
        raise
    except Exception as error:
        found = failure(error)
        raise Failed(found.status, f"{place}: {found.reason}") from error
    except SystemExit as error:
        raise Failed("crashed", f"{place}: tried to end the process: SystemExit({error.code!r})") from error


@dataclass
class Run:
    """A learner on its way.

    Its first update compiles and allocates, and where `measure_memory` its second is watched by the profiler: neither
    is a sample. Both count in `seconds` as much as the other updates take. Random numbers are set before every update,
    by seed and number, so that what a contender draws does not depend on who had its turn before. `where` names the run
    in reasons (`seed 1`, `trial 0`).
    """

    contender: TrainingContender
    task: Task
    hyper: Hyper
    seed: int
    bench: Bench
    where: str
    measure_memory: bool = False
    updates: int = 0
    facts: dict[str, int | float] = field(default_factory=dict)
    losses: list[float] = field(default_factory=list)
    spent_s: float = 0.0

    def __post_init__(self) -> None:
        self._times: list[float | None] = []  # None: an update that is no sample
        self._timed_s, self._untimed = 0.0, 0
        self._learner: Learner | None = None

    @property
    def id(self) -> str:
        """The contender's."""
        return self.contender.id

    @property
    def learner(self) -> Learner:
        """What was built."""
        assert self._learner is not None, "a run is built before it is used"
        return self._learner

    def build(self, case: Case) -> None:
        """Makes the learner. Failed where that goes wrong."""
        self.bench.beat(f"build ({self.where})", self.id, self.bench.settings.compile_limit_s)
        seed_all(self.seed)
        start = time.perf_counter()
        with blamed("build"):
            self._learner = self.contender.build(case, self.task, self.hyper)
        self.bench.clock.synchronise()
        self.facts["build_s"] = time.perf_counter() - start

    def release(self) -> None:
        """Lets go of the model and the optimizer's state."""
        self._learner = None

    def update(self) -> None:
        """One update. Failed where it raises, changes its batch, or its loss is not finite."""
        number = self.updates + 1
        settings = self.bench.settings
        limit = settings.update_limit_s if self.updates else settings.compile_limit_s
        self.bench.beat(f"update {number} ({self.where})", self.id, limit)
        with blamed(f"update {number} ({self.where})"):
            batch = self.task.batch(self.updates)
            versions = {name: tensor._version for name, tensor in batch.items()}
            seed_all(self.seed * 1_000_003 + number)
            loss = self._step(batch)
        if changed := [name for name, tensor in batch.items() if tensor._version != versions[name]]:
            raise Failed("incorrect", f"changed its batch in place at update {number}: {', '.join(changed)}")
        self.updates = number
        if not math.isfinite(loss):
            raise diverged(number, self.where)
        self.losses.append(loss)

    def _step(self, batch: Mapping[str, torch.Tensor]) -> float:
        if self.measure_memory and self.updates == 1:
            return self._watched(batch)
        was_on, clock = gc.isenabled(), self.bench.clock
        gc.disable()
        try:
            before = clock()
            loss = self.learner.update(batch)
            took = max(float(clock() - before), 1e-9)
        finally:
            if was_on:
                gc.enable()
        if not self.updates:
            self.facts["first_call_s"] = took
        self._took(took, sample=self.updates > 0)
        return float(loss.detach())

    def _watched(self, batch: Mapping[str, torch.Tensor]) -> float:
        """An update under the memory profiler."""
        kept: list[torch.Tensor] = []
        start = time.perf_counter()
        peak = memory.peak(lambda: kept.append(self.learner.update(batch)), self.bench.device)
        self.facts["peak_bytes"] = peak.allocated
        if peak.host is not None:
            self.facts["host_peak_bytes"] = peak.host
        self._took(time.perf_counter() - start, sample=False)
        return float(kept[0].detach())

    def _took(self, seconds: float, sample: bool) -> None:
        self.spent_s += seconds
        self._times.append(seconds if sample else None)
        self._timed_s += seconds if sample else 0.0
        self._untimed += not sample

    def evaluate(self, split: Split) -> dict[str, float]:
        """What the task says of the model now, outside any timed window. Failed where it raises or is not finite."""
        self.bench.beat(f"evaluation at {self.updates} ({self.where})", self.id, self.bench.settings.call_limit_s)
        seed_all(self.seed)
        with blamed(f"evaluation at update {self.updates} ({self.where})"):
            found = {name: float(value) for name, value in self.task.evaluate(self.learner.model, split).items()}
        if not all(map(math.isfinite, found.values())):
            raise diverged(self.updates, self.where)
        return found

    def state_bytes(self) -> dict[str, int]:
        """What the learner keeps between updates, as row fields."""
        with blamed("state_bytes"):
            return {f"measure.bytes.{kind}": int(size) for kind, size in self.learner.state_bytes().items()}

    @property
    def seconds(self) -> float:
        """Seconds of all updates until now; one that is no sample counts as the median of the first that are."""
        return self._timed_s + self._untimed * self._usual()

    def _usual(self) -> float:
        first = self.samples(end=_ENOUGH)
        return statistics.median(first) if first else 0.0

    def samples(self, start: int = 0, end: int | None = None) -> list[float]:
        """Seconds of the timed updates from number `start` (from 0) to before `end`."""
        return [took for took in self._times[start:end] if took is not None]

    def seconds_at(self, updates: list[int]) -> list[float]:
        """Seconds of updates until after each of some numbers of updates."""
        usual = self._usual() or self.facts.get("first_call_s", 0.0)
        total, sums = 0.0, [0.0]
        for took in self._times:
            total += usual if took is None else took
            sums.append(total)
        return [sums[number] for number in updates]


def seed_all(seed: int) -> None:
    """Sets torch's random numbers. `torch.manual_seed` would take milliseconds where CUDA has not been used yet."""
    torch.default_generator.manual_seed(seed % 2**63)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.manual_seed_all(seed % 2**63)


def diverged(update: int, where: str) -> Failed:
    """The failure of a run whose loss is no longer a finite number."""
    return Failed("incorrect", f"diverged at update {update} ({where})")


def fresh_compilation(compiles: bool) -> None:
    """Forgets compiled code before models are built anew: each would count against torch's limit of recompilations."""
    if compiles and "torch._dynamo" in sys.modules:
        torch._dynamo.reset()


@contextlib.contextmanager
def settled() -> Iterator[None]:
    """Keeps what is already there (libraries, mostly) out of every collection inside: each would take half a second."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def collect() -> None:
    """Frees what ended runs held, so that the next begin from the same memory."""
    gc.collect()
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.empty_cache()
