"""The harness's own suites: identical contenders, whose race shows how often a verdict is false."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch

from bancada.suite import Axis, Case, Contender, KernelSuite, Run, Technique, Tensors, Work

CONTENDERS = 8
AA_SIZES = {"matmul": 128, "softmax": 256, "copy": 512}  # by operation: a call of a millisecond or so
PLANTED_PARTS = 20  # one part in twenty more work is 5%

_AXES = (
    Axis("operation", "{}", str, choices=tuple(AA_SIZES)),
    Axis("size", "n{}", int, minimum=1, scale="log"),
    Axis("dtype", "{}", str, choices=("fp32",)),
    Axis("repeat", "r{}", int, minimum=0),
)
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


def _build(parts: int) -> Callable[[Case, Tensors], Run]:
    """A contender that does the operation `parts` times; the planted one does one part in twenty more."""

    def build(case: Case, inputs: Tensors) -> Run:
        x = inputs["x"]

        def run() -> Tensors:
            for _ in range(parts - 1):
                _call(case, x)
            return {"out": _call(case, x)}

        return run

    return build


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
    return Work(PLANTED_PARTS * flops[case.word("operation")], 8.0 * cells)


def identical(contenders: int = CONTENDERS, slow: int = 0) -> KernelSuite:
    """`harness.aa`: identical contenders, of which the last `slow` do exactly 5% more work."""
    ids = [f"same-{index}" for index in range(contenders - slow)] + [f"slow-{index}" for index in range(slow)]
    made = tuple(Contender(name, "aa", "bancada", _build(PLANTED_PARTS + name.startswith("slow"))) for name in ids)
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
    """`harness.planted`: half of the contenders are 5% slower by construction."""
    return dataclasses.replace(identical(slow=CONTENDERS // 2), id="harness.planted", title="A planted slowdown of 5%")


def suites() -> list[KernelSuite]:
    """What the harness registers."""
    return [identical(), planted()]
