"""Training all contenders of a case from one seed: they take turns of a few updates, in shuffled order.

Why turns: what disturbs the machine for longer than a turn disturbs all. Why no `benchmark.pedantic`: it times one
run of a fixed number of rounds, once an item. Here a budget may be seconds, a seed's curves are written while the
others are still to come, and whoever diverges drops out. The clock is the one that pedantic would be given, and
garbage collection is off inside the timed window as there.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from bancada.rows import MOST_SAMPLES
from bancada.screen import Failed
from bancada.suite import Case
from bancada.training.declare import Budget, TrainingSuite
from bancada.training.run import Run
from bancada.training.tune import judged, named, within

TURN = 5  # updates: short enough to share disturbances, long enough to have the caches to oneself
MOST_TURNS = MOST_SAMPLES // 2
START_TOLERANCE = 2e-3  # relative: what lower precision may move the judged metric before any training


@dataclass(frozen=True)
class Goal:
    """How far a turn goes, in updates or seconds, and whether an evaluation follows."""

    amount: float
    evaluate: bool


def goals(budget: Budget, evaluations: int) -> list[Goal]:
    """The turns of a run: at most some hundred, an evaluation at the end of each of `evaluations` equal stretches."""
    if budget.updates is None:
        assert budget.seconds is not None
        turns = max(1, MOST_TURNS // evaluations)
        step = budget.seconds / (evaluations * turns)
        return [Goal(step * number, number % turns == 0) for number in range(1, evaluations * turns + 1)]
    length = max(TURN, math.ceil(budget.updates / MOST_TURNS))
    marks = sorted({round(budget.updates * number / evaluations) for number in range(1, evaluations + 1)} - {0})
    found: list[Goal] = []
    for start, mark in zip([0, *marks], marks, strict=False):
        turns = math.ceil((mark - start) / length)
        ends = [start + round((mark - start) * number / turns) for number in range(1, turns + 1)]
        found += [Goal(end, end == mark) for end in ends]
    return found


@dataclass
class Curve:
    """What one run leaves, as lists: turns (`updates`, `train`, `samples`) and evaluations (`evaluated`, `metrics`)."""

    run: Run
    updates: list[int] = field(default_factory=list)
    train: list[float] = field(default_factory=list)
    samples: list[float] = field(default_factory=list)
    evaluated: list[int] = field(default_factory=list)
    metrics: list[dict[str, float]] = field(default_factory=list)
    failed: Failed | None = None
    _first: dict[str, float] = field(default_factory=dict)

    def begin(self, suite: TrainingSuite, start: dict[str, float]) -> None:
        """The evaluation before training; Failed where it is not that of the task's own model."""
        found = self.run.evaluate("held_out")
        name = suite.metrics[0].name
        self._first = found
        self._note(judged(suite, found))
        if self.run.contender.same_start and not math.isclose(
            found[name], start[name], rel_tol=START_TOLERANCE, abs_tol=1e-6
        ):
            raise Failed(
                "incorrect",
                f"before training its {name} is {found[name]:.6g}, the task's own model has {start[name]:.6g}: "
                f"not the same start ({self.run.where})",
            )

    def turn(self, suite: TrainingSuite, goal: Goal, budget: Budget) -> None:
        """Updates up to a goal, one at least, and the evaluation there. Failed whatever goes wrong."""
        run, before = self.run, self.run.updates
        while run.updates == before or not _reached(run, goal, budget):
            run.update()
        self.updates.append(run.updates)
        self.train.append(statistics.fmean(run.losses[before:]))
        if samples := run.samples(before):
            self.samples.append(statistics.median(samples))
        last = not within(run, budget)
        if goal.evaluate or last:
            found = run.evaluate("held_out")
            self._note(judged(suite, found))
            if last and found == self._first:
                raise Failed(
                    "incorrect",
                    f"after {run.updates} updates its model evaluates exactly as before them: "
                    f"nothing was learnt ({run.where})",
                )

    def _note(self, metrics: dict[str, float]) -> None:
        self.evaluated.append(self.run.updates)
        self.metrics.append(metrics)

    def fields(self) -> dict[str, Any]:
        """The fields of a `curve` row.

        `updates`, `seconds` and `train`: after each turn the number of updates, the seconds they took, and the mean of
        the turn's training losses. `samples`: each turn's median update in seconds. `evaluated`: the numbers of
        updates at which the held-out split was evaluated, from 0; `metric.NAME`: what it gave. Facts beside them.
        """
        samples = self.samples
        if not samples and not self.failed:  # a run of one or two updates
            samples = [self.run.facts["first_call_s"]]
        names = self.metrics[0] if self.metrics else {}
        return {
            "contender": self.run.id,
            "seed": self.run.seed,
            "status": self.failed.status if self.failed else "ok",
            "reason": self.failed.reason if self.failed else "",
            "updates": self.updates,
            "seconds": [_short(value) for value in self.run.seconds_at(self.updates)],
            "train": self.train,
            "samples": [_short(value) for value in samples],
            "evaluated": self.evaluated,
            **named("metric", {name: [one[name] for one in self.metrics] for name in names}),
            **named("hyper", self.run.hyper),
            **self.run.facts,
        }


def _short(value: float) -> float:
    return float(f"{value:.6g}")


def _reached(run: Run, goal: Goal, budget: Budget) -> bool:
    return (run.updates if budget.updates is not None else run.seconds) >= goal.amount


def train(
    suite: TrainingSuite,
    case: Case,
    runs: Sequence[Run],
    start: dict[str, float],
    lost: Callable[[Curve], None],
) -> list[Curve]:
    """Trains runs of one seed side by side to the budget; the curves of those that came to its end.

    Args:
        suite: its budget, metrics and evaluations count.
        case: the case.
        runs: not yet built, all of one seed and task.
        start: what the task says of its own untrained model.
        lost: told of a curve with its failure, as soon as there is one.
    """
    budget = suite.budget(case)
    curves = [Curve(run) for run in runs]
    for curve in curves:
        with _losing(curve, lost):
            curve.run.build(case)
            curve.begin(suite, start)
    order = random.Random(runs[0].seed if runs else 0)
    for goal in goals(budget, suite.evaluations):
        turn = [curve for curve in curves if curve.failed is None and within(curve.run, budget)]
        order.shuffle(turn)
        for curve in turn:
            with _losing(curve, lost):
                curve.turn(suite, goal, budget)
    left = [curve for curve in curves if curve.failed is None]
    for curve in left:
        with _losing(curve, lost):
            curve.run.facts |= curve.run.state_bytes()
        curve.run.release()
    return [curve for curve in left if curve.failed is None]


class _losing:
    """Catches a contender's failure: it is told, and its model is let go; the others go on."""

    def __init__(self, curve: Curve, lost: Callable[[Curve], None]) -> None:
        self._curve, self._lost = curve, lost

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, Failed):
            return False
        self._curve.failed = error
        self._curve.run.release()
        self._lost(self._curve)
        return True
