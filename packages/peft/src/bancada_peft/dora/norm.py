"""The norms of DoRA without the matrix W + s B A."""

# ruff: noqa: F722  (axis names in jaxtyping strings are no Python expressions)

from __future__ import annotations

import torch

from bancada_peft._typing import Float, Tensor


@torch.no_grad()
def row_norms(
    W: Float[Tensor, "out inner"],
    A: Float[Tensor, "r inner"],
    B: Float[Tensor, "out r"],
    s: float,
    squares: Float[Tensor, " out"] | None = None,
) -> Float[Tensor, " out"]:
    """||W_i + s B_i A|| for every row i, from ||W_i||^2 + 2 s B_i . (W A^T)_i + s^2 B_i (A A^T) B_i^T.

    No [out, in] matrix is written; W is read once. Where the two summands of a row nearly cancel, the error is at most
    about sqrt(eps) times the larger; a row of nothing but zeros gets the norm 1, so that its factor is finite.

    Args:
        squares: ||W_i||^2, where they are known already.
    """
    dtype = torch.promote_types(torch.promote_types(W.dtype, A.dtype), torch.float32)
    W, A, B = W.to(dtype), A.to(dtype), B.to(dtype)
    if squares is None:
        squares = W.square().sum(1)
    own = ((B @ (A @ A.T)) * B).sum(1).mul_(s * s)
    both = ((W @ A.T) * B).sum(1).mul_(2 * s)
    floor = torch.finfo(dtype).eps * (squares + own)
    square = torch.maximum(squares + both + own, floor)
    return torch.where(square == 0, 1.0, square.sqrt())
