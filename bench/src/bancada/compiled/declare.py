"""What a compile suite declares: kernels, their configurations, the targets they are compiled for.

A case is one configuration of one kernel for one target. It is compiled without a GPU and never timed; its row tells
what the compiler made of it: registers, stack, shared memory, resident warps, instructions, a lower bound of its time.
Configurations of one kernel, target and size are then ranked, and those that another beats everywhere are marked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bancada.compiled.targets import TARGETS
from bancada.suite import Axis, Case, Entry, Metric, Scalar, Suite

CRITERIA = (
    Metric("stack_bytes", "stack (spilled registers)", "bytes"),
    Metric("matrix_missing", "missing matrix instructions"),
    Metric("bound_s", "lower bound of the time", "s"),
    Metric("instructions", "instructions a unit of work"),
    Metric("resident_warps", "resident warps", better="higher"),
    Metric("loaded_bytes", "bytes loaded by all blocks", "bytes"),
    Metric("stages", "pipeline stages", better="higher"),
)
"""By what configurations are ranked, the weightiest first: each a `measure.NAME` of a row."""


@dataclass(frozen=True)
class Launch:
    """A Triton kernel as it would be launched, for the compiler.

    Args:
        function: the `triton.jit` function.
        signature: the type of each parameter by name (`*bf16`, `i32`, `fp32`, `constexpr`).
        constants: the values of those that are `constexpr`.
        aligned: parameters that are multiples of 16 (pointers and strides of usual tensors).
        num_warps: of a block.
        num_stages: loads in flight, in a pipelined loop.
    """

    function: Any
    signature: Mapping[str, str]
    constants: Mapping[str, Any]
    aligned: tuple[str, ...]
    num_warps: int
    num_stages: int


@dataclass(frozen=True)
class CompileContender(Entry[Callable[[Case], Launch]]):
    """Kernels that are compiled: `build(case) -> Launch` says which one and how; it imports Triton itself."""


def target_axis(*targets: str) -> Axis:
    """The axis `target` that every compile suite has."""
    for target in targets:
        if target not in TARGETS:
            raise ValueError(f"targets={targets!r}: allowed are {', '.join(TARGETS)}")
    return Axis("target", "{}", str, choices=targets)


@dataclass(frozen=True, kw_only=True)
class CompileSuite(Suite[CompileContender]):
    """What a compiler says of kernels.

    Args:
        configuration: the axes among whose values one is to choose (block sizes, warps, stages).
        sizes: the axes that change the work and not the code.
        say: a configuration in a few words (`128 x 64, 8 warps, 3 stages`).
        matrix: whether a case's products are expected on matrix units, where the target has them for the dtype.
        units: units of work that one pass of the kernel's loop makes (one block, where it has no loop).
        unit: what a unit is, in the singular.
        loaded: bytes that all blocks of a call load, those from a cache included.
        stands_for: timing suites that race the same configurations, with the values of the axes that they lack.
    """

    kind = "compile"

    configuration: tuple[str, ...]
    sizes: tuple[str, ...] = ()
    say: Callable[[Case], str] = field(repr=False)
    matrix: Callable[[Case], bool] = field(repr=False)
    units: Callable[[Case], float] = field(repr=False)
    unit: str
    loaded: Callable[[Case], float] = field(repr=False)
    stands_for: Mapping[str, Mapping[str, Scalar]] = field(default_factory=dict)
    metrics: tuple[Metric, ...] = CRITERIA

    def __post_init__(self) -> None:
        super().__post_init__()
        names = {axis.name for axis in self.axes}
        if "target" not in names:
            raise ValueError(f"suite {self.id}: a compile suite needs an axis target")
        for what, given in (("configuration", self.configuration), ("sizes", self.sizes)):
            if unknown := sorted(set(given) - names):
                raise ValueError(f"suite {self.id}: {what} names {', '.join(unknown)}, its axes are {sorted(names)}")
        if not self.configuration:
            raise ValueError(f"suite {self.id}: configuration=(): at least one axis is needed")

    @property
    def code(self) -> tuple[str, ...]:
        """The axes that decide the code beside target and configuration (kernel, dtype, head size, ...)."""
        others = {"target", *self.configuration, *self.sizes}
        return tuple(axis.name for axis in self.axes if axis.name not in others)
