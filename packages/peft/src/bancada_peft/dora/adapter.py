"""DoRA on linear layers and transformers' Conv1D."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bancada_peft.dora.norm import row_norms
from bancada_peft.dora.reference import dora_weight
from bancada_peft.layers import AdaptedModule, layout_of, quantised, wide
from bancada_peft.lora.adapter import Lora, LoraAdapter
from bancada_peft.lora.low_rank import add_low_rank
from bancada_peft.methods import refuse


class DoraAdapter(LoraAdapter):
    """LoRA's A and B, and a magnitude [out] for the rows of the weight, which begins as their norms.

    Liu et al., arXiv 2402.09353.
    """

    reversible = False

    def __init__(self, host: nn.Module, r: int, s: float, dropout: float, dtype: torch.dtype | None) -> None:
        super().__init__(host, r, s, dropout, dtype)
        norms = torch.linalg.vector_norm(self._rows(host).to(wide(self.lora_A.dtype)), dim=1)
        self.magnitude = nn.Parameter(norms.to(self.lora_A.dtype))

    def _rows(self, host: nn.Module) -> Tensor:
        """The frozen weight as [out, in]."""
        weight = host.get_parameter("weight").detach()
        return weight if self.layout == "linear" else weight.T

    def forward(self, host: AdaptedModule, base: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
        """m / ||V|| * (W x + s B A x) + bias; the norm is held constant in the backward pass."""
        (x,) = (*args, *kwargs.values())
        W, bias = host.weight, host.bias
        assert isinstance(W, Tensor) and (bias is None or isinstance(bias, Tensor))
        norms = row_norms(self._rows(host), self.lora_A, self.lora_B, self.s)
        out = F.linear(x, W if self.layout == "linear" else W.T)
        branch = F.dropout(x, self.dropout) if self.dropout and self.training else x
        out = add_low_rank(out, branch, self.lora_A, self.lora_B, self.s)
        factor, dtype = self.magnitude / norms.to(self.magnitude.dtype), out.dtype
        if factor.dtype == dtype:
            return out * factor if bias is None else torch.addcmul(bias.to(dtype), out, factor)
        return (out * factor if bias is None else out * factor + bias).to(dtype)

    def merged(self, host: nn.Module) -> dict[str, Tensor]:
        """m V / ||V|| with V = W + s B A."""
        dtype = wide(host.get_parameter("weight").dtype)
        A, B, m = (tensor.to(dtype) for tensor in (self.lora_A, self.lora_B, self.magnitude))
        weight = dora_weight(self._rows(host).to(dtype), A, B, m, self.s)
        return {"weight": weight if self.layout == "linear" else weight.T}


@dataclass(frozen=True)
class Dora(Lora):
    """DoRA: h = m (V / ||V||) x with V = W + s B A, the norm by output row; r (in + out) + out parameters a layer.

    Arguments and errors are those of `Lora`. In training with dropout only the low-rank branch's input is dropped.

    Liu et al., arXiv 2402.09353.
    """

    def build(self, path: str, module: nn.Module) -> DoraAdapter:
        """A new adapter for a linear layer or a Conv1D."""
        if layout_of(module) not in ("linear", "conv1d"):
            raise refuse(path, module, "DoRA", "nn.Linear and transformers' Conv1D")
        if (kind := quantised(module)) is not None:
            raise ValueError(f"target_modules: the weight of {path!r} is a {kind}; DoRA has to read its rows")
        return DoraAdapter(module, self.r, self.s, self.dropout, self.dtype)
