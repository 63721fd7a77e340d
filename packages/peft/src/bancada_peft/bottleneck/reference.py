"""The bottleneck adapter in plain mathematics."""

# ruff: noqa: F722  (axis names in jaxtyping strings are no Python expressions)

from __future__ import annotations

import torch

from bancada_peft._typing import Float, Tensor


def bottleneck(
    h: Float[Tensor, "*batch dim"],
    down: Float[Tensor, "r dim"],
    down_bias: Float[Tensor, " r"],
    up: Float[Tensor, "dim r"],
    up_bias: Float[Tensor, " dim"],
) -> Float[Tensor, "*batch dim"]:
    """h + relu(h D^T + d) U^T + u, on a layer's output h (Houlsby et al., arXiv 1902.00751, section 2.1)."""
    return h + torch.relu(h @ down.T + down_bias) @ up.T + up_bias
