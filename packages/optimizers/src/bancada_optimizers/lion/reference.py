"""Lion as the paper writes it, one tensor at a time. In float64 it is the oracle."""

from __future__ import annotations

from torch import Tensor


def lion_step(
    p: Tensor,
    g: Tensor,
    m: Tensor,
    *,
    lr: float,
    betas: tuple[float, float] = (0.9, 0.99),
    weight_decay: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """The parameter and the momentum after one update: new tensors, in the momentum's dtype.

    p <- p (1 - lr weight_decay) - lr sign(b1 m + (1 - b1) g); m <- b2 m + (1 - b2) g

    The direction takes the momentum from before the update. sign(0) = 0: where nothing ever pushed, only decay moves.

    Args:
        p, g, m: the parameter, its gradient and the momentum (zeros at first), of one shape.
        lr, betas, weight_decay: as in the formula.

    Paper: Chen et al., Symbolic Discovery of Optimization Algorithms, arXiv 2302.06675, program 1.
    """
    b1, b2 = betas
    p, g = p.to(m.dtype), g.to(m.dtype)
    direction = (b1 * m + (1 - b1) * g).sign()
    return p * (1 - lr * weight_decay) - lr * direction, b2 * m + (1 - b2) * g
