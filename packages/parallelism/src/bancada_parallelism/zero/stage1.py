"""ZeRO stage 1: optimizer states sharded; parameters and gradients whole on every rank."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bancada_parallelism._calls import all_gather_flat
from bancada_parallelism.data.buckets import assign_buckets
from bancada_parallelism.data.data_parallel import DEFAULT_BUCKET_BYTES
from bancada_parallelism.layout import Layout
from bancada_parallelism.zero.adamw import AdamWConfig
from bancada_parallelism.zero.base import Zero, nbytes
from bancada_parallelism.zero.bytes import ModelState


class ZeroStage1(Zero):
    """AdamW with its states sharded: a rank holds (4 + 4)P + 8P/N bytes in fp32, and sends 2(N-1)/N P elements a step.

    Gradients are local until `finish`, with or without `no_sync`; it leaves each rank the average of its shard.
    Gradients are views of one buffer a unit: forget them by `zero_grad` of this class only.

    Args:
        module: set to the first data rank's; fp32 or fp64.
        layout: the ranks along its `data` axis take part.
        config: AdamW's hyperparameters.
        unit_bytes: about how much is reduced at once.

    Raises:
        ValueError: modules that differ between ranks, another dtype, or nothing trainable.

    Paper: Rajbhandari et al., ZeRO, arXiv 1910.02054.
    """

    stage = 1

    def __init__(
        self, module: nn.Module, layout: Layout, config: AdamWConfig | None = None, *,
        unit_bytes: int = DEFAULT_BUCKET_BYTES,
    ) -> None:  # fmt: skip
        super().__init__(module, layout, assign_buckets(dict(module.named_parameters()), unit_bytes))
        self.config = config or self.config
        self._parameters, self._gradients = [], []
        for unit in self.units:
            flat = unit.flatten(unit.named)
            for name, view in unit.views(flat).items():
                unit.named[name].data = view
            self._parameters.append(flat)
            self._gradients.append(torch.zeros_like(flat))
        self.zero_grad()

    def parameter_shards(self) -> list[Tensor]:
        """This rank's slices of the whole parameters."""
        return [unit.own(flat) for unit, flat in zip(self.units, self._parameters, strict=True)]

    def gradient_shards(self) -> list[Tensor]:
        """This rank's slices of the gradients' buffers."""
        return [unit.own(flat) for unit, flat in zip(self.units, self._gradients, strict=True)]

    def zero_grad(self) -> None:
        """Sets the gradients to zeros, in place."""
        for unit, flat in zip(self.units, self._gradients, strict=True):
            flat.zero_()
            for name, view in unit.views(flat).items():
                unit.named[name].grad = view
        self._finished = False

    def state_bytes(self) -> ModelState:
        """Bytes of model state that this rank holds now, counted from its tensors."""
        return ModelState(nbytes(self._parameters), nbytes(self._gradients), self._optimizer_bytes())

    def _reduce_rest(self) -> None:
        for unit, flat in zip(self.units, self._gradients, strict=True):
            for name, view in unit.views(flat).items():
                found = unit.named[name].grad
                if found is None or found.data_ptr() != view.data_ptr():
                    raise RuntimeError(f"{name}: its gradient was replaced: forget gradients by ZeroStage1.zero_grad()")
        started = [self._scatter(flat) for flat in self._gradients]
        for shard, (out, work) in zip(self.gradient_shards(), started, strict=True):
            work.wait()
            shard.copy_(out.div_(self._ranks))

    def _spread(self) -> None:
        for flat, shard in zip(self._parameters, self.parameter_shards(), strict=True):
            all_gather_flat(flat, shard.clone(), self._group)
