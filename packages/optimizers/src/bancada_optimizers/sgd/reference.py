"""SGD with (Nesterov) momentum, one tensor at a time. In float64 it is the oracle."""

from __future__ import annotations

from torch import Tensor


def sgd_step(
    p: Tensor,
    g: Tensor,
    buffer: Tensor | None,
    *,
    lr: float,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    nesterov: bool = False,
) -> tuple[Tensor, Tensor]:
    """The parameter and the momentum buffer after one update: new tensors.

    g <- g + weight_decay p; b <- momentum b + g (b = g at the first update); p <- p - lr (g + momentum b, or b)

    The decay is the gradient of an L2 term, as in torch.optim.SGD: the momentum holds it too.

    Args:
        p, g: the parameter and its gradient, of one shape.
        buffer: the momentum buffer, or None before the first update. Its dtype is the one computed in.
        lr, momentum, weight_decay: as in the formula.
        nesterov: take g + momentum b, which looks ahead, in place of b.

    Paper: Sutskever et al., On the importance of initialization and momentum in deep learning, ICML 2013;
    torch's form of it, in which the rate multiplies the buffer.
    """
    p = p if buffer is None else p.to(buffer.dtype)
    g = g.to(p.dtype) + weight_decay * p
    b = g if buffer is None else momentum * buffer + g
    direction = g + momentum * b if nesterov else b
    return p - lr * direction, b
