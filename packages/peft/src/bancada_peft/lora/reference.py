"""LoRA in plain mathematics: the oracle of everything else."""

# ruff: noqa: F722  (axis names in jaxtyping strings are no Python expressions)

from __future__ import annotations

import math

from bancada_peft._check import check_count, check_number
from bancada_peft._typing import Float, Tensor


def scaling(r: int, alpha: int | float, rank_stabilised: bool = False) -> float:
    """s = alpha / r (LoRA), or alpha / sqrt(r) (rsLoRA), which keeps the size of updates as r grows.

    Raises:
        ValueError: r < 1, or alpha is not finite.

    Hu et al., arXiv 2106.09685, section 4.1; Kalajdzievski, arXiv 2312.03732.
    """
    check_count("r", r)
    return check_number("alpha", alpha) / (math.sqrt(r) if rank_stabilised else r)


def lora_weight(
    W: Float[Tensor, "out inner"], A: Float[Tensor, "r inner"], B: Float[Tensor, "out r"], s: float
) -> Float[Tensor, "out inner"]:
    """W + s B A, the weight that an adapted layer computes with."""
    return W + s * (B @ A)


def lora_linear(
    x: Float[Tensor, "*batch inner"],
    W: Float[Tensor, "out inner"],
    A: Float[Tensor, "r inner"],
    B: Float[Tensor, "out r"],
    s: float,
    bias: Float[Tensor, " out"] | None = None,
) -> Float[Tensor, "*batch out"]:
    """h = x (W + s B A)^T + bias (Hu et al., arXiv 2106.09685, equation 3)."""
    h = x @ lora_weight(W, A, B, s).T
    return h if bias is None else h + bias
