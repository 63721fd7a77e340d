"""Tuning: every contender tries equally many points of its search space, judged on the validation split alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from bancada.rows import Row
from bancada.screen import Failed
from bancada.suite import Case
from bancada.training.declare import Budget, Hyper, Task, TrainingContender, TrainingSuite
from bancada.training.points import points
from bancada.training.run import Bench, Run, fresh_compilation


@dataclass(frozen=True)
class Tuned:
    """The best point, how many were tried, and the seconds of updates that took."""

    hyper: Hyper
    trials: int
    seconds: float


def share(budget: Budget, part: float) -> Budget:
    """A part of a budget, one update at least."""
    if budget.updates is not None:
        return Budget(updates=max(1, round(budget.updates * part)))
    assert budget.seconds is not None
    return Budget(seconds=budget.seconds * part)


def within(run: Run, budget: Budget) -> bool:
    """Whether a run has some of its budget left."""
    return run.updates < budget.updates if budget.updates is not None else run.seconds < (budget.seconds or 0.0)


def tune(
    suite: TrainingSuite,
    case: Case,
    contender: TrainingContender,
    task: Callable[[], Task],
    bench: Bench,
    done: Iterable[Row],
    keep: Callable[[Row], None],
) -> Tuned:
    """The best of a contender's points on the validation split.

    Args:
        suite: its budget, share and judged metric count.
        case: the case.
        contender: who is tuned; a space of one point needs no trial.
        task: gives the tuning seed's task; called only if a trial has to be run.
        bench: what it is measured with.
        done: `trial` rows of an earlier start of the run: they are not run again.
        keep: takes the fields of each new `trial` row.

    Raises:
        Failed: the contender cannot run here, or none of its trials came to its end.
    """
    found = points(contender.space, bench.settings.trials)
    if len(found) == 1:
        return Tuned(found[0], 0, 0.0)
    had = {row["trial"]: row for row in done if row["contender"] == contender.id}
    tried: list[Row] = []
    for number, hyper in enumerate(found):
        row = had.get(number)
        if row is None:
            row = _trial(suite, case, contender, task(), bench, number, hyper)
            keep(row)
        tried.append(row)
    seconds = sum(float(row["seconds"]) for row in tried)
    name = f"metric.{suite.metrics[0].name}"
    good = [(row[name], number) for number, row in enumerate(tried) if row["status"] == "ok"]
    if not good:
        first = tried[0]
        raise Failed(first["status"], f"none of {len(tried)} tuning trials came to its end; trial 0: {first['reason']}")
    lower = suite.metrics[0].better == "lower"
    _, best = min(good) if lower else max(good, key=lambda one: (one[0], -one[1]))
    return Tuned(found[best], len(tried), seconds)


def _trial(
    suite: TrainingSuite, case: Case, contender: TrainingContender, task: Task, bench: Bench, number: int, hyper: Hyper
) -> Row:
    """One point, trained for a share of the budget; the fields of its row."""
    budget = share(suite.budget(case), suite.tuning_share)
    run = Run(contender, task, hyper, bench.settings.seed, bench, f"trial {number}")
    status, reason, metrics = "ok", "", dict[str, float]()
    try:
        fresh_compilation(contender.compiles)
        run.build(case)
        while within(run, budget):
            run.update()
        metrics = judged(suite, run.evaluate("validation"))
    except Failed as failed:
        if failed.status == "unsupported":
            raise
        status, reason = failed.status, failed.reason
    finally:
        run.release()
    fields: dict[str, Any] = {
        "contender": contender.id,
        "trial": number,
        "seed": run.seed,
        "status": status,
        "reason": reason,
        "updates": run.updates,
        "seconds": run.spent_s,
    }
    return fields | named("hyper", hyper) | named("metric", metrics)


def judged(suite: TrainingSuite, found: dict[str, float]) -> dict[str, float]:
    """The suite's own metrics among those a task gave; ValueError where one is missing: the suite is wrong."""
    if missing := [metric.name for metric in suite.metrics if metric.name not in found]:
        raise ValueError(f"suite {suite.id}: its task's evaluate gives no {', '.join(missing)}")
    return {metric.name: found[metric.name] for metric in suite.metrics}


def named(prefix: str, values: Any) -> dict[str, Any]:
    """`{"lr": 1}` as `{"hyper.lr": 1}`."""
    return {f"{prefix}.{name}": value for name, value in values.items()}
