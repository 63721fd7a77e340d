"""AdamW as the paper writes it, one tensor at a time. In float64 it is the oracle."""

from __future__ import annotations

import math

from torch import Tensor


def adamw_step(
    p: Tensor,
    g: Tensor,
    m: Tensor,
    v: Tensor,
    t: int,
    *,
    lr: float,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 1e-2,
) -> tuple[Tensor, Tensor, Tensor]:
    """The parameter and both moments after update t (1 for the first): new tensors, in the moments' dtype.

    m <- b1 m + (1 - b1) g; v <- b2 v + (1 - b2) g^2
    p <- p - lr (m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps) + weight_decay p)

    The decay takes the parameter from before the update, and is not divided by sqrt(v).

    Args:
        p, g: the parameter and its gradient, of one shape.
        m, v: the moments, of that shape; zeros before the first update.
        t: the number of this update, from 1.
        lr, betas, eps, weight_decay: as in the formula.

    Paper: Loshchilov and Hutter, Decoupled Weight Decay Regularization, arXiv 1711.05101, algorithm 2.
    """
    b1, b2 = betas
    p, g = p.to(m.dtype), g.to(m.dtype)
    m = b1 * m + (1 - b1) * g
    v = b2 * v + (1 - b2) * g * g
    m_hat = m / (1 - b1**t)
    root = v.sqrt() / math.sqrt(1 - b2**t)
    return p - lr * (m_hat / (root + eps) + weight_decay * p), m, v
