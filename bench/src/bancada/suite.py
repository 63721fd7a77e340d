"""What a suite is: one like-for-like comparison, declared once and used by tests, benchmarks and report.

A suite names its axes, makes inputs, knows the answer in float64, counts the work, and lists its
contenders. Packages declare suites in their `_suites.py` and register them under the entry-point
group `bancada.suites`; nothing else in a package imports this module.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Self, TypeVar

from bancada.axes import Axis as Axis
from bancada.axes import Case as Case
from bancada.axes import Scalar as Scalar

if TYPE_CHECKING:
    import torch

Family = Literal["attention", "parallelism", "optimizers", "compression", "peft", "harness"]
Origin = Literal["bancada", "peer"]
Tensors = Mapping[str, "torch.Tensor"]
Run = Callable[[], Tensors]
"""One call of a contender: does the whole work and returns every output (and gradient) by name.

An output named `measure.NAME` is a number that the row keeps (`measure.state_bytes`), not one to be judged.
A run of a suite that is `stateful` has a method `reset()`, which takes it back to before its first call.
"""

DTYPES = ("fp64", "fp32", "fp16", "bf16")
_ID = re.compile(r"[a-z0-9][a-z0-9_.-]*\Z")


def _check_id(what: str, value: str) -> None:
    if not _ID.match(value):
        raise ValueError(f"{what} id {value!r}: allowed are lower-case letters, digits, '.', '_' and '-'")


@dataclass(frozen=True)
class Device:
    """The device a case runs on, as far as `supports` and `tolerance` need it."""

    type: str  # "cpu" or "cuda"
    name: str
    memory_bytes: int
    threads: int = 1
    capability: tuple[int, int] | None = None  # CUDA compute capability

    @property
    def torch_device(self) -> str:
        """What torch calls it."""
        return self.type


@dataclass(frozen=True)
class Technique:
    """A card in the report's catalogue.

    `summary` takes two sentences, `formula` one line of plain text, `paper` a citation with its
    arXiv number, `files` are paths inside the repository, `snippet` is pasted and runs.
    """

    id: str
    title: str
    title_pt: str
    family: Family
    summary: str
    formula: str
    paper: str
    files: tuple[str, ...] = ()
    snippet: str = ""

    def __post_init__(self) -> None:
        _check_id("technique", self.id)


def runs_anywhere(case: Case, device: Device) -> str | None:
    """The `supports` of a contender with no limits."""
    return None


BuildT = TypeVar("BuildT")


@dataclass(frozen=True)
class Entry(Generic[BuildT]):
    """One way of doing the work of a suite, whatever the suite's kind.

    Args:
        id: unique inside its suite (`flash-tiled`, `torch-sdpa`).
        technique: the id of the technique it realises.
        origin: `bancada` for ours, `peer` for a library's.
        build: makes what the suite measures; it imports its library itself. Each kind says what it is called with.
        requires: distributions that must be installed (`("torchao",)`).
        supports: None, or the reason why it cannot run this case on this device.
        only: by axis, the values of the cases that are its own; in others it has no place, and no row.
        label: what a person reads.
        reference: the plain computation everything is compared with (drawn in grey).
        precision: the precision policy, in words; a mismatch inside a suite is shown.
        backend: what really runs, where one library has several.
        compiles: whether the first call compiles (its time is then worth a break-even).
    """

    id: str
    technique: str
    origin: Origin
    build: BuildT = field(repr=False)
    requires: tuple[str, ...] = ()
    supports: Callable[[Case, Device], str | None] = field(default=runs_anywhere, repr=False)
    label: str = ""
    reference: bool = False
    precision: str = "inputs' dtype, fp32 accumulation"
    backend: str = ""
    compiles: bool = False
    only: Mapping[str, tuple[Scalar, ...]] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        _check_id("contender", self.id)
        if not self.label:
            object.__setattr__(self, "label", self.id)

    def takes(self, case: Case) -> bool:
        """Whether a case is one of its own: another rule's step is no step that this one could not make."""
        return all(case[name] in values for name, values in self.only.items())


@dataclass(frozen=True)
class Contender(Entry[Callable[[Case, Tensors], Run]]):
    """A contender of a kernel suite.

    `build(case, inputs) -> run`: `inputs` are on the device, the same memory for all contenders; `run()` does the
    work once and returns the outputs by name. It must not change the inputs (unless the suite says it does).
    """


@dataclass(frozen=True)
class Work:
    """Floating-point operations and least bytes moved of one call."""

    flops: float
    bytes: float


@dataclass(frozen=True)
class Metric:
    """A figure beside time and memory, and which way is better.

    `name` is a key of what a training task's `evaluate` returns, or of a kernel suite's `measure.NAME` outputs.
    """

    name: str
    title: str
    unit: str = ""
    better: Literal["lower", "higher"] = "lower"
    scale: Literal["log", "linear"] = "linear"
    drawn: bool = True  # whether it gets a chart of its own; tables hold it in any case


EntryT = TypeVar("EntryT", bound=Entry[Any])


