"""W is about B A, with B [out, rank] and A [rank, in]: the nearest such product, for the weight or for its outputs."""

# ruff: noqa: F722  (axis names in jaxtyping strings are no Python expressions)

from __future__ import annotations

import torch

from bancada_compression._check import check_count, check_fraction, check_matrix
from bancada_compression._typing import Float, Tensor

EIGENVALUE_FLOOR = 1e-12
"""Of the largest eigenvalue of a Gram matrix: silent inputs count as nearly silent, so that its root inverts."""


def svd_factor(
    weight: Float[Tensor, "out in"], rank: int
) -> tuple[Float[Tensor, "out rank"], Float[Tensor, "rank in"]]:
    """The nearest product of rank r to W: B = U_r S_r^(1/2), A = S_r^(1/2) V_r^T from the SVD of W.

    ||W - B A||_F^2 is the sum of the squares of the singular values left out.

    Args:
        weight: finite.
        rank: 1 to min(out, in); the largest reconstructs W.

    Returns:
        B and A in the dtype of the weight; the SVD is taken in float64.

    Raises:
        ValueError: the weight is no finite floating matrix, or rank is out of range.

    Paper: Eckart and Young, Psychometrika 1 (1936); for Transformers: Noach and Goldberg, AACL 2020.
    """
    matrix = check_matrix("weight", weight)
    _check_rank(matrix, rank)
    left, singular, right = _truncated(matrix.double(), rank)
    root = singular.sqrt()
    return (left * root).to(matrix.dtype), (root[:, None] * right).to(matrix.dtype)


def whitened_svd_factor(
    weight: Float[Tensor, "out in"], gram: Float[Tensor, "in in"], rank: int
) -> tuple[Float[Tensor, "out rank"], Float[Tensor, "rank in"]]:
    """The product of rank r whose outputs on the calibration inputs are nearest: the SVD of W G^(1/2), G = X X^T.

    With G = Q L Q^T: U S V^T = SVD(W Q L^(1/2)), B = U_r S_r^(1/2), A = S_r^(1/2) V_r^T L^(-1/2) Q^T. Then
    ||(W - B A) X||_F^2 is the sum of the squares of the singular values left out. Eigenvalues below 1e-12 of the
    largest are taken as that (inputs that never fire), so that nothing divides by zero.

    Args:
        weight: finite.
        gram: X X^T of the layer's inputs, from `input_grams`: symmetric, positive semi-definite, not all zero.
        rank: 1 to min(out, in).

    Returns:
        B and A in the dtype of the weight; computed in float64.

    Raises:
        ValueError: a matrix is not finite or has a wrong shape, the Gram matrix is zero or not symmetric and
            semi-definite, or rank is out of range.

    Paper: Wang et al., SVD-LLM, arXiv 2403.07378.
    """
    matrix, inputs = check_matrix("weight", weight), check_matrix("gram", gram).double()
    _check_rank(matrix, rank)
    width = matrix.shape[1]
    if tuple(inputs.shape) != (width, width):
        raise ValueError(f"gram: shape {list(inputs.shape)}; must be [in, in] = [{width}, {width}]")
    size = float(inputs.abs().max())
    if size == 0 or float((inputs - inputs.T).abs().max()) > 1e-6 * size:
        raise ValueError("gram: zero or not symmetric; must be X X^T of inputs that are not all zero")
    values, vectors = torch.linalg.eigh((inputs + inputs.T) / 2)
    if float(values[0]) < -1e-6 * float(values[-1]):
        raise ValueError(f"gram: an eigenvalue of {float(values[0]):.3g}; must be X X^T, which has none below 0")
    root = values.clamp_min(EIGENVALUE_FLOOR * float(values[-1])).sqrt()
    vectors = vectors.to(matrix.device)
    root = root.to(matrix.device)
    left, singular, right = _truncated(matrix.double() @ (vectors * root), rank)
    half = singular.sqrt()
    thin = (half[:, None] * right / root) @ vectors.T
    return (left * half).to(matrix.dtype), thin.to(matrix.dtype)


def rank_for(out_features: int, in_features: int, ratio: float) -> int:
    """The largest rank whose rank * (out + in) numbers are at most ratio * out * in; 0 where not even 1 is.

    Raises:
        ValueError: a size below 1, or a ratio outside 0 to 1.
    """
    check_count("out_features", out_features)
    check_count("in_features", in_features)
    check_fraction("ratio", ratio)
    return min(int(ratio * out_features * in_features / (out_features + in_features)), out_features, in_features)


def _truncated(matrix: Tensor, rank: int) -> tuple[Tensor, Tensor, Tensor]:
    left, singular, right = torch.linalg.svd(matrix, full_matrices=False)
    return left[:, :rank], singular[:rank], right[:rank]


def _check_rank(matrix: Tensor, rank: int) -> None:
    check_count("rank", rank, most=min(matrix.shape))
