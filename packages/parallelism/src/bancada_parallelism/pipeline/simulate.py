"""How long a schedule takes and what it holds, without running it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from bancada_parallelism._check import check_count
from bancada_parallelism.pipeline.schedule import Action, Schedule


@dataclass(frozen=True)
class Simulation:
    """What a schedule costs.

    Attributes:
        makespan: time from the first action to the end of the last, in the units of the durations.
        idle: the fraction of all stages' time that is idle; GPipe and 1F1B: (p-1)/(m+p-1).
        overhead: idle time over the ideal time; GPipe and 1F1B: (p-1)/m.
        most_held: for each stage, the most micro-batches whose activations it holds at once; 1F1B min(m, p-s), GPipe m.
        started: when each stage starts each of its actions.
    """

    makespan: int
    idle: Fraction
    overhead: Fraction
    most_held: tuple[int, ...]
    started: tuple[tuple[int, ...], ...]


def simulate_pipeline(schedule: Schedule, *, forward: int = 1, backward: int = 2) -> Simulation:
    """Every action starts as soon as its stage is free and what it needs has come; messages take no time.

    Args:
        schedule: for each stage, its actions in order.
        forward, backward: how long each takes, in any unit.

    Raises:
        ValueError: no stage, a duration below 1, a stage that does not run each micro-batch forward and then backward
            once, or an order in which stages wait for each other for ever.
    """
    length = {"F": check_count("forward", forward), "B": check_count("backward", backward)}
    _check(schedule)
    ended: dict[tuple[int, Action], int] = {}
    free, done = [0] * len(schedule), [0] * len(schedule)
    started: list[list[int]] = [[] for _ in schedule]
    moved = True
    while moved:
        moved = False
        for stage, order in enumerate(schedule):
            while done[stage] < len(order):
                action = order[done[stage]]
                before = _needs(stage, action, len(schedule))
                if before is not None and before not in ended:
                    break
                start = max(free[stage], 0 if before is None else ended[before])
                started[stage].append(start)
                free[stage] = ended[stage, action] = start + length[action.kind]
                done[stage] += 1
                moved = True
    stuck = [f"stage {s} at {order[done[s]]}" for s, order in enumerate(schedule) if done[s] < len(order)]
    if stuck:
        raise ValueError(f"schedule: stages wait for each other for ever: {', '.join(stuck)}")
    makespan, work = max(free), (forward + backward) * len(schedule[0]) // 2
    return Simulation(
        makespan=makespan,
        idle=1 - Fraction(work, makespan),
        overhead=Fraction(makespan - work, work),
        most_held=tuple(_most_held(order) for order in schedule),
        started=tuple(map(tuple, started)),
    )


def _needs(stage: int, action: Action, stages: int) -> tuple[int, Action] | None:
    """What must have ended at another stage: forward comes from the one before, backward from the one after."""
    other = stage - 1 if action.kind == "F" else stage + 1
    return (other, action) if 0 <= other < stages else None


def _check(schedule: Schedule) -> None:
    if not schedule or not schedule[0]:
        raise ValueError("schedule: must have a stage and an action at least")
    micros = sorted(action.micro for action in schedule[0] if action.kind == "F")
    for stage, order in enumerate(schedule):
        for kind in ("F", "B"):
            found = [action.micro for action in order if action.kind == kind]
            if sorted(found) != micros or len(set(found)) != len(found):
                raise ValueError(f"schedule: stage {stage} runs {kind} of {found}; must be each of {micros} once")
        seen: set[int] = set()
        for action in order:
            if action.kind == "B" and action.micro not in seen:
                raise ValueError(f"schedule: stage {stage} runs {action} before F{action.micro}")
            seen.add(action.micro)


def _most_held(order: tuple[Action, ...]) -> int:
    held = most = 0
    for action in order:
        held += 1 if action.kind == "F" else -1
        most = max(most, held)
    return most