@dataclass(frozen=True, kw_only=True)
class Suite(Generic[EntryT]):
    """What suites of every kind declare.

    Args:
        id: `family.name`.
        axes: in the order in which a case id writes them.
        defaults: the value of each axis where a sweep names none; the plain benchmarks run this case.
        work: operations and bytes of one call (a training suite: one update); the one function for all contenders.
        contenders: unique ids.
        x_axis: the axis that matters, on which charts are drawn.
        metrics: figures of its own that the report draws beside time and memory, the most telling first.
        weighs: names of the metrics that decide, together, where the question is not who is fastest.
        small: axis values for a case that is checked in a test's time.
        valid: None, or the reason why a combination of axis values makes no case.
    """

    kind: ClassVar[str]

    id: str
    title: str
    family: Family
    question: str
    axes: tuple[Axis, ...]
    defaults: Mapping[str, Scalar]
    work: Callable[[Case], Work] = field(repr=False)
    techniques: tuple[Technique, ...]
    contenders: tuple[EntryT, ...]
    x_axis: str
    metrics: tuple[Metric, ...] = ()
    weighs: tuple[str, ...] = ()
    small: Mapping[str, Scalar] = field(default_factory=dict)
    valid: Callable[[Case], str | None] = field(default=lambda case: None, repr=False)

    def __post_init__(self) -> None:
        _check_id("suite", self.id)
        names = [axis.name for axis in self.axes]
        _unique(f"suite {self.id}: axis", names)
        _unique(f"suite {self.id}: contender", [contender.id for contender in self.contenders])
        if set(self.defaults) != set(names):
            raise ValueError(f"suite {self.id}: defaults name {sorted(self.defaults)}, its axes are {sorted(names)}")
        if self.x_axis not in names:
            raise ValueError(f"suite {self.id}: x_axis={self.x_axis!r}, its axes are {sorted(names)}")
        if unknown := set(self.weighs) - {metric.name for metric in self.metrics}:
            raise ValueError(f"suite {self.id}: weighs={sorted(unknown)}: none of its metrics")
        known = {technique.id for technique in self.techniques}
        for contender in self.contenders:
            if contender.technique not in known:
                raise ValueError(
                    f"suite {self.id}: contender {contender.id}: technique={contender.technique!r} is not declared"
                )
            for name, values in contender.only.items():
                for value in values:
                    self.axis(name).check(value)

    def axis(self, name: str) -> Axis:
        """The axis of that name; ValueError where there is none."""
        for axis in self.axes:
            if axis.name == name:
                return axis
        raise ValueError(f"suite {self.id} has no axis {name!r}: it has {', '.join(axis.name for axis in self.axes)}")

    def contender(self, contender_id: str) -> EntryT:
        """The contender of that id; ValueError where there is none."""
        for contender in self.contenders:
            if contender.id == contender_id:
                return contender
        raise ValueError(
            f"suite {self.id} has no contender {contender_id!r}: it has {', '.join(c.id for c in self.contenders)}"
        )

    def case(self, **values: object) -> Case:
        """The case at `values`, with defaults elsewhere; ValueError for an unknown axis or value."""
        for name in values:
            self.axis(name)
        axes = tuple((axis.name, axis.check(values.get(axis.name, self.defaults[axis.name]))) for axis in self.axes)
        written = [axis.write(value) for axis, (_, value) in zip(self.axes, axes, strict=True)]
        case = Case(self.id, axes, "-".join(part for part in written if part))
        if (reason := self.valid(case)) is not None:
            raise ValueError(f"suite {self.id}, case {case.id}: {reason}")
        return case

    def with_contenders(self, contenders: Sequence[EntryT]) -> Self:
        """The same suite with other contenders (planted cheats in tests, a choice in a sweep)."""
        return dataclasses.replace(self, contenders=tuple(contenders))


@dataclass(frozen=True, kw_only=True)
class KernelSuite(Suite[Contender]):
    """Time, memory and error of one call.

    Args:
        inputs: `inputs(case, device, seed)`: fresh random tensors by name.
        oracle: `oracle(case, inputs)`: every output and gradient in float64, by name.
        tolerance: `tolerance(case, inputs, answer)`: the largest |x - ref| allowed, by output name.
        mutates: inputs that a call may change.
        static: inputs that `build` may work on before the first call (weights it quantises): they never change.
        stateful: a call goes on from the one before (an optimizer's step): it is judged after a `reset()`.
    """

    kind = "kernel"

    inputs: Callable[[Case, str, int], Tensors] = field(repr=False)
    oracle: Callable[[Case, Tensors], Tensors] = field(repr=False)
    tolerance: Callable[[Case, Tensors, Tensors], Mapping[str, float]] = field(repr=False)
    mutates: tuple[str, ...] = ()
    static: tuple[str, ...] = ()
    stateful: bool = False


AnySuite = Suite[Any]


def _unique(what: str, values: Sequence[str]) -> None:
    twice = sorted({value for value in values if values.count(value) > 1})
    if twice:
        raise ValueError(f"{what} ids must differ; twice: {', '.join(twice)}")
