"""Suites of ranks for the harness's own tests: an all-reduce of a vector, done honestly and otherwise."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping

import torch
import torch.distributed as dist

from bancada.ranks import RankRun, Ranks, RanksContender, RanksSuite
from bancada.suite import Axis, Case, Device, Technique, Tensors, Work

CARD = Technique("planted", "Planted", "Plantado", "parallelism", "For tests.", "y = sum x", "-")
SIZE = 1000
STEPS = 3


class Summing:
    """Every step adds the sum over the ranks of (rank + 1) x to a total."""

    def __init__(self, inputs: Tensors, ranks: Ranks) -> None:
        self.x, self.ranks = inputs["x"], ranks
        self.total = torch.zeros_like(self.x)

    def step(self) -> None:
        part = self.x * (self.ranks.rank + 1)
        dist.all_reduce(part)
        self.total += part

    def reset(self) -> None:
        self.total.zero_()

    def outputs(self) -> Tensors:
        return {"total": self.total}

    def state_bytes(self) -> Mapping[str, int]:
        return {"total": self.total.nbytes + 8 * self.ranks.rank}

    def close(self) -> None:
        self.total = torch.empty(0)


class Wrong(Summing):
    def outputs(self) -> Tensors:
        return {"total": self.total * 1.001}


class WrongLater(Summing):
    """Its reset forgets something."""

    steps = 0

    def step(self) -> None:
        super().step()
        self.steps += 1

    def outputs(self) -> Tensors:
        return {"total": self.total if self.steps <= STEPS else self.total + 1}


class Chatty(Summing):
    def step(self) -> None:
        super().step()
        dist.barrier()
        dist.all_reduce(torch.zeros(4))


class Raises(Summing):
    def step(self) -> None:
        if self.ranks.rank == 1 and in_the_race():
            raise KeyError("<script>alert('x')</script>")
        super().step()


class Killed(Summing):
    def step(self) -> None:
        if self.ranks.rank == 1 and in_the_race():
            os.kill(os.getpid(), signal.SIGKILL)
        super().step()


class Leaves(Summing):
    def step(self) -> None:
        if self.ranks.rank == 1:
            os._exit(0)
        super().step()


class Sleeps(Summing):
    def step(self) -> None:
        if self.ranks.rank == 1 and in_the_race():
            time.sleep(3_600)
        super().step()


class AsksForTooMuch(Summing):
    def step(self) -> None:
        if self.ranks.rank == 1:
            torch.empty(1 << 46)
        super().step()


def in_the_race() -> bool:
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_code.co_qualname == "Race._sample":
            return True
    return False


def _builds(kind: type[Summing]) -> Callable[[Case, Tensors, Ranks], RankRun]:
    return lambda case, inputs, ranks: kind(inputs, ranks)


def _imports_nothing(case: Case, inputs: Tensors, ranks: Ranks) -> RankRun:
    import a_library_that_is_not_there  # type: ignore[import-not-found]

    return Summing(inputs, ranks) if a_library_that_is_not_there else Wrong(inputs, ranks)


def _not_here(case: Case, device: Device) -> str | None:
    return "needs a machine that is not this one"


def inputs(case: Case, device: str, seed: int) -> Tensors:
    generator = torch.Generator().manual_seed(seed)
    return {"x": torch.randn(SIZE, generator=generator).to(device)}


def oracle(case: Case, given: Tensors) -> Tensors:
    ranks = case.number("world_size")
    return {"total": given["x"].double() * (STEPS * ranks * (ranks + 1) / 2)}


def expected(case: Case, contender: str) -> Mapping[str, int] | None:
    if contender == "wrong-bytes":
        return {"comm.all_reduce.bytes": 4 * SIZE + 4}
    if contender == "imports-nothing":
        return None
    figures = {"comm.all_reduce.calls": 1, "comm.all_reduce.bytes": 4 * SIZE, "comm.barrier.calls": 0}
    return figures | {"bytes.total": 4 * SIZE + 8 * (case.number("world_size") - 1)}


def _suite(suite_id: str, contenders: tuple[RanksContender, ...]) -> RanksSuite:
    return RanksSuite(
        id=suite_id,
        title="Planted",
        family="parallelism",
        question="Is every planted fault of a rank told?",
        axes=(Axis("repeat", "r{}", int, minimum=0), Axis("world_size", "n{}", int, minimum=1)),
        defaults={"repeat": 0, "world_size": 2},
        inputs=inputs,
        oracle=oracle,
        tolerance=lambda case: 1e-6,
        checked_steps=STEPS,
        expected=expected,
        work=lambda case: Work(2.0 * SIZE, 8.0 * SIZE),
        techniques=(CARD,),
        contenders=contenders,
        x_axis="world_size",
    )


def _contender(name: str, kind: type[Summing], **more: object) -> RanksContender:
    return RanksContender(name, "planted", "peer", _builds(kind), **more)  # type: ignore[arg-type]


HONEST = (_contender("honest-a", Summing), _contender("honest-b", Summing))
CHEAP = (
    _contender("wrong", Wrong),
    _contender("wrong-later", WrongLater),
    _contender("wrong-bytes", Summing),
    _contender("chatty", Chatty),
    _contender("not-here", Summing, supports=_not_here),
    _contender("not-installed", Summing, requires=("no-such-distribution",)),
    _contender("elsewhere", Summing, pool="other"),
)
DEADLY = {"raises": Raises, "killed": Killed, "sleeps": Sleeps}
RARE = {"leaves": Leaves, "asks-for-too-much": AsksForTooMuch}


def faulty() -> list[RanksSuite]:
    """`planted.ranks`: two honest contenders among faults, three of which end their pool."""
    deadly = [_contender(name, kind) for name, kind in DEADLY.items()]
    return [_suite("planted.ranks", (HONEST[0], *CHEAP, *deadly, HONEST[1]))]


def rare() -> list[RanksSuite]:
    """`planted.rare`: further ways to end a pool."""
    deadly = [_contender(name, kind) for name, kind in RARE.items()]
    deadly.append(RanksContender("imports-nothing", "planted", "peer", _imports_nothing))
    return [_suite("planted.rare", (HONEST[0], *deadly))]


def sound() -> list[RanksSuite]:
    """`planted.sound`: honest contenders only."""
    return [_suite("planted.sound", HONEST)]
