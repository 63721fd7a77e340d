"""Dynamic loss scaling for fp16: a factor that keeps small gradients above zero, and shrinks when they overflow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from bancada_optimizers import _check


class DynamicLossScaler:
    """Multiplies the loss by S, divides the gradients by S before the step, and leaves a step out that overflowed.

    After an overflow S <- S * backoff; after `interval` steps in a row without one S <- S * growth.

        scaler.scale(loss).backward()
        scaler.unscale(optimizer)          # only where gradients are looked at or clipped
        if scaler.step(optimizer):
            scheduler.step()

    Args:
        scale: S at first, above 0.
        growth: above 1.
        backoff: between 0 and 1.
        interval: steps, at least 1.
        smallest, largest: S stays between them.

    Raises:
        ValueError: an argument out of range.

    Paper: Micikevicius et al., Mixed Precision Training, arXiv 1710.03740, section 3.2.
    """

    def __init__(
        self,
        scale: float = 2.0**16,
        *,
        growth: float = 2.0,
        backoff: float = 0.5,
        interval: int = 2000,
        smallest: float = 1.0,
        largest: float = 2.0**24,
    ) -> None:
        self.growth = _check.number("growth", growth, above=1)
        self.backoff = _check.number("backoff", backoff, above=0, below=1)
        self.interval = _check.whole("interval", interval, least=1)
        self.smallest = _check.number("smallest", smallest, above=0)
        self.largest = _check.number("largest", largest, least=smallest)
        self.value = _check.number("scale", scale, least=smallest)
        if self.value > self.largest:
            raise ValueError(f"scale={scale!r}: must be at most largest={largest!r}")
        self.good_steps = 0
        self._unscaled: dict[int, bool] = {}

    def scale(self, loss: Tensor) -> Tensor:
        """The loss times S."""
        return loss * self.value

    @torch.no_grad()
    def unscale(self, optimizer: torch.optim.Optimizer) -> bool:
        """Divides the gradients of an optimizer by S, once a step; whether all of them are finite.

        RuntimeError where they have been divided since the last step.
        """
        if id(optimizer) in self._unscaled:
            raise RuntimeError("unscale: the gradients of this optimizer have been unscaled since its last step")
        grads = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        finite = True
        for g in grads:
            g.div_(self.value)
            finite = finite and bool(torch.isfinite(g).all())
        self._unscaled[id(optimizer)] = finite
        return finite

    def step(self, optimizer: torch.optim.Optimizer) -> bool:
        """Steps the optimizer where its gradients are finite, and adapts S; whether it stepped.

        Where it returns False nothing has changed but S: a schedule or an average must not go on either.
        """
        finite = self._unscaled.pop(id(optimizer)) if id(optimizer) in self._unscaled else self.unscale(optimizer)
        self._unscaled.pop(id(optimizer), None)
        if not finite:
            self.value = max(self.smallest, self.value * self.backoff)
            self.good_steps = 0
            return False
        optimizer.step()
        self.good_steps += 1
        if self.good_steps == self.interval:
            self.value, self.good_steps = min(self.largest, self.value * self.growth), 0
        return True

    def state_dict(self) -> dict[str, Any]:
        """S and the steps since it last changed."""
        return {"scale": self.value, "good_steps": self.good_steps}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Goes on where the saved one was; ValueError for numbers out of range."""
        value = _check.number("scale", state_dict["scale"], above=0)
        self.good_steps = _check.whole("good_steps", state_dict["good_steps"])
        self.value = value
