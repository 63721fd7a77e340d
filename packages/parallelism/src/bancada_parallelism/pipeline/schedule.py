"""GPipe and 1F1B: for each stage, the order of its forwards and backwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bancada_parallelism._check import check_choice, check_count


@dataclass(frozen=True)
class Action:
    """The forward (`F`) or backward (`B`) of one micro-batch at a stage."""

    kind: Literal["F", "B"]
    micro: int

    def __str__(self) -> str:
        return f"{self.kind}{self.micro}"


Schedule = tuple[tuple[Action, ...], ...]


def pipeline_schedule(name: str, stages: int, micro_batches: int) -> Schedule:
    """What each stage does, in order.

    Args:
        name: `gpipe`: all forwards, then all backwards (Huang et al., arXiv 1811.06965). `1f1b`: stage s runs
            min(m, p - s) forwards, then backwards and forwards in turn (Narayanan et al., arXiv 1806.03377).
        stages: p. micro_batches: m.

    Raises:
        ValueError: an unknown schedule, or a count below 1.
    """
    check_choice("name", name, ("gpipe", "1f1b"))
    p, m = check_count("stages", stages), check_count("micro_batches", micro_batches)
    return tuple(_order(m, m if name == "gpipe" else min(m, p - stage)) for stage in range(p))


def _order(m: int, ahead: int) -> tuple[Action, ...]:
    """`ahead` forwards, one backward and one forward in turn, and the backwards that are left."""
    order = [Action("F", micro) for micro in range(ahead)]
    for micro in range(m):
        order.append(Action("B", micro))
        if ahead + micro < m:
            order.append(Action("F", ahead + micro))
    return tuple(order)
