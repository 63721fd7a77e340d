"""How a layer of a model carries adapters: it stays the same object and changes its class.

`Linear` becomes `AdaptedLinear`, a subclass of it: its weight, its place in the model, its names in the state
dictionary and whatever is tied to it stay as they are, and taking the class back undoes all of it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

Layout = Literal["linear", "conv1d", "embedding"]
_adapted_classes: dict[type[nn.Module], type[nn.Module]] = {}


@dataclass
class Merged:
    """What a layer remembers while an adapter stands in its weights.

    `copies` are the parameters as they were, by name, or empty where none are kept; `versions` tell whether the
    adapter has been written to since, in which case what was added cannot be computed again.
    """

    name: str
    copies: dict[str, Tensor]
    versions: tuple[int, ...]


class Adapter(nn.Module):
    """What a method puts on one layer. `forward` gets the layer, its own forward pass, and its arguments."""

    mergeable = True
    reversible = False
    """Whether merging can be undone without a copy, up to rounding."""

    def forward(self, host: AdaptedModule, base: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Any:
        """The adapted output of `host`, whose own forward pass is `base`."""
        raise NotImplementedError

    def merged(self, host: nn.Module) -> dict[str, Tensor]:
        """The parameters of `host` with this adapter in them, by name, in `wide(dtype)`."""
        raise NotImplementedError

    def unmerged(self, host: nn.Module) -> dict[str, Tensor]:
        """The inverse of `merged`, where `reversible`."""
        raise NotImplementedError


class AdaptedModule(nn.Module):
    """Mixed into the class of a layer that carries adapters, one of which is active at most."""

    adapters: nn.ModuleDict
    active: str | None
    merged_state: Merged | None

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The active adapter's output; the layer's own, to the bit, where none is active or one is merged."""
        if self.active is None or self.merged_state is not None or self.active not in self.adapters:
            return super().forward(*args, **kwargs)
        return self.adapters[self.active](self, super().forward, *args, **kwargs)


def layout_of(module: nn.Module) -> Layout | None:
    """How a layer keeps its weight: linear [out, in], conv1d [in, out], embedding [entries, dim]; None for others.

    Subclasses are not taken for what they derive from: a quantised layer has another weight, and the output projection
    of `nn.MultiheadAttention` is never called.
    """
    kind = original_class(module)
    if kind is nn.Linear:
        return "linear"
    if kind is nn.Embedding:
        return "embedding"
    if kind.__name__ == "Conv1D" and kind.__module__.startswith("transformers."):
        return "conv1d"
    return None


def sizes_of(module: nn.Module) -> tuple[int, int]:
    """(in, out) of a layer; of an embedding (entries, dim)."""
    weight = module.get_parameter("weight")
    rows, columns = weight.shape
    return (columns, rows) if layout_of(module) == "linear" else (rows, columns)


def original_class(module: nn.Module) -> type[nn.Module]:
    """The class of a layer before adapters."""
    kind = type(module)
    return kind.__mro__[2] if isinstance(module, AdaptedModule) else kind


def attach(module: nn.Module, name: str, adapter: nn.Module) -> None:
    """Puts an adapter on a layer, which is not yet active."""
    if not isinstance(module, AdaptedModule):
        kind = type(module)
        if kind not in _adapted_classes:
            _adapted_classes[kind] = _adapted_class(kind, layout_of(module) is not None)
        module.adapters = nn.ModuleDict()
        module.active, module.merged_state = None, None  # type: ignore[assignment]
        module.__class__ = _adapted_classes[kind]
    held = module.adapters
    assert isinstance(held, nn.ModuleDict)
    held[name] = adapter.train(module.training)


def _adapted_class(kind: type[nn.Module], layer: bool) -> type[nn.Module]:
    """A subclass of `kind` that carries adapters.

    Whole models keep their name, module and the signature of `forward`: transformers looks at all three, to write a
    configuration and to see which arguments `generate` may hand on.
    """
    if layer:
        return type(f"Adapted{kind.__name__}", (AdaptedModule, kind), {"__module__": __name__})

    @functools.wraps(kind.forward)
    def forward(self: AdaptedModule, *args: Any, **kwargs: Any) -> Any:
        return AdaptedModule.forward(self, *args, **kwargs)

    return type(kind.__name__, (AdaptedModule, kind), {"__module__": kind.__module__, "forward": forward})


def detach(module: nn.Module, name: str) -> None:
    """Takes an adapter off a layer; with the last one the layer is what it was."""
    if not isinstance(module, AdaptedModule) or name not in module.adapters:
        return
    del module.adapters[name]
    if module.active == name:
        module.active = None
    if not len(module.adapters):
        module.__class__ = original_class(module)  # type: ignore[assignment]
        for attribute in ("adapters", "active", "merged_state"):
            delattr(module, attribute)


def quantised(module: nn.Module) -> str | None:
    """The class of a weight that is no plain tensor (torchao's quantised ones), None for plain weights.

    Such a layer can be adapted beside its weight; the numbers in the weight cannot be read or written as floats.
    """
    weight = module._parameters.get("weight")
    return None if weight is None or type(weight) in (Tensor, nn.Parameter) else type(weight).__name__


def wide(dtype: torch.dtype) -> torch.dtype:
    """The type in which merged weights are computed: float32, or float64 where the weights are."""
    return torch.promote_types(dtype, torch.float32)


def adapter_dtype(weight: Tensor, dtype: torch.dtype | None) -> torch.dtype:
    """The type of an adapter's parameters: `dtype`, or float32 on half-precision layers and the layer's own elsewhere.

    Raises:
        ValueError: the layer's weight is not floating.
    """
    if not weight.is_floating_point():
        raise ValueError(f"weight: dtype {weight.dtype}; adapters go on floating layers only")
    return dtype if dtype is not None else wide(weight.dtype)
