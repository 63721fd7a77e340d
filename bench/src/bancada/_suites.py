"""The harness's own suites, whose right answers are known.

Identical contenders (every verdict is false), some slower by a planted share, and one that takes a known time.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable

import torch

from bancada.suite import Axis, Case, Contender, KernelSuite, Run, Technique, Tensors, Work

CONTENDERS = 8
AA_SIZES = {"matmul": 128, "softmax": 256, "copy": 512}  # by operation: a call of a millisecond or so
PARTS = 20  # calls in one of a contender's; one more is 5%
PLANTED = {"5%": PARTS, "0.5%": 200}  # by what one part more makes: how many there are
SPINS_US = (100, 1_000, 10_000)

_AXES = (
    Axis("operation", "{}", str, choices=tuple(AA_SIZES)),
    Axis("size", "n{}", int, minimum=1, scale="log"),
    Axis("dtype", "{}", str, choices=("fp32",)),
    Axis("repeat", "r{}", int, minimum=0),
)
_PARTS = Axis("parts", "of{}", int, choices=tuple(PLANTED.values()))
_NOTHING = Technique(
    "aa",
    "Identical contenders",
    "Concorrentes idênticos",
    "harness",
    "The same code under several names.",
    "t_a = t_b",
    "-",
)


def _call(case: Case, x: torch.Tensor) -> torch.Tensor:
    operation = case.word("operation")
    if operation == "matmul":
        return x @ x
    if operation == "softmax":
        return torch.softmax(x, dim=-1)
    return x.clone()


def _parts(case: Case) -> int:
    return int(dict(case.axes).get("parts", PARTS))


def _build(more: int) -> Callable[[Case, Tensors], Run]:
    """A contender that does the operation so many times more than the case's parts."""

    def build(case: Case, inputs: Tensors) -> Run:
        x, before = inputs["x"], _parts(case) + more - 1

        def run() -> Tensors:
            for _ in range(before):
                _call(case, x)
            return {"out": _call(case, x)}

        return run

    return build


def _spin(case: Case, inputs: Tensors) -> Run:
    """Takes the case's microseconds by the system's clock."""
    seconds, out = case.number("microseconds") * 1e-6, {"out": inputs["x"]}

    def run() -> Tensors:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            pass
        return out

    return run


def _inputs(case: Case, device: str, seed: int) -> Tensors:
    generator = torch.Generator().manual_seed(seed * 1_000 + case.number("repeat"))
    size = case.number("size")
    return {"x": torch.randn(size, size, generator=generator).to(device)}


def _oracle(case: Case, inputs: Tensors) -> Tensors:
    return {"out": _call(case, inputs["x"].double())}


def _tolerance(case: Case, inputs: Tensors, answer: Tensors) -> dict[str, float]:
    return {"out": 1e-5 * case.number("size") ** 0.5 * max(1.0, float(answer["out"].abs().max()))}


def _work(case: Case) -> Work:
    cells = float(case.number("size") ** 2)
    flops = {"matmul": 2.0 * cells * case.number("size"), "softmax": 5.0 * cells, "copy": 0.0}
    return Work(_parts(case) * flops[case.word("operation")], 8.0 * cells)


def identical(contenders: int = CONTENDERS, slow: int = 0) -> KernelSuite:
    """`harness.aa`: identical contenders, of which the last `slow` do one part more work."""
    ids = [f"same-{index}" for index in range(contenders - slow)] + [f"slow-{index}" for index in range(slow)]
    made = tuple(Contender(name, "aa", "bancada", _build(int(name.startswith("slow")))) for name in ids)
    return KernelSuite(
        id="harness.aa",
        title="Identical contenders",
        family="harness",
        question="How often is a verdict false?",
        axes=_AXES,
        defaults={"operation": "matmul", "size": 128, "dtype": "fp32", "repeat": 0},
        inputs=_inputs,
        oracle=_oracle,
        tolerance=_tolerance,
        work=_work,
        techniques=(_NOTHING,),
        contenders=made,
        x_axis="size",
    )


def planted() -> KernelSuite:
    """`harness.planted`: half of the contenders are slower by one part in 20 (5%) or in 200 (0.5%), by construction."""
    suite = identical(slow=CONTENDERS // 2)
    return dataclasses.replace(
        suite,
        id="harness.planted",
        title="A planted slowdown",
        axes=(*suite.axes, _PARTS),
        defaults={**suite.defaults, "parts": PARTS},
    )


def spin() -> KernelSuite:
    """`harness.spin`: a contender that takes a known time, so that the clock and all around it can be judged."""
    return KernelSuite(
        id="harness.spin",
        title="A known duration",
        family="harness",
        question="Is a known time measured right?",
        axes=(Axis("microseconds", "{}us", int, minimum=1),),
        defaults={"microseconds": SPINS_US[1]},
        inputs=lambda case, device, seed: {"x": torch.full((8,), float(seed)).to(device)},
        oracle=lambda case, inputs: {"out": inputs["x"].double()},
        tolerance=lambda case, inputs, answer: {"out": 0.0},
        work=lambda case: Work(0.0, 32.0),
        techniques=(_NOTHING,),
        contenders=(Contender("spin", "aa", "bancada", _spin),),
        x_axis="microseconds",
    )


def suites() -> list[KernelSuite]:
    """What the harness registers."""
    return [identical(), planted(), spin()]
