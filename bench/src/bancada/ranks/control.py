"""What ranks tell each other about the measurement itself, over a group of its own that no contender uses."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any, TypeVar

import torch
import torch.distributed as dist

T = TypeVar("T")


class Control:
    """Barriers, decisions and figures between the ranks of a pool, on a CPU whatever the device.

    Args:
        timeout_s: how long a rank waits for the others.
    """

    def __init__(self, timeout_s: float) -> None:
        self._group = dist.new_group(backend="gloo", timeout=datetime.timedelta(seconds=timeout_s))
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def barrier(self) -> None:
        """Until every rank is here."""
        dist.barrier(group=self._group)

    def decide(self, value: T) -> T:
        """Rank 0's value, on every rank."""
        carried: list[Any] = [value]
        dist.broadcast_object_list(carried, src=0, group=self._group)
        found: T = carried[0]
        return found

    def all(self, value: T) -> list[T]:
        """Every rank's value, by rank."""
        found: list[Any] = [None] * self.size
        dist.all_gather_object(found, value, group=self._group)
        return found

    def slowest(self, seconds: Sequence[float]) -> list[float]:
        """The largest over the ranks, figure by figure."""
        times = torch.tensor(seconds, dtype=torch.float64)
        dist.all_reduce(times, op=dist.ReduceOp.MAX, group=self._group)
        return [float(value) for value in times]
