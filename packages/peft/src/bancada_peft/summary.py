"""How much of a model is trained."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn


@dataclass(frozen=True)
class TrainableSummary:
    """Counts of parameters, each shared one once, and the bytes that they take.

    `optimizer_bytes` is what AdamW keeps for the trained ones: two numbers a parameter in its own type.
    """

    trainable: int
    total: int
    trainable_bytes: int
    optimizer_bytes: int
    names: tuple[str, ...]

    @property
    def share(self) -> float:
        """The trained part of all parameters, 0 for a model without any."""
        return self.trainable / self.total if self.total else 0.0

    def __str__(self) -> str:
        """One line for a log."""
        mib = self.trainable_bytes / 2**20
        return f"{self.trainable:,} of {self.total:,} parameters trained ({self.share:.3%}), {mib:.2f} MiB"


def trainable_summary(model: nn.Module) -> TrainableSummary:
    """Counts what `requires_grad` says, on any device (the meta device too: nothing is computed)."""
    parameters = dict(model.named_parameters())  # names a shared parameter once
    trained = {name: parameter for name, parameter in parameters.items() if parameter.requires_grad}
    size = sum(parameter.numel() * parameter.element_size() for parameter in trained.values())
    return TrainableSummary(
        trainable=sum(parameter.numel() for parameter in trained.values()),
        total=sum(parameter.numel() for parameter in parameters.values()),
        trainable_bytes=size,
        optimizer_bytes=2 * size,
        names=tuple(trained),
    )
