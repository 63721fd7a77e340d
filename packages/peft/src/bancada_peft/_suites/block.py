"""A Transformer block in plain torch, which every contender adapts: RMS norms, causal attention, a gated network."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
HEAD_DIM, WIDENING = 64, 3  # the gated network is three times as wide as the block


def heads_of(hidden: int) -> int:
    """Heads of 64 features, and one where the block is narrower."""
    return max(1, hidden // HEAD_DIM)


def shapes_of(hidden: int) -> dict[str, tuple[int, int]]:
    """[out, in] of every projection."""
    wide = WIDENING * hidden
    return {
        name: (wide, hidden) if name in ("gate_proj", "up_proj") else (hidden, wide if name == "down_proj" else hidden)
        for name in PROJECTIONS
    }


class Block(nn.Module):
    """Made on the meta device where only its sizes matter; its weights are always given."""

    def __init__(self, hidden: int, weights: dict[str, Tensor]) -> None:
        super().__init__()
        self.heads = heads_of(hidden)
        for name, (outer, inner) in shapes_of(hidden).items():
            with torch.device("meta"):
                layer = nn.Linear(inner, outer, bias=False)
            layer.weight = nn.Parameter(weights[name])
            self.add_module(name, layer)

    def forward(self, x: Tensor) -> Tensor:
        """[batch, seq, hidden] to the same."""
        at = self.get_submodule
        h = F.rms_norm(x, x.shape[-1:])
        q, k, v = (at(name)(h).unflatten(-1, (self.heads, -1)).transpose(1, 2) for name in PROJECTIONS[:3])
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + at("o_proj")(mixed)
        h = F.rms_norm(x, x.shape[-1:])
        out: Tensor = x + at("down_proj")(F.silu(at("gate_proj")(h)) * at("up_proj")(h))
        return out
