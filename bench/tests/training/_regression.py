"""Training suites over a linear regression: honest learners beside ones that cheat, break, hang or diverge."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from bancada.suite import Axis, Case, Device, Metric, Technique, Work
from bancada.training import (
    Budget,
    GradientLearner,
    Hyper,
    Learner,
    Range,
    Space,
    Task,
    TrainingContender,
    TrainingSuite,
)

WIDTH, BATCH = 16, 32
CARD = Technique("regression", "Regression", "Regressão", "optimizers", "For tests.", "y = w x", "-")
LR = {"lr": Range(0.01, 0.4)}


@dataclass
class Regression:
    """y = w x + noise, with other first weights and batches for every seed. `calls` notes what is asked of it."""

    seed: int
    calls: list[str] = field(default_factory=list)
    name: str = "regression"
    tokens_per_update: int = BATCH

    def _draw(self, place: int, rows: int) -> Mapping[str, Tensor]:
        generator = torch.Generator().manual_seed(self.seed * 10_007 + place)
        truth = torch.linspace(-1, 1, WIDTH)
        x = torch.randn(rows, WIDTH, generator=generator)
        return {"x": x, "y": x @ truth + 0.1 * torch.randn(rows, generator=generator)}

    def model(self) -> nn.Module:
        generator = torch.Generator().manual_seed(self.seed)
        model = nn.Linear(WIDTH, 1)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(0.1 * torch.randn(parameter.shape, generator=generator))
        return model

    def batch(self, update: int) -> Mapping[str, Tensor]:
        self.calls.append("batch")
        return self._draw(100 + update, BATCH)

    def loss(self, model: nn.Module, batch: Mapping[str, Tensor]) -> Tensor:
        return (model(batch["x"]).squeeze(-1) - batch["y"]).square().mean()

    def evaluate(self, model: nn.Module, split: str) -> Mapping[str, float]:
        self.calls.append(split)
        with torch.no_grad():
            loss = self.loss(model, self._draw({"validation": 1, "held_out": 2}[split], 256))
        return {"loss": float(loss), "distance": float(loss.sqrt())}


class Descent:
    """Gradient descent with momentum. torch's own would take seconds to import what it is made of."""

    def __init__(self, model: nn.Module, lr: float, momentum: float) -> None:
        self.parameters, self.lr, self.momentum = list(model.parameters()), lr, momentum
        self.state = {number: torch.zeros_like(one) for number, one in enumerate(self.parameters)}

    def step(self) -> None:
        with torch.no_grad():
            for number, parameter in enumerate(self.parameters):
                assert parameter.grad is not None
                self.state[number].mul_(self.momentum).add_(parameter.grad)
                parameter.sub_(self.state[number], alpha=self.lr)

    def zero_grad(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None


def sgd(case: Case, task: Task, hyper: Hyper) -> Learner:
    model = task.model()
    return GradientLearner(task, model, Descent(model, float(hyper["lr"]), 0.0))


def momentum(case: Case, task: Task, hyper: Hyper) -> Learner:
    model = task.model()
    return GradientLearner(task, model, Descent(model, float(hyper["lr"]) / 10, 0.9))


class Altered:
    """An honest learner with another `update`, told the number of the update (from 0)."""

    def __init__(self, inner: Learner, act: Callable[[Learner, int, Mapping[str, Tensor]], Tensor]) -> None:
        self.inner, self.act, self.number, self.model = inner, act, -1, inner.model

    def update(self, batch: Mapping[str, Tensor]) -> Tensor:
        self.number += 1
        return self.act(self.inner, self.number, batch)

    def state_bytes(self) -> Mapping[str, int]:
        return self.inner.state_bytes()


def altered(act: Callable[[Learner, int, Mapping[str, Tensor]], Tensor]) -> Callable[[Case, Task, Hyper], Learner]:
    return lambda case, task, hyper: Altered(sgd(case, task, hyper), act)


def starts_trained(case: Case, task: Task, hyper: Hyper) -> Learner:
    learner = sgd(case, task, hyper)
    for update in range(5):
        learner.update(task.batch(update))
    return learner


def imports_nothing(case: Case, task: Task, hyper: Hyper) -> Learner:
    import a_library_that_is_not_there  # type: ignore[import-not-found]

    return a_library_that_is_not_there  # type: ignore[no-any-return]


def _not_a_number(inner: Learner, number: int, batch: Mapping[str, Tensor]) -> Tensor:
    loss = inner.update(batch)
    return loss * float("nan") if number == 7 else loss


def _skips_all(inner: Learner, number: int, batch: Mapping[str, Tensor]) -> Tensor:
    return torch.tensor(1.0 / (number + 1))


def _raises(inner: Learner, number: int, batch: Mapping[str, Tensor]) -> Tensor:
    if number == 6:
        raise KeyError("<script>alert('x')</script>")
    return inner.update(batch)


def _asks_for_too_much(inner: Learner, number: int, batch: Mapping[str, Tensor]) -> Tensor:
    return inner.update(batch) if number < 3 else torch.empty(1 << 46)


def _spoils_batch(inner: Learner, number: int, batch: Mapping[str, Tensor]) -> Tensor:
    loss = inner.update(batch)
    batch["y"].zero_()
    return loss


def _segfaults(inner: Learner, number: int, batch: Mapping[str, Tensor]) -> Tensor:
    if number == 6:
        import ctypes

        ctypes.string_at(0)
    return inner.update(batch)


def _hangs(inner: Learner, number: int, batch: Mapping[str, Tensor]) -> Tensor:
    if number == 6:
        time.sleep(3_600)
    return inner.update(batch)


def _leaves(inner: Learner, number: int, batch: Mapping[str, Tensor]) -> Tensor:
    if number == 6:
        os._exit(0)
    return inner.update(batch)


def _slow(inner: Learner, number: int, batch: Mapping[str, Tensor]) -> Tensor:
    time.sleep(0.02)
    return inner.update(batch)


FAULTS: dict[str, Callable[[Case, Task, Hyper], Learner]] = {
    "starts-trained": starts_trained,
    "imports-nothing": imports_nothing,
    "not-a-number": altered(_not_a_number),
    "skips-all": altered(_skips_all),
    "raises": altered(_raises),
    "asks-for-too-much": altered(_asks_for_too_much),
    "spoils-batch": altered(_spoils_batch),
}
ENDS: dict[str, Callable[[Case, Task, Hyper], Learner]] = {
    "segfaults": altered(_segfaults),
    "hangs": altered(_hangs),
    "leaves": altered(_leaves),
}


def not_here(case: Case, device: Device) -> str | None:
    return "needs a machine that is not this one"


def contender(
    name: str, build: Callable[[Case, Task, Hyper], Learner], space: Space | None = None, same_start: bool = True
) -> TrainingContender:
    values: Space = {"lr": (0.05,)} if space is None else space
    return TrainingContender(name, "regression", "bancada", build, space=values, same_start=same_start)


def suite(
    suite_id: str,
    contenders: tuple[TrainingContender, ...],
    task: Callable[[Case, str, int], Task] = lambda case, device, seed: Regression(seed),
    budget: Budget | None = None,
    target: float | None = None,
    evaluations: int = 4,
    flops: float = 6.0 * WIDTH * BATCH,
) -> TrainingSuite:
    return TrainingSuite(
        id=suite_id,
        title="Regression",
        family="optimizers",
        question="Who learns a line?",
        axes=(Axis("repeat", "r{}", int, minimum=0), Axis("updates", "u{}", int, minimum=1)),
        defaults={"repeat": 0, "updates": 20},
        work=lambda case: Work(flops, 4.0 * WIDTH),
        techniques=(CARD,),
        contenders=contenders,
        x_axis="updates",
        task=task,
        budget=lambda case: budget or Budget(updates=case.number("updates")),
        metrics=(Metric("loss", "loss"), Metric("distance", "distance")),
        target=lambda case: target,
        evaluations=evaluations,
    )


def faulty() -> list[TrainingSuite]:
    """`regression.faults`: two honest contenders among all that end otherwise."""
    planted = [contender(name, build) for name, build in {**FAULTS, **ENDS}.items()]
    planted.append(TrainingContender("not-installed", "regression", "peer", sgd, requires=("no-such-distribution",)))
    planted.append(TrainingContender("not-here", "regression", "peer", sgd, supports=not_here))
    honest = (contender("sgd", sgd, LR), contender("momentum", momentum, LR))
    return [suite("regression.faults", (honest[0], *planted, honest[1]), target=0.5)]


def slow() -> list[TrainingSuite]:
    """`regression.slow`: honest contenders that take long enough to be interrupted."""
    pair = (contender("one", altered(_slow), LR), contender("other", altered(_slow), LR))
    return [suite("regression.slow", (*pair, contender("raises", altered(_raises))))]


def dying() -> list[TrainingSuite]:
    """`regression.dying`: one that takes its process with it."""
    return [suite("regression.dying", (contender("sgd", sgd), contender("segfaults", ENDS["segfaults"])))]
