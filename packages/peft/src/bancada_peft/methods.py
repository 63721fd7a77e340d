"""What every method's settings have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import nn

from bancada_peft._check import check_patterns
from bancada_peft.layers import Adapter
from bancada_peft.targets import select

DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


class Method(ABC):
    """Settings of a method, which say where in a model its adapters go and what they are.

    Attributes:
        modules_to_save: names of whole modules (a classifier) of which the adapter gets a copy of its own to train.
        dtype: of the adapter's parameters; None: float32 on half-precision layers, the layer's own elsewhere.
    """

    modules_to_save: tuple[str, ...]
    dtype: torch.dtype | None

    def check(self) -> None:
        """ValueError for a wrong `modules_to_save` or `dtype`."""
        saved = check_patterns("modules_to_save", self.modules_to_save, may_be_empty=True)
        if isinstance(saved, str):
            raise ValueError(f"modules_to_save={saved!r}: must be a list of module names")
        object.__setattr__(self, "modules_to_save", saved)
        if self.dtype is not None and self.dtype not in DTYPES:
            raise ValueError(f"dtype={self.dtype!r}: allowed are None, {', '.join(map(str, DTYPES))}")

    @abstractmethod
    def targets(self, model: nn.Module) -> dict[str, nn.Module]:
        """The modules that get an adapter, by path; ValueError where there are none."""

    @abstractmethod
    def build(self, path: str, module: nn.Module) -> Adapter:
        """A new adapter for one module; ValueError naming the path where the module cannot have one."""


@dataclass(frozen=True)
class LayerMethod(Method):
    """Settings of a method that is put on chosen layers of a model.

    Args:
        target_modules: see `bancada_peft.targets.select`.
        modules_to_save, dtype: see `Method`.
    """

    target_modules: str | tuple[str, ...]
    modules_to_save: tuple[str, ...] = ()
    dtype: torch.dtype | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "target_modules", check_patterns("target_modules", self.target_modules))
        self.check()

    def targets(self, model: nn.Module) -> dict[str, nn.Module]:
        """The layers that `target_modules` names."""
        return select(model, self.target_modules)


def refuse(path: str, module: nn.Module, method: str, allowed: str) -> ValueError:
    """The error for a layer that a method cannot be put on."""
    kind = f"{type(module).__module__}.{type(module).__qualname__}"
    return ValueError(f"target_modules: {path!r} is a {kind}; {method} goes on {allowed}")
