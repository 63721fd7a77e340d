"""One strategy at work on one rank: what all of them, ours and the libraries', have in common."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
import torch.utils.checkpoint
from torch import Tensor, nn

from bancada.ranks import Ranks
from bancada.suite import Case, Tensors
from bancada_parallelism import Layout
from bancada_parallelism._suites import decoder


@functools.cache
def layout(device: str, pipeline: int = 1, data: int = 1, tensor: int = 1) -> Layout:
    """One layout a process: the contenders of a pool share its groups, which outlive them all."""
    return Layout.over_ranks(pipeline=pipeline, data=data, tensor=tensor, device=device)


def local(tensor: Tensor) -> Tensor:
    """What of a tensor lies on this rank: the shard of a DTensor, or the tensor itself."""
    from torch.distributed.tensor import DTensor

    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def whole(tensor: Tensor) -> Tensor:
    """The whole of a DTensor, by a collective; or the tensor itself."""
    from torch.distributed.tensor import DTensor

    found: Tensor = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
    return found.detach()


def nbytes(tensors: Iterable[Tensor | None]) -> int:
    """Bytes of the elements that lie on this rank."""
    here = [local(tensor) for tensor in tensors if tensor is not None]
    return sum(tensor.numel() * tensor.element_size() for tensor in here)


def union(mine: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of all ranks by name, on rank 0; elsewhere only this rank's."""
    found: list[Any] = [None] * dist.get_world_size()
    dist.gather_object(dict(mine), found if dist.get_rank() == 0 else None)
    return {name: tensor for ranks in found if ranks for name, tensor in ranks.items()} or dict(mine)


class Engine(ABC):
    """Trains a case's decoder, a step at a time; with activations computed again where the case says so."""

    recompute: Callable[..., Any] = staticmethod(partial(torch.utils.checkpoint.checkpoint, use_reentrant=False))
    """`recompute(block, x)`: what a block runs in then."""

    loss_share = 1.0
    """This rank's share in the loss of a step: the sum over ranks of loss x share is the mean over all tokens."""

    def __init__(self, case: Case, given: Tensors, ranks: Ranks) -> None:
        self.case, self.given, self.ranks = case, given, ranks
        self.around = self.recompute if decoder.checkpointed(case) else None
        self._losses: list[Tensor] = []
        self._number = 0
        self.start()

    @abstractmethod
    def start(self) -> None:
        """Makes model and optimizer from what is given."""

    @abstractmethod
    def update(self, tokens: Tensor, labels: Tensor) -> Tensor:
        """One step on the batch of all ranks; this rank's loss, detached.

        Gradients are forgotten at its beginning, so that they are among what is held between steps.
        """

    @abstractmethod
    def moments(self) -> dict[str, Tensor]:
        """AdamW's first moments, whole, by name, on rank 0."""

    @abstractmethod
    def parameters(self) -> dict[str, Tensor]:
        """The parameters, whole, by name, on rank 0."""

    @abstractmethod
    def state_bytes(self) -> dict[str, int]:
        """Bytes that this rank holds between steps; of the optimizer's, those that grow with the parameters."""

    @abstractmethod
    def restart(self) -> None:
        """Model and optimizer as they were before the first step."""

    def step(self) -> None:
        """Trains on the next of the batches, in turn."""
        batch = self.given["tokens"][self._number % decoder.STEPS]
        loss = self.update(batch[:, :-1], batch[:, 1:])
        if self._number < decoder.STEPS:
            self._losses.append(loss)
        self._number += 1

    def reset(self) -> None:
        """Back to before the first step."""
        self._losses, self._number = [], 0
        self.restart()

    def outputs(self) -> dict[str, Tensor]:
        """The losses so far, the moments and the parameters, whole on rank 0."""
        losses = torch.stack(self._losses).double() * self.loss_share
        dist.all_reduce(losses)
        return decoder.outputs(losses, self.moments(), self.parameters())

    def close(self) -> None:
        """Lets go of model and optimizer."""
        self.__dict__.clear()


class TorchEngine(Engine):
    """One whose optimizer is one of torch.optim's over its own parameters."""

    module: nn.Module
    optimizer: torch.optim.Optimizer

    def optimize(self, module: nn.Module, **options: Any) -> None:
        """Takes over a module, AdamW for it, and a copy of its first values."""
        self.module = module
        kinds: dict[type, list[nn.Parameter]] = {}
        for parameter in module.parameters():  # one call for all tensors cannot take plain ones and DTensors
            kinds.setdefault(type(parameter.data), []).append(parameter)
        groups = [{"params": parameters} for parameters in kinds.values()]
        self.optimizer = torch.optim.AdamW(groups, **decoder.ADAMW, **options)
        self._first = [local(p).detach().clone() for p in module.parameters()]

    def mine(self, batch: Tensor) -> Tensor:
        """This data rank's part of a batch."""
        return batch.chunk(self.ranks.world_size)[self.ranks.rank]

    def moment(self, parameter: nn.Parameter) -> Tensor:
        """A parameter's first moment, as far as it lies here."""
        return whole(self.optimizer.state[parameter]["exp_avg"])

    def moments(self) -> dict[str, Tensor]:
        """Whole already, or joined by DTensor."""
        return {name: self.moment(p) for name, p in self.module.named_parameters()}

    def parameters(self) -> dict[str, Tensor]:
        """Whole already, or joined by DTensor."""
        return {name: whole(p) for name, p in self.module.named_parameters()}

    def state_bytes(self) -> dict[str, int]:
        """Counted from the tensors that are there."""
        parameters = list(self.module.parameters())
        states = [value for state in self.optimizer.state.values() for value in state.values()]
        return {
            "parameters": nbytes(parameters),
            "gradients": nbytes(p.grad for p in parameters),
            "optimizer": nbytes(value for value in states if isinstance(value, Tensor) and value.dim()),
        }

    def restart(self) -> None:
        """In place: what a library has set up around the module stays."""
        with torch.no_grad():
            for parameter, first in zip(self.module.parameters(), self._first, strict=True):
                local(parameter).copy_(first)
                parameter.grad = None
        self.optimizer.state.clear()


class PipelineEngine(TorchEngine):
    """One whose model is cut into stages, stepped by a schedule."""

    def __init__(self, *args: Any, schedule: str, **options: Any) -> None:
        self._schedule = schedule
        super().__init__(*args, **options)

    def update(self, tokens: Tensor, labels: Tensor) -> Tensor:
        """All micro-batches through the pipeline, then the stage's own step."""
        self.optimizer.zero_grad()
        losses = self.run(tokens, labels)
        self.optimizer.step()
        return losses

    @abstractmethod
    def run(self, tokens: Tensor, labels: Tensor) -> Tensor:
        """Forward and backward of the batch; its loss on the last stage, 0 elsewhere."""
