"""Gradients that live in shards: what stages 2 and 3 have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn

from bancada_parallelism.layout import Layout
from bancada_parallelism.zero.base import Zero


class ShardedGradients(Zero):
    """A unit's whole gradients are summed over ranks into shards as soon as they are there, and then forgotten."""

    def __init__(self, module: nn.Module, layout: Layout, groups: Sequence[Mapping[str, nn.Parameter]]) -> None:
        super().__init__(module, layout, groups)
        self._shards = [torch.zeros_like(m) for m in self._m]
        self._ready: list[set[Tensor]] = [set() for _ in self.units]
        self._pending: list[tuple[int, Tensor, dist.Work]] = []

    def gradient_shards(self) -> list[Tensor]:
        """This rank's shards."""
        return self._shards

    def _start_reduction(self, number: int) -> None:
        """Sends a unit's gradients on their way; whole ones of two units are held at a time, not of all."""
        unit = self.units[number]
        self._wait(all_but=1)
        flat = unit.flatten(unit.gradients())
        for parameter in unit.named.values():
            parameter.grad = None
        self._pending.append((number, *self._scatter(flat)))

    def _wait(self, all_but: int = 0) -> None:
        while len(self._pending) > all_but:
            number, out, work = self._pending.pop(0)
            work.wait()
            self._shards[number].add_(out, alpha=1 / self._ranks)
