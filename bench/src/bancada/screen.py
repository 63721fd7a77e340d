"""Screening: each contender alone, before the race.

Availability, build, first call, correctness, untouched inputs, peak memory, warm-up. The inputs lie in the same
memory for all. The first call runs on decoy values; the right ones are then written over them in place, and the
second call's answer is judged: a contender that hands out a stored result hands out the decoy's.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

from bancada import accuracy, memory, telemetry
from bancada.arena import Arena
from bancada.clock import Clock, CpuClock
from bancada.settings import Settings
from bancada.suite import Case, Contender, Device, Entry, KernelSuite, Run, Tensors

Beat = Callable[[str, float], None]
OTHERWISE_CALLS = 9
Fact = str | int | float | bool


class Failed(Exception):
    """A contender that cannot race, with the status and reason of its row."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


@dataclass
class Entrant:
    """A contender that has passed, ready to race."""

    contender: Contender
    run: Run
    inputs: Tensors
    estimate_s: float
    loops: int
    facts: dict[str, Fact]


@dataclass(frozen=True)
class Question:
    """A case with its inputs, a decoy of the same shapes, the answer in float64 and the limits of error."""

    suite: KernelSuite
    case: Case
    inputs: Tensors
    decoy: Tensors
    answer: Tensors
    limits: dict[str, float]
    arena: Arena


def ask(suite: KernelSuite, case: Case, device: Device, seed: int) -> Question:
    """Makes the inputs and the answer of a case, once for all its contenders."""
    inputs = suite.inputs(case, device.torch_device, seed)
    decoy = dict(suite.inputs(case, device.torch_device, seed + 1))
    decoy |= {name: inputs[name] for name in suite.static}
    answer = suite.oracle(case, inputs)
    limits = dict(suite.tolerance(case, inputs, answer))
    if missing := sorted(set(answer) - set(limits)):
        raise ValueError(f"suite {suite.id}: tolerance names no limit for {', '.join(missing)}")
    return Question(suite, case, inputs, decoy, answer, limits, Arena(inputs, suite.mutates))


def screen(
    contender: Contender, question: Question, device: Device, clock: Clock, settings: Settings, beat: Beat
) -> Entrant:
    """Everything but the race for one contender.

    Raises:
        Failed: with the status and the reason, whatever went wrong inside the contender.
    """
    facts: dict[str, Fact] = {}
    try:
        available(contender, question.case, device)
        beat("build", settings.compile_limit_s)
        lent = question.arena.lend(question.decoy)
        start = time.perf_counter()
        run = contender.build(question.case, lent)
        facts["build_s"] = time.perf_counter() - start
        beat("first call", settings.compile_limit_s)
        start = time.perf_counter()
        run()
        clock.synchronise()
        facts["first_call_s"] = time.perf_counter() - start
        beat("check", settings.call_limit_s)
        restore(run, lent, question)
        facts |= check(run, lent, question)
        beat("memory", settings.call_limit_s)
        peak = memory.peak(run, device)
        facts["peak_bytes"] = peak.allocated
        if peak.host is not None:
            facts["host_peak_bytes"] = peak.host
        beat("warm-up", settings.call_limit_s)
        estimate = warm_up(run, clock)
        if not isinstance(clock, CpuClock):
            facts |= otherwise(run, clock, estimate)
        beat("energy", telemetry.FEWEST_CALLS * settings.call_limit_s + 10 * settings.energy_s)
        asked = telemetry.probe(device.type)
        if (joules := telemetry.energy_per_call(run, clock, asked, settings.energy_s, estimate)) is not None:
            facts["energy_j"] = joules
    except Failed:
        raise
    except RAISED as error:
        raise failure(error) from error
    return Entrant(contender, run, lent, estimate, 1, facts)


