"""Suites for the harness's own tests: honest contenders beside ones that cheat, break, hang or ask for too much."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import cast

import torch

from bancada.suite import Axis, Case, Contender, Device, KernelSuite, Run, Technique, Tensors, Work

CARD = Technique("planted", "Planted", "Plantado", "attention", "For tests.", "y = x x", "-")
SIZE = 192


def _honest(case: Case, inputs: Tensors) -> Run:
    return lambda: {"out": inputs["x"] @ inputs["x"]}


def _zeros(case: Case, inputs: Tensors) -> Run:
    return lambda: {"out": torch.zeros_like(inputs["x"])}


def _cached(case: Case, inputs: Tensors) -> Run:
    """Computes once, and hands the stored result out ever after."""
    kept: dict[str, torch.Tensor] = {}

    def run() -> Tensors:
        if not kept:
            kept["out"] = inputs["x"] @ inputs["x"]
        return kept

    return run


def _cunningly_cached(case: Case, inputs: Tensors) -> Run:
    """Computes again whenever its input has been written to, so that only the time it takes betrays it."""
    kept: dict[int, torch.Tensor] = {}

    def run() -> Tensors:
        version = inputs["x"]._version
        if version not in kept:
            kept[version] = inputs["x"] @ inputs["x"]
        return {"out": kept[version]}

    return run


def _in_place(case: Case, inputs: Tensors) -> Run:
    def run() -> Tensors:
        out = inputs["x"] @ inputs["x"]
        inputs["x"].mul_(0.5)
        return {"out": out}

    return run


def _called_from(function: str) -> bool:
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_code.co_qualname == function:
            return True
    return False


def _in_the_race() -> bool:
    """Whether the harness is timing, and not screening."""
    return _called_from("Race._target")


def _late_in_place(case: Case, inputs: Tensors) -> Run:
    """Behaves while it is screened."""

    def run() -> Tensors:
        out = inputs["x"] @ inputs["x"]
        if _in_the_race():
            inputs["x"].mul_(0.5)
        return {"out": out}

    return run


def _behind_torchs_back(case: Case, inputs: Tensors) -> Run:
    """Writes to its inputs by their address, in the race only: torch's version counter does not see it."""
    memory = inputs["x"].numpy()

    def run() -> Tensors:
        out = inputs["x"] @ inputs["x"]
        if _called_from("Race._target") or _called_from("RaceItem._judged"):
            memory[0, 0] += 1.0
        return {"out": out}

    return run


def _not_a_number(case: Case, inputs: Tensors) -> Run:
    return lambda: {"out": (inputs["x"] @ inputs["x"]).fill_(float("nan"))}


def _nameless(case: Case, inputs: Tensors) -> Run:
    return lambda: {"result": inputs["x"] @ inputs["x"]}


def _imports_nothing(case: Case, inputs: Tensors) -> Run:
    import a_library_that_is_not_there  # type: ignore[import-not-found]

    return _honest(case, inputs) if a_library_that_is_not_there else _zeros(case, inputs)


def _raises(case: Case, inputs: Tensors) -> Run:
    def run() -> Tensors:
        raise KeyError("<script>alert('x')</script>")

    return run


def _asks_for_too_much(case: Case, inputs: Tensors) -> Run:
    return lambda: {"out": torch.empty(1 << 46)}


def _segfaults(case: Case, inputs: Tensors) -> Run:
    def run() -> Tensors:
        import ctypes

        ctypes.string_at(0)
        raise AssertionError("not reached")

    return run


def _is_killed(case: Case, inputs: Tensors) -> Run:
    def run() -> Tensors:
        os.kill(os.getpid(), 9)
        raise AssertionError("not reached")

    return run


def _leaves(case: Case, inputs: Tensors) -> Run:
    def run() -> Tensors:
        os._exit(0)

    return run


def _hangs(case: Case, inputs: Tensors) -> Run:
    def run() -> Tensors:
        time.sleep(3_600)
        raise AssertionError("not reached")

    return run


def _hangs_in_the_race(case: Case, inputs: Tensors) -> Run:
    def run() -> Tensors:
        if _in_the_race():
            time.sleep(3_600)
        return {"out": inputs["x"] @ inputs["x"]}

    return run


