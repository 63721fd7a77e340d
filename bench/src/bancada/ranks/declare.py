"""What a suite of ranks declares: the same work on several processes, judged against one.

A case has an axis `world_size`. A pool of that many ranks builds every contender, checks what five steps leave against
the answer of one process, counts what the collectives of a step carry, and races the steps: a barrier before each, and
the slowest rank counts. Ranks that share cores say nothing of scaling, and the report says that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from bancada.suite import Case, Entry, Suite, Tensors

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Ranks:
    """Where a rank stands: its number, how many there are, and its device. The default process group is up."""

    rank: int
    world_size: int
    device: torch.device
    backend: str


class RankRun(Protocol):
    """A contender at work on one rank. All ranks call the same methods in the same order."""

    def step(self) -> None:
        """One step (the timed part), going on from the one before."""

    def reset(self) -> None:
        """Back to before the first step."""

    def outputs(self) -> Tensors:
        """What the steps so far have left, whole: gathered where it is sharded. Read on rank 0."""

    def state_bytes(self) -> Mapping[str, int]:
        """Bytes that this rank keeps between steps, by kind: `parameters`, `gradients`, `optimizer`, ..."""

    def close(self) -> None:
        """Gives back what would outlive the run: groups, hooks, engines."""


@dataclass(frozen=True)
class RanksContender(Entry[Callable[[Case, Tensors, Ranks], RankRun]]):
    """A contender of a suite of ranks.

    `build(case, inputs, ranks) -> run`, called on every rank with the same inputs.

    Args:
        pool: contenders of one pool share processes, and are raced; a library that keeps global state gets its own.
    """

    pool: str = "torch"


@dataclass(frozen=True, kw_only=True)
class RanksSuite(Suite[RanksContender]):
    """Parity, bytes, calls, memory and step time on several processes.

    Args:
        inputs: `inputs(case, device, seed)`: the same tensors on every rank.
        oracle: `oracle(case, inputs)`: what the checked steps leave on one process, by name.
        tolerance: `tolerance(case)`: the largest ||x - ref|| / ||ref|| of any output.
        checked_steps: after how many steps the outputs are judged.
        expected: `expected(case, contender_id)`: by formula, what must come out exactly: `comm.all_reduce.bytes`,
            `comm.all_reduce.calls` (of one step on one rank), `bytes.optimizer` (of the fullest rank).
            None where no formula is known (peers).
    """

    kind = "ranks"

    inputs: Callable[[Case, str, int], Tensors] = field(repr=False)
    oracle: Callable[[Case, Tensors], Tensors] = field(repr=False)
    tolerance: Callable[[Case], float] = field(repr=False)
    checked_steps: int = 5
    expected: Callable[[Case, str], Mapping[str, int] | None] = field(default=lambda case, contender: None, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if "world_size" not in {axis.name for axis in self.axes}:
            raise ValueError(f"suite {self.id}: a suite of ranks needs an axis world_size")
        if self.checked_steps < 1:
            raise ValueError(f"suite {self.id}: checked_steps={self.checked_steps!r}: must be at least 1")

    @staticmethod
    def world_size(case: Case) -> int:
        """How many ranks a case takes."""
        return case.number("world_size")
