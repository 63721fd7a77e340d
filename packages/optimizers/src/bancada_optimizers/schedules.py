"""Learning-rate schedules: a factor for every update as a pure function, and what writes it into an optimizer.

Updates are counted from 1, and the rate of update t is factor(t) times the base rate. A warm-up of w updates reaches
its peak exactly at update w, and its first rate is 1/w of the peak, never 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from bancada_optimizers import _check


class Schedule(Protocol):
    """What a `Scheduler` follows."""

    def factor(self, update: int) -> float:
        """The rate of an update as a share of the base rate; updates are counted from 1."""
        ...


def _check_span(warmup: int, updates: int, final: float) -> None:
    _check.whole("warmup", warmup)
    _check.whole("updates", updates, least=1)
    if warmup > updates:
        raise ValueError(f"warmup={warmup}: must be at most updates={updates}")
    _check.number("final", final, least=0)


def _progress(update: int, warmup: int, updates: int) -> float:
    """How much of the way from the end of the warm-up to the last update is behind: 0 to 1."""
    return 1.0 if updates == warmup else min(1.0, max(0.0, (update - warmup) / (updates - warmup)))


@dataclass(frozen=True)
class Constant:
    """Linear warm-up, then the base rate: min(1, t / warmup).

    Args:
        warmup: updates, at least 0.
    """

    warmup: int = 0

    def __post_init__(self) -> None:
        _check.whole("warmup", self.warmup)

    def factor(self, update: int) -> float:
        """The rate of an update as a share of the base rate."""
        _check.whole("update", update, least=1)
        return min(1.0, update / self.warmup) if self.warmup else 1.0


@dataclass(frozen=True)
class Linear:
    """Linear warm-up, then linearly down: 1 - (1 - final) x, x = (t - warmup) / (updates - warmup).

    Args:
        warmup: updates, at least 0 and at most `updates`.
        updates: of the whole run; from the last one on the factor is `final`.
        final: at least 0.
    """

    warmup: int
    updates: int
    final: float = 0.0

    def __post_init__(self) -> None:
        _check_span(self.warmup, self.updates, self.final)

    def factor(self, update: int) -> float:
        """The rate of an update as a share of the base rate."""
        _check.whole("update", update, least=1)
        if update < self.warmup:
            return Constant(self.warmup).factor(update)
        return 1 - (1 - self.final) * _progress(update, self.warmup, self.updates) if update != self.warmup else 1.0


@dataclass(frozen=True)
class Cosine:
    """Linear warm-up, then half a cosine: final + (1 - final) (1 + cos(pi x)) / 2, x = (t - warmup)/(updates - warmup).

    Args:
        warmup: updates, at least 0 and at most `updates`.
        updates: of the whole run; from the last one on the factor is `final`.
        final: at least 0.

    Paper: Loshchilov and Hutter, SGDR, arXiv 1608.03983, without restarts.
    """

    warmup: int
    updates: int
    final: float = 0.0

    def __post_init__(self) -> None:
        _check_span(self.warmup, self.updates, self.final)

    def factor(self, update: int) -> float:
        """The rate of an update as a share of the base rate."""
        _check.whole("update", update, least=1)
        if update < self.warmup:
            return Constant(self.warmup).factor(update)
        if update == self.warmup:
            return 1.0
        turn = math.cos(math.pi * _progress(update, self.warmup, self.updates))
        return self.final + (1 - self.final) * (1 + turn) / 2


@dataclass(frozen=True)
class InverseSqrt:
    """Linear warm-up, then sqrt(warmup / t): the schedule of the first Transformer, scaled to a peak of 1.

    Args:
        warmup: updates, at least 1.

    Paper: Vaswani et al., arXiv 1706.03762, section 5.3.
    """

    warmup: int

    def __post_init__(self) -> None:
        _check.whole("warmup", self.warmup, least=1)

    def factor(self, update: int) -> float:
        """The rate of an update as a share of the base rate."""
        _check.whole("update", update, least=1)
        return min(update / self.warmup, math.sqrt(self.warmup / update))


@dataclass(frozen=True)
class WarmupStableDecay:
    """Linear warm-up, a plateau, and a decay over the last updates: 1 - (1 - final) x, or 1 - (1 - final) sqrt(x).

    The plateau may be left from any checkpoint, so the length of a run need not be known when it begins.

    Args:
        warmup: updates, at least 0.
        stable: updates at the base rate, at least 0.
        decay: updates that go down, at least 1; the last of them has the factor `final`, and so has what follows.
        final: at least 0.
        shape: "linear", or "sqrt" for 1 - sqrt.

    Papers: Hu et al., MiniCPM, arXiv 2404.06395; Haegele et al., arXiv 2405.18392 (1 - sqrt).
    """

    warmup: int
    stable: int
    decay: int
    final: float = 0.0
    shape: str = "linear"

    def __post_init__(self) -> None:
        _check.whole("warmup", self.warmup)
        _check.whole("stable", self.stable)
        _check.whole("decay", self.decay, least=1)
        _check.number("final", self.final, least=0)
        _check.choice("shape", self.shape, ("linear", "sqrt"))

    def factor(self, update: int) -> float:
        """The rate of an update as a share of the base rate."""
        begin = self.warmup + self.stable
        if update <= begin:
            return Constant(self.warmup).factor(update)
        x = _progress(update, begin, begin + self.decay)
        return 1 - (1 - self.final) * (x if self.shape == "linear" else math.sqrt(x))


class Scheduler:
    """Writes a schedule's rates into an optimizer, update by update.

    The rate is always computed from the base rate and the number of the update, never from the rate before, so that
    nothing compounds and a resumed run has the rates of one that was not interrupted. The base rates stand in the
    groups as `initial_lr`, plain numbers, and are saved with the optimizer.

    Args:
        optimizer: its groups' `lr` are the base rates, or `initial_lr` where a group has one.
        schedule: gives the factors.
        update: the number of the update that comes next, from 1 (resuming without a state).

    Raises:
        ValueError: `update` below 1, or a rate that is not a number.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, schedule: Schedule, update: int = 1) -> None:
        self.optimizer, self.schedule = optimizer, schedule
        self.update = _check.whole("update", update, least=1)
        rates = [float(group.get("initial_lr", group["lr"])) for group in optimizer.param_groups]
        for rate in rates:
            _check.number("lr", rate, least=0)
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["initial_lr"] = rate
        self._write()

    @property
    def rates(self) -> list[float]:
        """The rates of the next update, a group each."""
        factor = self.schedule.factor(self.update)
        return [group["initial_lr"] * factor for group in self.optimizer.param_groups]

    def step(self) -> None:
        """Goes on to the next update: once after each `optimizer.step()`, not after each micro-batch."""
        self.update += 1
        self._write()

    def state_dict(self) -> dict[str, Any]:
        """The number of the next update and the base rates."""
        return {"update": self.update, "rates": [group["initial_lr"] for group in self.optimizer.param_groups]}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Goes on where the saved one was. ValueError where the groups are not as many, with nothing changed."""
        rates, groups = list(state_dict["rates"]), self.optimizer.param_groups
        if len(rates) != len(groups):
            raise ValueError(f"state_dict: {len(rates)} rates; must be one for each of {len(groups)} groups")
        update = _check.whole("update", state_dict["update"], least=1)
        for rate in rates:
            _check.number("rates", rate, least=0)
        self.update = update
        for group, rate in zip(groups, rates, strict=True):
            group["initial_lr"] = float(rate)
        self._write()

    def _write(self) -> None:
        for group in self.optimizer.param_groups:
            group.setdefault("initial_lr", float(group["lr"]))  # a group that joined late
        for group, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
            group["lr"] = rate
