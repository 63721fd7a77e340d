"""(IA)^3 in plain mathematics."""

# ruff: noqa: F722  (axis names in jaxtyping strings are no Python expressions)

from __future__ import annotations

from bancada_peft._typing import Float, Tensor


def ia3_output(
    x: Float[Tensor, "*batch inner"],
    W: Float[Tensor, "out inner"],
    l: Float[Tensor, " out"],
    bias: Float[Tensor, " out"] | None = None,
) -> Float[Tensor, "*batch out"]:
    """h = l * (x W^T + bias): keys and values (Liu et al., arXiv 2205.05638, section 3.3)."""
    h = x @ W.T
    return l * (h if bias is None else h + bias)


def ia3_input(
    x: Float[Tensor, "*batch inner"],
    W: Float[Tensor, "out inner"],
    l: Float[Tensor, " inner"],
    bias: Float[Tensor, " out"] | None = None,
) -> Float[Tensor, "*batch out"]:
    """h = (l * x) W^T + bias: the second layer of the feed-forward network (arXiv 2205.05638, section 3.3)."""
    h = (l * x) @ W.T
    return h if bias is None else h + bias
