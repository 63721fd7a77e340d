"""A guess of how long training suites take."""

from __future__ import annotations

from bancada.settings import Settings
from bancada.suite import Device
from bancada.sweep import Planned, able_on, call_s
from bancada.training.declare import TrainingSuite
from bancada.training.points import points

UPDATE_OVERHEAD_S = 2e-3  # what an update takes however small its model
EVALUATION_UPDATES = 4  # an evaluation is forward only, over more batches than one
BUILD_S = 0.5


def estimate_s(planned: Planned, settings: Settings, flops_per_s: float, device: Device) -> float:
    """A rough guess of a case's seconds: the tuning trials and seeds of all who can run, with their evaluations."""
    suite: TrainingSuite = planned.suite  # type: ignore[assignment]
    update = call_s(planned, flops_per_s) + UPDATE_OVERHEAD_S
    budget = suite.budget(planned.case)
    run = budget.seconds if budget.seconds is not None else (budget.updates or 0) * update
    evaluation = EVALUATION_UPDATES * update
    total = 0.0
    for contender in map(suite.contender, able_on(planned, device)):
        tried = len(points(contender.space, settings.trials))
        total += (tried if tried > 1 else 0) * (suite.tuning_share * run + evaluation + BUILD_S)
        total += (planned.seeds or settings.seeds) * (run + (suite.evaluations + 1) * evaluation + BUILD_S)
    return total
