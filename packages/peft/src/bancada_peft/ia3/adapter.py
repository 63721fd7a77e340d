"""(IA)^3 on linear layers and transformers' Conv1D: one learned factor a feature."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from bancada_peft._check import check_patterns
from bancada_peft.layers import AdaptedModule, Adapter, adapter_dtype, layout_of, sizes_of, wide
from bancada_peft.methods import LayerMethod, refuse


class Ia3Adapter(Adapter):
    """Factors l that begin as ones, on a layer's input features or on its outputs.

    Liu et al., arXiv 2205.05638.
    """

    def __init__(self, host: nn.Module, feedforward: bool, dtype: torch.dtype | None) -> None:
        super().__init__()
        weight, (inner, outer) = host.get_parameter("weight"), sizes_of(host)
        size = inner if feedforward else outer
        self.ia3_l = nn.Parameter(torch.ones(size, dtype=adapter_dtype(weight, dtype), device=weight.device))
        self.feedforward, self.layout = feedforward, layout_of(host)

    def forward(self, host: AdaptedModule, base: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
        """base(l * x) on a feed-forward layer, l * base(x) elsewhere, with one rounding to the layer's type."""
        (x,) = (*args, *kwargs.values())
        if self.feedforward:
            return base((x * self.ia3_l).to(x.dtype))
        out = base(x)
        return (out * self.ia3_l).to(out.dtype)

    def merged(self, host: nn.Module) -> dict[str, Tensor]:
        """W with its columns scaled (feed-forward), or its rows and the bias."""
        weight = host.get_parameter("weight")
        l = self.ia3_l.to(wide(weight.dtype))
        by_rows = self.feedforward != (self.layout == "linear")  # a Conv1D keeps [in, out]
        found = {"weight": weight.to(l.dtype) * (l[:, None] if by_rows else l)}
        if not self.feedforward and isinstance(host.bias, Tensor):
            found["bias"] = host.bias.to(l.dtype) * l
        return found

    def extra_repr(self) -> str:
        """What a printed model shows."""
        return f"features={self.ia3_l.numel()}, of the {'input' if self.feedforward else 'output'}"


@dataclass(frozen=True)
class Ia3(LayerMethod):
    """(IA)^3: keys and values l * (W x), feed-forward layers W (l * x); one parameter a feature.

    Args:
        feedforward_modules: those of the targets whose input is scaled, named as targets are.

    Raises:
        ValueError: for a feed-forward name that matches no target.

    Liu et al., arXiv 2205.05638.
    """

    feedforward_modules: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        names = check_patterns("feedforward_modules", self.feedforward_modules, may_be_empty=True)
        if isinstance(names, str):
            raise ValueError(f"feedforward_modules={names!r}: must be a list of module names")
        object.__setattr__(self, "feedforward_modules", names)
        if not isinstance(self.target_modules, str) and (stray := set(names) - set(self.target_modules)):
            raise ValueError(f"feedforward_modules={sorted(stray)}: not among target_modules {self.target_modules}")

    def build(self, path: str, module: nn.Module) -> Ia3Adapter:
        """A new adapter for a linear layer or a Conv1D."""
        if layout_of(module) not in ("linear", "conv1d"):
            raise refuse(path, module, "(IA)^3", "nn.Linear and transformers' Conv1D")
        feedforward = any(path == name or path.endswith(f".{name}") for name in self.feedforward_modules)
        return Ia3Adapter(module, feedforward, self.dtype)
