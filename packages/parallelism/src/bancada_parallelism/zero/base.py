"""What the three stages share: AdamW on shards, the norm of all gradients, whole states in and out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from bancada_parallelism._calls import all_gather_flat, start_reduce_scatter
from bancada_parallelism._check import check_number
from bancada_parallelism._same import broadcast_module
from bancada_parallelism.clipping.clip import counted_parameters, factor_for, model_groups, norm_over
from bancada_parallelism.layout import Layout
from bancada_parallelism.zero.adamw import AdamWConfig, adamw_
from bancada_parallelism.zero.bytes import ModelState
from bancada_parallelism.zero.unit import Unit

State = dict[str, Any]


class Zero(ABC):
    """A module trained by AdamW with its state sharded over the data ranks; the stages differ in what is sharded.

    A step, at every stage::

        with zero.no_sync():                  # all micro-batches but the last
            loss(zero.module(x0)).backward()
        loss(zero.module(x1)).backward()
        zero.finish()                         # gradients are then averaged over ranks, each rank holds its shards
        zero.clip_grad_norm(1.0)
        zero.step()
        zero.zero_grad()

    Gradients add up over the micro-batches and are averaged over the ranks, the same at every stage. Inside `no_sync`
    nothing is sent, and gradients stay whole on each rank, at stages 2 and 3 too: traffic is saved for memory. Frozen
    parameters stay whole on every rank. One set of hyperparameters holds for all parameters.
    """

    stage: int

    def __init__(self, module: nn.Module, layout: Layout, groups: Sequence[Mapping[str, nn.Parameter]]) -> None:
        self.module = module
        self._layout, self._group, self._ranks = layout, layout.group("data"), layout.size("data")
        if not groups:
            raise ValueError("module: no parameter requires a gradient")
        self.units = [Unit(named, self._ranks, layout.rank("data")) for named in groups]
        broadcast_module(module, self._group)
        self._m = [torch.zeros(u.shard_numel, dtype=u.dtype, device=u.device) for u in self.units]
        self._v = [torch.zeros_like(m) for m in self._m]
        self._steps = 0
        self._finished = False
        self._sync = True
        self.config = AdamWConfig()

    # What a stage decides

    @abstractmethod
    def parameter_shards(self) -> list[Tensor]:
        """This rank's shard of each unit's parameters."""

    @abstractmethod
    def gradient_shards(self) -> list[Tensor]:
        """This rank's shard of each unit's averaged gradients, after `finish`."""

    @abstractmethod
    def _reduce_rest(self) -> None:
        """Completes the reduction of gradients."""

    @abstractmethod
    def _spread(self) -> None:
        """Makes the stepped shards known where parameters are whole."""

    @abstractmethod
    def zero_grad(self) -> None:
        """Forgets the gradients."""

    @abstractmethod
    def state_bytes(self) -> ModelState:
        """Bytes of model state that this rank holds now, counted from its tensors."""

    # What all have

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Around all micro-batches of a step but the last: gradients add up on this rank, and are not sent."""
        before, self._sync = self._sync, False
        try:
            yield
        finally:
            self._sync = before

    def finish(self) -> None:
        """Completes the average of the gradients; once a step, after the last backward; a collective.

        Raises:
            RuntimeError: a second time without `zero_grad`, or inside `no_sync`.
        """
        if not self._sync:
            raise RuntimeError("finish() inside no_sync(): call it after the last backward, outside")
        if self._finished:
            raise RuntimeError("finish() twice in a step: call it once, after the last backward, and zero_grad() later")
        self._reduce_rest()
        self._finished = True

    def grad_norm(self, *, tied: Collection[nn.Parameter] = ()) -> float:
        """sqrt(sum of squares of all averaged gradients of the model), each element counted once; a collective.

        Args:
            tied: parameters that the first and the last pipeline stage both hold.

        Raises:
            ValueError: `tied` holds what is no parameter of the module; before the collective.
        """
        self._check_finished("grad_norm")
        counted = set(counted_parameters(self.module, self._layout, tied))
        shards = [
            piece
            for unit, shard in zip(self.units, self.gradient_shards(), strict=True)
            for name, piece in unit.pieces(shard).items()
            if unit.named[name] in counted
        ]
        return norm_over(shards, [self._group, *model_groups(self._layout)], self.units[0].device)

    def clip_grad_norm(self, max_norm: float, *, tied: Collection[nn.Parameter] = ()) -> float:
        """Scales the gradients to a norm of at most `max_norm`; the norm before. A collective.

        Raises:
            ValueError: `max_norm` is no finite number of at least 0, or as `grad_norm`; before the collective.
            FloatingPointError: the norm is not finite; on every rank, and the gradients stay as they were.
        """
        check_number("max_norm", max_norm, 0)
        norm = self.grad_norm(tied=tied)
        if (factor := factor_for(norm, max_norm)) != 1.0:
            torch._foreach_mul_(self.gradient_shards(), factor)
        return norm

    def step(self) -> None:
        """One AdamW step of every shard; a collective at stages 1 and 2.

        Raises:
            RuntimeError: before `finish`.
        """
        self._check_finished("step")
        self._steps += 1
        adamw_(self.parameter_shards(), self.gradient_shards(), self._m, self._v, self._steps, self.config)
        self._spread()

    def full_gradients(self) -> dict[str, Tensor]:
        """The whole averaged gradients by name, on every rank; a collective."""
        self._check_finished("full_gradients")
        return self._gather(self.gradient_shards())

    def full_state(self) -> State:
        """Everything a run goes on from, unsharded and by parameter name, for any number of ranks; a collective."""
        return {
            "steps": self._steps,
            "parameters": self._gather(self.parameter_shards()),
            "exp_avg": self._gather(self._m),
            "exp_avg_sq": self._gather(self._v),
        }

    def load_full_state(self, state: State) -> None:
        """Takes over a `full_state`, saved by any stage on any number of ranks; every rank has the whole of it.

        Raises:
            ValueError: other names or shapes than this module's; nothing is changed then.
        """
        wanted = {name: shape for unit in self.units for name, shape in unit.shapes.items()}
        for key in ("parameters", "exp_avg", "exp_avg_sq"):
            found = {name: tensor.shape for name, tensor in state.get(key, {}).items()}
            if found != wanted:
                wrong = sorted(n for n in found.keys() | wanted.keys() if found.get(n) != wanted.get(n))
                raise ValueError(f"state[{key!r}]: missing, unknown or of another shape: {', '.join(wrong)}")
        targets = (("parameters", self.parameter_shards()), ("exp_avg", self._m), ("exp_avg_sq", self._v))
        with torch.no_grad():
            for key, shards in targets:
                for unit, shard in zip(self.units, shards, strict=True):
                    shard.copy_(unit.own(unit.flatten(state[key])))
        self._steps = int(state["steps"])
        self._spread()

    def _gather(self, shards: Sequence[Tensor]) -> dict[str, Tensor]:
        whole: dict[str, Tensor] = {}
        for unit, shard in zip(self.units, shards, strict=True):
            flat = shard.new_empty(unit.padded)
            all_gather_flat(flat, shard.contiguous(), self._group)
            whole |= unit.views(flat)
        return whole

    def _scatter(self, flat: Tensor) -> tuple[Tensor, dist.Work]:
        """The start of a sum over ranks of which this rank gets its shard."""
        out = flat.new_empty(flat.numel() // self._ranks)
        return out, start_reduce_scatter(out, flat, self._group)

    def _optimizer_bytes(self) -> int:
        return nbytes(self._m) + nbytes(self._v)

    def _check_finished(self, what: str) -> None:
        if not self._finished:
            raise RuntimeError(f"{what}() before finish(): the gradients are not averaged yet")


def nbytes(tensors: Sequence[Tensor]) -> int:
    """Bytes of the elements of some tensors."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