def _leaves_in_the_race(case: Case, inputs: Tensors) -> Run:
    """By an exception that says so."""

    def run() -> Tensors:
        if _in_the_race():
            raise SystemExit(3)
        return {"out": inputs["x"] @ inputs["x"]}

    return run


def _nothing_in_the_race(case: Case, inputs: Tensors) -> Run:
    def run() -> Tensors:
        out = inputs["x"] @ inputs["x"]
        return {"out": out} if not _in_the_race() else cast(Tensors, None)

    return run


def _not_here(case: Case, device: Device) -> str | None:
    return "needs a machine that is not this one"


PLANTS: dict[str, Callable[[Case, Tensors], Run]] = {
    "zeros": _zeros,
    "cached": _cached,
    "cunningly-cached": _cunningly_cached,
    "in-place": _in_place,
    "late-in-place": _late_in_place,
    "behind-torchs-back": _behind_torchs_back,
    "not-a-number": _not_a_number,
    "nameless": _nameless,
    "imports-nothing": _imports_nothing,
    "raises": _raises,
    "asks-for-too-much": _asks_for_too_much,
    "segfaults": _segfaults,
    "is-killed": _is_killed,
    "leaves": _leaves,
    "hangs": _hangs,
    "hangs-in-the-race": _hangs_in_the_race,
    "leaves-in-the-race": _leaves_in_the_race,
    "nothing-in-the-race": _nothing_in_the_race,
}


def inputs(case: Case, device: str, seed: int) -> Tensors:
    generator = torch.Generator().manual_seed(seed)
    return {"x": torch.randn(SIZE, SIZE, generator=generator).to(device)}


def _suite(suite_id: str, contenders: tuple[Contender, ...]) -> KernelSuite:
    return KernelSuite(
        id=suite_id,
        title="Planted",
        family="attention",
        question="Is every planted fault told?",
        axes=(Axis("repeat", "r{}", int, minimum=0), Axis("dtype", "{}", str, choices=("fp32",))),
        defaults={"repeat": 0, "dtype": "fp32"},
        inputs=inputs,
        oracle=lambda case, given: {"out": given["x"].double() @ given["x"].double()},
        tolerance=lambda case, given, answer: {"out": 1e-3},
        work=lambda case: Work(2.0 * SIZE**3, 8.0 * SIZE**2),
        techniques=(CARD,),
        contenders=contenders,
        x_axis="repeat",
    )


def honest(name: str) -> Contender:
    return Contender(name, "planted", "bancada", _honest)


def faulty() -> list[KernelSuite]:
    """`planted.faults`: two honest contenders among all the faults."""
    planted = [Contender(name, "planted", "peer", build) for name, build in PLANTS.items()]
    planted.append(Contender("not-installed", "planted", "peer", _honest, requires=("no-such-distribution",)))
    planted.append(Contender("not-here", "planted", "peer", _honest, supports=_not_here))
    return [_suite("planted.faults", (honest("honest-a"), *planted, honest("honest-b")))]


def late() -> KernelSuite:
    """`planted.late`: a contender that changes its inputs only once the race is on."""
    return _suite("planted.late", (honest("honest-a"), Contender("late", "planted", "peer", _late_in_place)))


def sound() -> list[KernelSuite]:
    """`planted.sound`: honest contenders only."""
    return [_suite("planted.sound", (honest("honest-a"), honest("honest-b")))]


FIVE = {
    ("honest-a", 0): "asks-for-too-much",
    ("honest-b", 1): "segfaults",
    ("honest-c", 2): "hangs",
    ("honest-d", 3): "imports-nothing",
    ("honest-a", 4): "zeros",
}
"""What goes wrong in `planted.five`, by contender and repeat."""


def _sometimes(name: str) -> Callable[[Case, Tensors], Run]:
    """Honest but at the repeats that are planted."""

    def build(case: Case, inputs: Tensors) -> Run:
        fault = FIVE.get((name, case.number("repeat")))
        return PLANTS[fault](case, inputs) if fault else _honest(case, inputs)

    return build


def five() -> list[KernelSuite]:
    """`planted.five`: four contenders of which one goes wrong in each of the first five repeats."""
    names = [f"honest-{letter}" for letter in "abcd"]
    return [_suite("planted.five", tuple(Contender(name, "planted", "bancada", _sometimes(name)) for name in names))]
