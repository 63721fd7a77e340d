"""Muon's rule: Newton-Schulz and one update, one matrix at a time. In float64 it is the oracle."""

from __future__ import annotations

import math

import torch
from torch import Tensor

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
SCALES = ("original", "match_rms_adamw")


def newton_schulz(
    g: Tensor, steps: int = 5, coefficients: tuple[float, float, float] = COEFFICIENTS, eps: float = 1e-7
) -> Tensor:
    """Pushes the singular values of a matrix towards 1, in the matrix's own dtype.

    X <- g / max(||g||_F, eps); then `steps` times A = X X^T, X <- a X + (b A + c A^2) X

    This is not an orthogonalisation: after five steps singular values lie between about 0.7 and 1.2, but those that
    were small beside ||g||_F stay small. A matrix of zeros stays one.

    Args:
        g: [rows, columns], or a batch of them [..., rows, columns].
        steps: how often.
        coefficients: a, b and c of the quintic.
        eps: the least norm divided by.

    Paper: Jordan et al., Muon, 2024; Bernstein and Newhouse, Old Optimizer, New Norm, arXiv 2409.20325.
    """
    a, b, c = coefficients
    x: Tensor = g.mT if g.shape[-2] > g.shape[-1] else g
    x = x / torch.linalg.matrix_norm(x, keepdim=True).clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.mT if g.shape[-2] > g.shape[-1] else x


def scale_of(shape: torch.Size, scale: str) -> float:
    """What the update of a [rows, columns] matrix is multiplied by.

    "original": sqrt(max(1, rows / columns)). "match_rms_adamw": 0.2 sqrt(max(rows, columns)), which gives the update
    the root mean square of AdamW's, so that one rate serves both (Liu et al., arXiv 2502.16982).
    """
    rows, columns = shape
    return 0.2 * math.sqrt(max(rows, columns)) if scale == "match_rms_adamw" else math.sqrt(max(1, rows / columns))


def muon_step(
    p: Tensor,
    g: Tensor,
    m: Tensor,
    *,
    lr: float,
    momentum: float = 0.95,
    weight_decay: float = 0.0,
    nesterov: bool = True,
    ns_steps: int = 5,
    scale: str = "match_rms_adamw",
    dtype: torch.dtype | None = None,
) -> tuple[Tensor, Tensor]:
    """The matrix and its momentum after one update: new tensors, in the momentum's dtype.

    m <- momentum m + (1 - momentum) g; u = momentum m + (1 - momentum) g (Nesterov) or m
    p <- p (1 - lr weight_decay) - lr scale NewtonSchulz(u)

    Args:
        p, g, m: the matrix, its gradient and its momentum (zeros at first), [rows, columns].
        lr, momentum, weight_decay, nesterov, ns_steps: as in the formula.
        scale: "match_rms_adamw" or "original": see `scale_of`.
        dtype: what Newton-Schulz computes in; None for the momentum's. The momentum itself is only read for it.

    Paper: Jordan et al., Muon, 2024; Liu et al., Muon is Scalable for LLM Training, arXiv 2502.16982.
    """
    p, g = p.to(m.dtype), g.to(m.dtype)
    m = momentum * m + (1 - momentum) * g
    u = momentum * m + (1 - momentum) * g if nesterov else m
    direction = newton_schulz(u.to(dtype or m.dtype), ns_steps).to(m.dtype)
    return p * (1 - lr * weight_decay) - lr * scale_of(p.shape, scale) * direction, m
