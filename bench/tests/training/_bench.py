"""A worker on a run folder, without a sweep around it: what a child process does, in the test's own process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import _regression
import torch

from bancada import rows
from bancada.bench import Worker
from bancada.settings import Job, JobCase, Settings
from bancada.suite import Device
from bancada.training import TrainingSuite
from bancada.training.item import TrainingItem

CPU = Device("cpu", "test CPU", 8 * 2**30, threads=1)
STAMP: dict[str, str | int] = {"run": "r", "driver": "", "commit": "0", "versions": "torch=0"}


def job(folder: Path, suite: TrainingSuite, axes: dict[str, Any] | None = None, **settings: Any) -> Job:
    names = tuple(contender.id for contender in suite.contenders)
    case = JobCase(suite.id, dict(suite.case(**(axes or {})).axes), names, 10.0)
    chosen = Settings(**{"seeds": 2, "trials": 3, **settings})
    return Job(folder, (case,), CPU, chosen, STAMP, {"fp32": 1e15}, {"fp32": 1e15})


@contextmanager
def worker(made: Job) -> Iterator[Worker]:
    found = Worker(made)
    try:
        yield found
    finally:
        found.heart.close()


def measure(folder: Path, suite: TrainingSuite, axes: dict[str, Any] | None = None, **settings: Any) -> list[rows.Row]:
    """All rows of one case, measured in this process."""
    made = job(folder, suite, axes, **settings)
    with worker(made) as found:
        TrainingItem(found, suite, made.cases[0]).run(None)
    return read(folder)


def measure_named(folder: Path, which: str) -> None:
    """Measures the one suite of a function of `_regression`, as a process of its own does."""
    torch.set_num_threads(1)
    (suite,) = getattr(_regression, which)()
    measure(folder, suite, {"updates": 20}, seeds=3, trials=3)


def read(folder: Path) -> list[rows.Row]:
    found = rows.read(folder / "rows.jsonl")
    assert not found.problems
    return found.rows


def of_kind(found: list[rows.Row], kind: str) -> list[rows.Row]:
    return [row for row in found if row["kind"] == kind]


def cells(found: list[rows.Row]) -> dict[str, rows.Row]:
    return {row["contender"]: row for row in of_kind(found, "cell")}
