"""A compile suite for tests: a sound kernel beside ones that do not compile, do not fit, hang or abort."""

from __future__ import annotations

import os
import time
from typing import Any

from bancada.compiled import CompileContender, CompileSuite, Launch
from bancada.compiled.declare import target_axis
from bancada.suite import Axis, Case, Technique, Work

CARD = Technique("planted", "Planted", "Plantado", "harness", "For tests.", "c = a b", "-")


def _launch(case: Case, kernel: str = "product_kernel", **changed: Any) -> Launch:
    import _kernels

    function = getattr(_kernels, kernel)
    given: dict[str, Any] = {"BLOCK": case.number("block"), "DEPTH": 32}
    constants = {name: value for name, value in given.items() if name in function.arg_names}
    types = {"x": "*fp16", "y": "*fp16", "out": "*fp32", "depth": "i32"}
    signature = {name: types.get(name, "constexpr") for name in function.arg_names}
    options = {"num_warps": case.number("num_warps"), "num_stages": 2} | changed
    aligned = tuple(name for name, kind in signature.items() if kind.startswith("*"))
    return Launch(function, signature, constants, aligned, **options)


def _hangs(case: Case) -> Launch:
    time.sleep(600)
    raise AssertionError("nobody waits for this")


def _aborts(case: Case) -> Launch:
    os.abort()


def _leaves(case: Case) -> Launch:
    raise SystemExit(3)


def _out_of_memory(case: Case) -> Launch:
    raise MemoryError("planted")


def _contender(name: str, build: Any, **more: Any) -> CompileContender:
    return CompileContender(name, "planted", "bancada", build, compiles=True, **more)


SOUND = _contender("sound", _launch)
QUICK = (
    SOUND,
    _contender("broken", lambda case: _launch(case, "broken_kernel")),
    _contender("greedy", lambda case: _launch(case, num_stages=24)),
    _contender("out-of-memory", _out_of_memory),
    _contender("leaves", _leaves),
    _contender("library", _launch, requires=("no-such-distribution",)),
    _contender("elsewhere", _launch, supports=lambda case, device: "only on Sundays"),
)


def suite(*contenders: CompileContender) -> CompileSuite:
    """`planted.compile` with these contenders."""
    return CompileSuite(
        id="planted.compile",
        title="Planted kernels",
        family="harness",
        question="Which compile?",
        axes=(
            target_axis("sm_80", "sm_90", "gfx942"),
            Axis("dtype", "{}", str, choices=("fp16", "fp32")),
            Axis("length", "l{}", minimum=1),
            Axis("block", "n{}", minimum=16),
            Axis("num_warps", "w{}", minimum=1),
        ),
        defaults={"target": "sm_80", "dtype": "fp16", "length": 1024, "block": 64, "num_warps": 4},
        work=lambda case: Work(2.0 * case.number("length") ** 3, 8.0 * case.number("length") ** 2),
        techniques=(CARD,),
        contenders=contenders or QUICK,
        x_axis="block",
        configuration=("block", "num_warps"),
        sizes=("length",),
        say=lambda case: f"{case.number('block')}, {case.number('num_warps')} warps",
        matrix=lambda case: True,
        units=lambda case: float(case.number("block") ** 2),
        unit="product",
        loaded=lambda case: 4.0 * case.number("length") ** 3 / case.number("block"),
        stands_for={"planted.timed": {}},
    )


def faulty() -> list[CompileSuite]:
    """What only a process of its own survives, between two that compile."""
    faults = (_contender("aborts", _aborts), _contender("hangs", _hangs))
    return [suite(SOUND, *faults, _contender("sound-too", _launch))]
