"""ZeRO stage 2: optimizer states and gradients sharded; parameters whole on every rank."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from bancada_parallelism._calls import all_gather_flat
from bancada_parallelism.data.buckets import assign_buckets
from bancada_parallelism.data.data_parallel import DEFAULT_BUCKET_BYTES
from bancada_parallelism.layout import Layout
from bancada_parallelism.zero.adamw import AdamWConfig
from bancada_parallelism.zero.base import nbytes
from bancada_parallelism.zero.bytes import ModelState
from bancada_parallelism.zero.sharded import ShardedGradients


class ZeroStage2(ShardedGradients):
    """As stage 1, with gradients reduced to their shards during backward: 4P + 12P/N bytes in fp32.

    `p.grad` is None after `finish`: gradients live in the shards. A rank sends 2(N-1)/N P elements a step. Units are
    reduced in one order on every rank, so ranks may use different parameters; unused ones count as zeros.

    Args and errors: as `ZeroStage1`. Paper: Rajbhandari et al., ZeRO, arXiv 1910.02054.
    """

    stage = 2

    def __init__(
        self, module: nn.Module, layout: Layout, config: AdamWConfig | None = None, *,
        unit_bytes: int = DEFAULT_BUCKET_BYTES,
    ) -> None:  # fmt: skip
        super().__init__(module, layout, assign_buckets(dict(module.named_parameters()), unit_bytes))
        self.config = config or self.config
        self._parameters = []
        self._next = 0
        for number, unit in enumerate(self.units):
            flat = unit.flatten(unit.named)
            for name, view in unit.views(flat).items():
                unit.named[name].data = view
                unit.named[name].register_post_accumulate_grad_hook(self._hook(number))  # type: ignore[no-untyped-call]
            self._parameters.append(flat)

    def parameter_shards(self) -> list[Tensor]:
        """This rank's slices of the whole parameters."""
        return [unit.own(flat) for unit, flat in zip(self.units, self._parameters, strict=True)]

    def zero_grad(self) -> None:
        """Sets the shards to zeros."""
        torch._foreach_zero_(self._shards)
        self._finished = False

    def state_bytes(self) -> ModelState:
        """Bytes of model state that this rank holds now, counted from its tensors."""
        whole = [p.grad for unit in self.units for p in unit.named.values() if p.grad is not None]
        return ModelState(nbytes(self._parameters), nbytes(self._shards) + nbytes(whole), self._optimizer_bytes())

    def _hook(self, number: int) -> Callable[[Tensor], None]:
        def ready(parameter: Tensor) -> None:
            if not self._sync:
                return
            if self._finished or number < self._next:
                raise RuntimeError("backward ran again before zero_grad(): wrap all but a step's last in no_sync()")
            self._ready[number].add(parameter)
            while self._next < len(self.units) and len(self._ready[self._next]) == len(self.units[self._next].named):
                self._reduce_next()

        return ready

    def _reduce_next(self) -> None:
        self._start_reduction(self._next)
        self._ready[self._next].clear()
        self._next += 1

    def _reduce_rest(self) -> None:
        while self._next < len(self.units):
            self._reduce_next()
        self._wait()
        self._next = 0

    def _spread(self) -> None:
        for flat, shard in zip(self._parameters, self.parameter_shards(), strict=True):
            all_gather_flat(flat, shard.clone(), self._group)
