"""DoRA in plain mathematics."""

# ruff: noqa: F722  (axis names in jaxtyping strings are no Python expressions)

from __future__ import annotations

import torch

from bancada_peft._typing import Float, Tensor


def dora_weight(
    W: Float[Tensor, "out inner"],
    A: Float[Tensor, "r inner"],
    B: Float[Tensor, "out r"],
    m: Float[Tensor, " out"],
    s: float,
    *,
    detach_norm: bool = True,
) -> Float[Tensor, "out inner"]:
    """m V / ||V|| with V = W + s B A, the norm by output row; a row V = 0 stays 0.

    Args:
        detach_norm: hold the norm constant in the backward pass, as the paper's section 4.3 does to save memory.

    Liu et al., DoRA, arXiv 2402.09353, equation 5.
    """
    V = W + s * (B @ A)
    norm = torch.linalg.vector_norm(V, dim=1)
    norm = torch.where(norm == 0, 1.0, norm.detach() if detach_norm else norm)
    return (m / norm)[:, None] * V


def dora_linear(
    x: Float[Tensor, "*batch inner"],
    W: Float[Tensor, "out inner"],
    A: Float[Tensor, "r inner"],
    B: Float[Tensor, "out r"],
    m: Float[Tensor, " out"],
    s: float,
    bias: Float[Tensor, " out"] | None = None,
) -> Float[Tensor, "*batch out"]:
    """h = x (m V / ||V||)^T + bias."""
    h = x @ dora_weight(W, A, B, m, s).T
    return h if bias is None else h + bias
