"""Bottleneck adapters: a small network behind a layer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bancada_peft._check import check_count
from bancada_peft.layers import AdaptedModule, Adapter, adapter_dtype, layout_of, sizes_of
from bancada_peft.methods import LayerMethod, refuse


class BottleneckAdapter(Adapter):
    """Down to r features, ReLU, and up again, added to the layer's output; `up` begins as zeros.

    Houlsby et al., arXiv 1902.00751.
    """

    mergeable = False

    def __init__(self, host: nn.Module, r: int, dtype: torch.dtype | None) -> None:
        super().__init__()
        weight, (_, dim) = host.get_parameter("weight"), sizes_of(host)
        options: dict[str, Any] = {"dtype": adapter_dtype(weight, dtype), "device": weight.device}
        self.down, self.up = nn.Linear(dim, r, **options), nn.Linear(r, dim, **options)
        nn.init.normal_(self.down.weight, std=1e-2)  # the paper's section 3.6
        for zero in (self.down.bias, self.up.weight, self.up.bias):
            nn.init.zeros_(zero)

    def forward(self, host: AdaptedModule, base: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
        """h + U relu(D h + d) + u, rounded once to the layer's type."""
        h = base(*args, **kwargs)
        middle = F.relu(F.linear(h.to(self.down.weight.dtype), self.down.weight, self.down.bias))
        return (h + F.linear(middle, self.up.weight, self.up.bias)).to(h.dtype)


@dataclass(frozen=True)
class Bottleneck(LayerMethod):
    """Bottleneck adapters behind the targets; 2 r dim + r + dim parameters a layer. They cannot be merged.

    The paper puts one behind the projection that ends each attention and each feed-forward network (`o_proj` and
    `down_proj` of a Llama, `attention.output.dense` and `output.dense` of a BERT).

    Args:
        r: features in the middle, at least 1.

    Raises:
        ValueError: r < 1.

    Houlsby et al., arXiv 1902.00751.
    """

    r: int = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("r", self.r)

    def build(self, path: str, module: nn.Module) -> BottleneckAdapter:
        """A new adapter behind a linear layer, a Conv1D or an embedding."""
        if layout_of(module) is None:
            raise refuse(path, module, "an adapter", "nn.Linear, transformers' Conv1D and nn.Embedding")
        return BottleneckAdapter(module, self.r, self.dtype)
