"""A whole module of which an adapter trains a copy of its own: a classifier, a head."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from bancada_peft.layers import AdaptedModule, Adapter, detach, wide


class SavedModule(Adapter):
    """Runs a copy in place of the module it was copied from."""

    def __init__(self, host: nn.Module) -> None:
        super().__init__()
        self.module = copy.deepcopy(host)
        for inner in list(self.module.modules()):  # of the plain module, without what other adapters brought
            if isinstance(inner, AdaptedModule):
                for name in list(inner.adapters):
                    detach(inner, name)

    def forward(self, host: AdaptedModule, base: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Any:
        """The copy's output."""
        return self.module(*args, **kwargs)

    def merged(self, host: nn.Module) -> dict[str, Tensor]:
        """The copy's parameters."""
        found = dict(self.module.named_parameters())
        return {name: tensor.to(wide(tensor.dtype)) for name, tensor in found.items()}


def shared_outside(model: nn.Module, module: nn.Module) -> list[str]:
    """Where in `model` the parameters of `module` are used under a further name, outside it (tied weights)."""
    own = {id(parameter) for parameter in module.parameters()}
    inside = {id(inner) for inner in module.modules()}
    return [
        f"{path}.{name}" if path else name
        for path, other in model.named_modules()
        if id(other) not in inside
        for name, parameter in other._parameters.items()
        if parameter is not None and id(parameter) in own
    ]
