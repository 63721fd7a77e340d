"""AdamW on shards: element by element, so a shard's step needs nothing of the others."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from bancada_parallelism._check import check_number


@dataclass(frozen=True)
class AdamWConfig:
    """Learning rate, (beta1, beta2), epsilon, decoupled weight decay; ValueError for one that is out of range."""

    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.01

    def __post_init__(self) -> None:
        check_number("lr", self.lr, 0)
        if len(self.betas) != 2:
            raise ValueError(f"betas={self.betas!r}: must be two numbers")
        for number, beta in enumerate(self.betas):
            check_number(f"betas[{number}]", beta, 0, below=1)
        check_number("eps", self.eps, 0)
        check_number("weight_decay", self.weight_decay, 0)


def adamw_reference(
    p: Tensor, g: Tensor, m: Tensor, v: Tensor, t: int, config: AdamWConfig
) -> tuple[Tensor, Tensor, Tensor]:
    """p', m', v' of step t = 1, 2, ...: p' = p - lr (m_hat / (sqrt(v_hat) + eps) + wd p).

    m' = b1 m + (1 - b1) g, v' = b2 v + (1 - b2) g^2, m_hat = m' / (1 - b1^t), v_hat = v' / (1 - b2^t).
    Paper: Loshchilov and Hutter, Decoupled Weight Decay Regularization, arXiv 1711.05101.
    """
    (b1, b2), lr = config.betas, config.lr
    m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
    m_hat, v_hat = m / (1 - b1**t), v / (1 - b2**t)
    return p - lr * (m_hat / (v_hat.sqrt() + config.eps) + config.weight_decay * p), m, v


@torch.no_grad()
def adamw_(p: list[Tensor], g: list[Tensor], m: list[Tensor], v: list[Tensor], t: int, config: AdamWConfig) -> None:
    """`adamw_reference` in place on lists of tensors, one call an operation for all of them."""
    b1, b2 = config.betas
    torch._foreach_mul_(p, 1 - config.lr * config.weight_decay)
    torch._foreach_lerp_(m, g, 1 - b1)
    torch._foreach_mul_(v, b2)
    torch._foreach_addcmul_(v, g, g, 1 - b2)
    # sqrt(v_hat) + eps, with the corrections moved into eps and the step's size: no copy of m is made.
    correction = (1 - b2**t) ** 0.5
    denominator = torch._foreach_sqrt(v)
    torch._foreach_add_(denominator, config.eps * correction)
    torch._foreach_addcdiv_(p, m, denominator, -config.lr * correction / (1 - b1**t))
