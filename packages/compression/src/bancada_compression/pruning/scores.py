"""How much a weight matters: its size, or its size times that of its input.

Wanda: Sun et al., A Simple and Effective Pruning Approach for Large Language Models, arXiv 2306.11695, equation 1.
"""

# ruff: noqa: F722  (axis names in jaxtyping strings are no Python expressions)

from __future__ import annotations

from bancada_compression._check import check_floating, check_matrix
from bancada_compression._typing import Float, Tensor


def magnitude_scores(weight: Float[Tensor, "out in"]) -> Float[Tensor, "out in"]:
    """|W|, in W's dtype; ValueError unless the weight is a finite floating matrix. Han et al., arXiv 1506.02626."""
    return check_matrix("weight", weight).abs()


def wanda_scores(weight: Float[Tensor, "out in"], norms: Float[Tensor, " in"]) -> Float[Tensor, "out in"]:
    """|W[i, j]| * ||X_j||_2: the size of a weight times the norm of the input it multiplies, over all tokens.

    Args:
        weight: finite.
        norms: what `activation_norms` collects for the layer, not negative; 0 for inputs that never fire.

    Returns:
        The scores in float32 (float64 for float64).

    Raises:
        ValueError: the weight is no finite floating matrix, or norms is not [in], finite and at least 0.

    Paper: Sun et al., arXiv 2306.11695.
    """
    matrix, sizes = check_matrix("weight", weight), check_floating("norms", norms)
    if tuple(sizes.shape) != (matrix.shape[1],) or bool((sizes < 0).any()):
        raise ValueError(f"norms: shape {list(sizes.shape)}; must be [in] = [{matrix.shape[1]}], each at least 0")
    return matrix.abs() * sizes.to(matrix.device)
