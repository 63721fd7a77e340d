"""The low-rank branch without the matrix B A: two thin products, the second added into the layer's own output."""

# ruff: noqa: F722  (axis names in jaxtyping strings are no Python expressions)

from __future__ import annotations

import torch.nn.functional as F

from bancada_peft._typing import Float, Tensor


def add_low_rank(
    out: Float[Tensor, "*batch out"],
    x: Float[Tensor, "*batch inner"],
    A: Float[Tensor, "r inner"],
    B: Float[Tensor, "out r"],
    s: float,
) -> Float[Tensor, "*batch out"]:
    """out + s (x A^T) B^T, written into `out` (the caller's own new tensor) where the types are one.

    Where they differ (a half-precision layer with float32 adapters) the branch is computed in the adapter's type, and
    the sum is rounded once to that of `out`.
    """
    return add_to(out, F.linear(x.to(A.dtype), A), B, s)


def add_to(
    out: Float[Tensor, "*batch out"], h: Float[Tensor, "*batch r"], B: Float[Tensor, "out r"], s: float
) -> Float[Tensor, "*batch out"]:
    """out + s h B^T, written into `out` where the types are one (under autocast they may not be)."""
    if not (out.dtype == h.dtype == B.dtype and out.is_contiguous()):
        return (out + F.linear(h, B) * s).to(out.dtype)
    # A linear layer's backward pass needs its inputs and not its output: no second tensor of that size, and no
    # passes over it to scale and to add.
    flat = out.view(-1, out.shape[-1])
    return flat.addmm_(h.reshape(-1, h.shape[-1]), B.T, alpha=s).view(out.shape)
