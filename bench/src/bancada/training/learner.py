"""The learner most contenders need: a model, an optimizer, perhaps a schedule and clipped gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from bancada.training.declare import Task


class Stepping(Protocol):
    """What is stepped once an update: a schedule."""

    def step(self) -> Any:
        """Goes on to the next update."""


class Optimizing(Protocol):
    """An optimizer: torch's, or whatever steps and clears gradients like them."""

    def step(self) -> Any:
        """Applies the gradients."""

    def zero_grad(self) -> Any:
        """Clears the gradients."""


class GradientLearner:
    """One update is forward, backward, clipping, step, schedule, gradients cleared.

    Args:
        task: gives the loss.
        model: what is trained; parameters that do not require gradients stay as they are.
        optimizer: one, or several that share the parameters (Muon for matrices, AdamW for the rest).
        schedule: stepped after every update: one, or one for each optimizer.
        clip: gradients are scaled down to this global norm: g <- g * min(1, clip / ||g||).
        loss: `loss(model, batch)` in place of the task's (a distillation loss).
    """

    def __init__(
        self,
        task: Task,
        model: nn.Module,
        optimizer: Optimizing | Sequence[Optimizing],
        schedule: Stepping | Sequence[Stepping] | None = None,
        clip: float | None = None,
        loss: Callable[[nn.Module, Mapping[str, Tensor]], Tensor] | None = None,
    ) -> None:
        if clip is not None and not clip > 0:
            raise ValueError(f"clip={clip!r}: must be None or above 0")
        self.model = model
        self.optimizers = tuple(optimizer) if isinstance(optimizer, Sequence) else (optimizer,)
        schedules = () if schedule is None else schedule
        self.schedules = tuple(schedules) if isinstance(schedules, Sequence) else (schedules,)
        self.clip = clip
        self._loss = loss or task.loss
        self._trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]

    def update(self, batch: Mapping[str, Tensor]) -> Tensor:
        """One whole update on a batch; the loss before it, detached."""
        loss = self._loss(self.model, batch)
        loss.backward()  # type: ignore[no-untyped-call]
        if self.clip is not None:
            nn.utils.clip_grad_norm_(self._trainable, self.clip)
        for optimizer in self.optimizers:
            optimizer.step()
        for schedule in self.schedules:
            schedule.step()
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        return loss.detach()

    def state_bytes(self) -> dict[str, int]:
        """Bytes of `parameters`, of those that are `trainable`, of `buffers`, and of the `optimizer`'s state."""
        return {
            "parameters": tensor_bytes(self.model.parameters()),
            "trainable": tensor_bytes(self._trainable),
            "buffers": tensor_bytes(self.model.buffers()),
            "optimizer": tensor_bytes([getattr(one, "state", None) for one in self.optimizers]),
        }


def tensor_bytes(found: object) -> int:
    """Bytes of all tensors inside nested mappings and sequences; shared storage counts once.

    Of a tensor subclass made of several tensors (a quantised state), the inner ones count.
    """
    seen: dict[tuple[str, int], int] = {}

    def note(value: object) -> None:
        if isinstance(value, Tensor):
            inner = getattr(value, "__tensor_flatten__", None)
            if inner is not None and type(value) not in (Tensor, nn.Parameter):
                for name in inner()[0]:
                    note(getattr(value, name))
                return
            storage = value.untyped_storage()
            place = storage.data_ptr() or id(storage)
            seen[str(value.device), place] = storage.nbytes()
        elif isinstance(value, Mapping):
            note(list(value.values()))
        elif isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
            for one in value:
                note(one)

    with torch.no_grad():
        note(found)
    return sum(seen.values())
