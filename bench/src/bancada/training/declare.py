"""What a training suite declares: the task, the budget, the target, the search space, and who is trained.

A case is trained by every contender from the same weights, on the same batches in the same order, once for each seed.
Before that each contender tries the same number of points of its search space, judged on the validation split;
what is reported comes from the held-out split, which tuning never sees.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from bancada.suite import Case, Entry, Scalar, Suite

if TYPE_CHECKING:
    from torch import Tensor, nn

MOST_EVALUATIONS = 50  # a curve is one row, and every evaluation ends a turn of it

Split = Literal["validation", "held_out"]
Hyper = Mapping[str, Scalar]
"""One point of a search space: hyperparameters by name (`{"lr": 1e-3}`)."""


class Task(Protocol):
    """What is learnt: a model's first weights, batches, a loss, an evaluation. Everything follows from its seed."""

    name: str
    tokens_per_update: int

    def model(self) -> nn.Module:
        """A fresh model in training mode, with the same weights at every call."""

    def batch(self, update: int) -> Mapping[str, Tensor]:
        """The batch of an update, counted from 0: the same at every call."""

    def loss(self, model: nn.Module, batch: Mapping[str, Tensor]) -> Tensor:
        """The differentiable loss, a mean over real tokens or examples."""

    def evaluate(self, model: nn.Module, split: Split) -> Mapping[str, float]:
        """Metrics on a fixed part of a split; leaves the model's mode as it was."""


class Learner(Protocol):
    """A model in training, as a contender builds it."""

    model: nn.Module
    """What `Task.evaluate` is given."""

    def update(self, batch: Mapping[str, Tensor]) -> Tensor:
        """One whole update: forward, backward, step, schedule, gradients cleared. The loss before it, detached."""

    def state_bytes(self) -> Mapping[str, int]:
        """Bytes kept between updates by kind: `parameters`, `trainable`, `optimizer` and what else there is."""


@dataclass(frozen=True)
class Range:
    """A stretch of a hyperparameter, searched evenly on its scale."""

    low: float
    high: float
    scale: Literal["log", "linear"] = "log"

    def __post_init__(self) -> None:
        if not self.low < self.high or (self.scale == "log" and self.low <= 0):
            raise ValueError(f"low={self.low!r}, high={self.high!r}: must be low < high, and above 0 on a log scale")

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g} ({self.scale})"


Space = Mapping[str, Range | tuple[Scalar, ...]]
"""What tuning may try, by hyperparameter: a range, or a list of values."""


@dataclass(frozen=True)
class Budget:
    """How long a run goes: a number of updates, or seconds of updates (evaluations do not count)."""

    updates: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        if (self.updates is None) == (self.seconds is None):
            raise ValueError(f"updates={self.updates!r}, seconds={self.seconds!r}: exactly one must be given")
        for name, value in (("updates", self.updates), ("seconds", self.seconds)):
            if value is not None and value <= 0:
                raise ValueError(f"{name}={value!r}: must be above 0")


@dataclass(frozen=True)
class TrainingContender(Entry[Callable[[Case, Task, Hyper], Learner]]):
    """A contender of a training suite.

    `build(case, task, hyper) -> learner` makes a learner that starts from `task.model()`.

    Args:
        space: what tuning may try. Every contender of a suite gets the same number of trials.
        same_start: whether its untrained model must evaluate like `task.model()` (a prompt of random tokens does not).
    """

    space: Space = field(default_factory=dict)
    same_start: bool = True


@dataclass(frozen=True, kw_only=True)
class TrainingSuite(Suite[TrainingContender]):
    """Curves, quality, time and memory of training runs, over several seeds.

    Args:
        task: `task(case, device, seed)`: what is learnt; the seed decides first weights and batches.
        budget: how long a run of a case goes.
        target: the value of the judged metric to be reached, or None.
        evaluations: how often a run is evaluated on its way (and once before it).
        tuning_share: the share of the budget that a tuning trial gets.
    """

    kind = "training"

    task: Callable[[Case, str, int], Task] = field(repr=False)
    budget: Callable[[Case], Budget] = field(repr=False)
    target: Callable[[Case], float | None] = field(default=lambda case: None, repr=False)
    evaluations: int = 10
    tuning_share: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.metrics:
            raise ValueError(f"suite {self.id}: metrics=(): at least one is needed")
        if not 1 <= self.evaluations <= MOST_EVALUATIONS:
            raise ValueError(f"suite {self.id}: evaluations={self.evaluations!r}: must be 1 to {MOST_EVALUATIONS}")
        if not 0 < self.tuning_share <= 1:
            raise ValueError(f"suite {self.id}: tuning_share={self.tuning_share!r}: must lie above 0 and at most at 1")
