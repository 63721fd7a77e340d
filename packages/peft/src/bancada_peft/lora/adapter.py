"""LoRA and rsLoRA on linear layers, transformers' Conv1D and embeddings."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bancada_peft._check import check_count, check_flag, check_number
from bancada_peft.layers import AdaptedModule, Adapter, adapter_dtype, layout_of, sizes_of, wide
from bancada_peft.lora.low_rank import add_low_rank, add_to
from bancada_peft.lora.reference import scaling
from bancada_peft.methods import LayerMethod, refuse


class LoraAdapter(Adapter):
    """A [r, in] and B [out, r] beside a weight; B begins as zeros (of an embedding A), so that nothing changes yet.

    Hu et al., arXiv 2106.09685.
    """

    reversible = True

    def __init__(self, host: nn.Module, r: int, s: float, dropout: float, dtype: torch.dtype | None) -> None:
        super().__init__()
        weight, (inner, outer) = host.get_parameter("weight"), sizes_of(host)
        options: dict[str, Any] = {"dtype": adapter_dtype(weight, dtype), "device": weight.device}
        self.lora_A = nn.Parameter(torch.empty(r, inner, **options))
        self.lora_B = nn.Parameter(torch.empty(outer, r, **options))
        self.r, self.s, self.dropout, self.layout = r, s, dropout, layout_of(host)
        self.reset()

    def reset(self) -> None:
        """The paper's beginning: A random and B zero; of an embedding the reverse."""
        if self.layout == "embedding":
            nn.init.zeros_(self.lora_A)
            nn.init.normal_(self.lora_B)
        else:
            nn.init.kaiming_uniform_(self.lora_A, a=math.sqrt(5))
            nn.init.zeros_(self.lora_B)

    def forward(self, host: AdaptedModule, base: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
        """The layer's output plus s B A x; an embedding looks A's column up in place of multiplying by it."""
        (x,) = (*args, *kwargs.values())
        out = base(x)
        if self.layout == "embedding":
            padding = host.padding_idx if isinstance(host, nn.Embedding) else None
            return add_to(out, F.embedding(x, self.lora_A.T, padding), self.lora_B, self.s)
        if self.dropout and self.training:
            x = F.dropout(x, self.dropout)
        return add_low_rank(out, x, self.lora_A, self.lora_B, self.s)

    def delta(self, host: nn.Module) -> Tensor:
        """s B A in the layer's own layout, and in the type that merging computes in."""
        dtype = wide(host.get_parameter("weight").dtype)
        delta = self.lora_B.to(dtype) @ self.lora_A.to(dtype) * self.s
        return delta if self.layout == "linear" else delta.T

    def merged(self, host: nn.Module) -> dict[str, Tensor]:
        """W + s B A."""
        delta = self.delta(host)
        return {"weight": host.get_parameter("weight").to(delta.dtype) + delta}

    def unmerged(self, host: nn.Module) -> dict[str, Tensor]:
        """W' - s B A."""
        delta = self.delta(host)
        return {"weight": host.get_parameter("weight").to(delta.dtype) - delta}

    def extra_repr(self) -> str:
        """What a printed model shows."""
        return f"r={self.r}, s={self.s:g}" + (f", dropout={self.dropout:g}" if self.dropout else "")


@dataclass(frozen=True)
class Lora(LayerMethod):
    """LoRA: h = W x + s B A x with s = alpha / r; r (in + out) parameters a layer.

    Args:
        r: rank, at least 1.
        alpha: numerator of the scale s.
        rank_stabilised: s = alpha / sqrt(r) (rsLoRA).
        dropout: probability with which an input of the branch is dropped in training, in [0, 1); embeddings have none.

    Raises:
        ValueError: for any of these outside its range.

    Hu et al., arXiv 2106.09685; Kalajdzievski, arXiv 2312.03732.
    """

    r: int = 8
    alpha: float = 8
    rank_stabilised: bool = False
    dropout: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("r", self.r)
        check_number("alpha", self.alpha)
        check_flag("rank_stabilised", self.rank_stabilised)
        check_number("dropout", self.dropout, 0.0, 1.0)

    @property
    def s(self) -> float:
        """The scale of the branch."""
        return scaling(self.r, self.alpha, self.rank_stabilised)

    def build(self, path: str, module: nn.Module) -> LoraAdapter:
        """A new adapter for a linear layer, a Conv1D or an embedding."""
        if layout_of(module) is None:
            raise refuse(path, module, "LoRA", "nn.Linear, transformers' Conv1D and nn.Embedding")
        if isinstance(module, nn.Embedding) and module.max_norm is not None:
            raise ValueError(f"target_modules: {path!r} has max_norm={module.max_norm}, which rewrites a frozen weight")
        return LoraAdapter(module, self.r, self.s, self.dropout, self.dtype)