def available(contender: Entry[Any], case: Case, device: Device) -> None:
    """Failed (`unsupported`) where a contender lacks a distribution, or says that it cannot run a case here."""
    for name in contender.requires:
        try:
            version(name)
        except PackageNotFoundError:
            raise Failed("unsupported", f"{name} is not installed") from None
    if (reason := contender.supports(case, device)) is not None:
        raise Failed("unsupported", reason)


def restore(run: Run, lent: Tensors, question: Question) -> None:
    """Writes the right inputs over what a contender works on, in place, and takes a stateful run back to its start."""
    question.arena.write(lent, question.inputs)
    if question.suite.stateful:
        run.reset()  # type: ignore[attr-defined]


def check(run: Run, inputs: Tensors, question: Question) -> dict[str, Fact]:
    """One call judged against the answer: its errors as row fields. Failed where it is wrong or changed its inputs."""
    outputs = run()
    judgement = accuracy.judge(outputs, question.answer, question.limits)
    changed = accuracy.changed_inputs(question.inputs, inputs, question.suite.mutates)
    if changed:
        raise wrote(changed)
    if judgement.wrong:
        raise Failed("incorrect", judgement.wrong)
    measures = {name: float(value) for name, value in outputs.items() if name.startswith("measure.")}
    return {**accuracy.fields(judgement), **measures}


def wrote(names: list[str]) -> Failed:
    """The failure of a contender that changed its inputs."""
    return Failed("incorrect", f"changed its inputs in place: {', '.join(names)}")


def warm_up(run: Run, clock: Clock, limit_s: float = 1.0, agree: float = 0.05) -> float:
    """Calls until the medians of successive threes agree, at least once; the quickest call in seconds.

    A fixed number of milliseconds under-warms slow kernels, so it is the agreement that ends it;
    `limit_s` only bounds how long a noisy one may go on.
    """
    samples: list[float] = []
    begin = time.perf_counter()
    while True:
        before = clock()
        run()
        samples.append(max(float(clock() - before), 1e-9))
        recent, earlier = samples[-3:], samples[-6:-3]
        settled = len(samples) >= 6 and abs(statistics.median(recent) / statistics.median(earlier) - 1) < agree
        if settled or time.perf_counter() - begin > limit_s:
            return min(samples)


def otherwise(run: Run, clock: Clock, call_s: float) -> dict[str, Fact]:
    """What a call on a GPU takes otherwise than in a race, where caches are cold and the device's time counts alone.

    `warm_s` is the device's time with caches as the call before left them; `host_s` the host's, from the call to the
    moment when all its work is done. Medians of a few calls.
    """
    warm, host = [], []
    for _ in range(OTHERWISE_CALLS if call_s < 0.1 else 3):
        clock.synchronise()
        start = time.perf_counter()
        before = clock()
        run()
        after = clock()
        clock.synchronise()
        host.append(time.perf_counter() - start)
        warm.append(float(after - before))
    return {"warm_s": statistics.median(warm), "host_s": statistics.median(host)}


RAISED = (Exception, SystemExit)
"""What a contender may raise at the cost of its own row alone."""


def failure(error: BaseException) -> Failed:
    """The typed status of an exception that a contender raised."""
    text = " ".join(f"{type(error).__name__}: {error}".split())[:600]
    if isinstance(error, Failed):
        return error
    if isinstance(error, SystemExit):
        return Failed("crashed", f"tried to end the process: SystemExit({error.code!r})")
    if is_out_of_memory(error):
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            torch.cuda.empty_cache()
        return Failed("out_of_memory", text)
    if isinstance(error, ImportError):
        return Failed("unsupported", f"cannot be imported: {text}")
    if isinstance(error, NotImplementedError) or type(error).__name__ == "OutOfResources":
        return Failed("unsupported", text)
    return Failed("crashed", text)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that memory ran out: torch's on a GPU, its allocator's on a CPU, Python's own."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError) and any(
        sign in text for sign in ("can't allocate memory", "not enough memory", "out of memory")
    )
