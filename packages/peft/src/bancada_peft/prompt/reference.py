"""Prompt tuning in plain mathematics."""

# ruff: noqa: F722  (axis names in jaxtyping strings are no Python expressions)

from __future__ import annotations

import torch

from bancada_peft._typing import Float, Tensor


def with_prompt(P: Float[Tensor, "n dim"], E: Float[Tensor, "batch seq dim"]) -> Float[Tensor, "batch n+seq dim"]:
    """[P; E]: the learned rows P before every sequence's embeddings (Lester et al., arXiv 2104.08691, section 2)."""
    return torch.cat([P.expand(E.shape[0], -1, -1), E], dim=1)
