"""Masks with exact counts: of equal scores the first go first, so that ties remove no more than asked."""

# ruff: noqa: F722  (axis names in jaxtyping strings are no Python expressions)

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F

from bancada_compression._check import check_choice, check_count, check_floating, check_fraction
from bancada_compression._typing import Bool, Float, Tensor


def keep_mask(
    scores: Float[Tensor, "out in"], sparsity: float, per: Literal["row", "matrix"] = "row"
) -> Bool[Tensor, "out in"]:
    """True for the weights to keep: all but the round(sparsity * n) lowest scores of each row, or of the matrix.

    Args:
        scores: finite, higher is kept.
        sparsity: share to remove, 0 to 1.
        per: what is compared: the weights of one output (Wanda's choice), or the whole matrix.

    Raises:
        ValueError: scores are no finite floating matrix, sparsity is not in 0 to 1, or per is unknown.
    """
    scores = _check(scores)
    check_fraction("sparsity", sparsity)
    check_choice("per", per, ("row", "matrix"))
    compared = scores if per == "row" else scores.reshape(1, -1)
    removed = round(sparsity * compared.shape[1])
    lowest = compared.argsort(dim=1, stable=True)[:, :removed]
    return torch.ones_like(compared, dtype=torch.bool).scatter_(1, lowest, False).view(scores.shape)


def n_of_m_mask(scores: Float[Tensor, "out in"], n: int = 2, m: int = 4) -> Bool[Tensor, "out in"]:
    """True for the n highest scores of every m neighbours in a row: 2:4 is what sparse tensor cores multiply.

    A last block narrower than m keeps its n highest too (all, where it has no more): no m neighbours ever hold more
    than n.

    Args:
        scores: finite, higher is kept.
        n: how many of a block stay, 0 to m.
        m: width of a block.

    Raises:
        ValueError: scores are no finite floating matrix, m is below 1, or n is not in 0 to m.

    Paper: Mishra et al., Accelerating Sparse Deep Neural Networks, arXiv 2104.08378.
    """
    scores = _check(scores)
    check_count("m", m)
    check_count("n", n, least=0, most=m)
    rows, columns = scores.shape
    # What is filled up scores lower than anything: it is removed before a weight is.
    blocks = F.pad(scores, (0, -columns % m), value=-torch.inf).view(rows, -1, m)
    lowest = blocks.argsort(dim=2, stable=True)[..., : m - n]
    return torch.ones_like(blocks, dtype=torch.bool).scatter_(2, lowest, False).view(rows, -1)[:, :columns]


def _check(scores: Tensor) -> Tensor:
    found = check_floating("scores", scores)
    if found.dim() != 2:
        raise ValueError(f"scores: shape {list(found.shape)}; must be [out, in]")
    return found
