"""AdamW over many tensors at once, with torch's `_foreach` operators and with its fused operator for CPUs.

Both take lists of equal length and change parameters and moments in place; what they compute is `reference.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Tensors = list[Tensor]


@dataclass(frozen=True)
class Rule:
    """The numbers of one update."""

    lr: float
    betas: tuple[float, float]
    eps: float
    weight_decay: float

    def step_size(self, t: int) -> float:
        """lr over the first moment's bias correction."""
        return self.lr / (1 - self.betas[0] ** t)

    def root(self, t: int) -> float:
        """The root of the second moment's bias correction."""
        return math.sqrt(1 - self.betas[1] ** t)


def foreach_adamw(ps: Tensors, gs: Tensors, ms: Tensors, vs: Tensors, ts: Sequence[int], rule: Rule) -> None:
    """Every operation over all tensors before the next one begins: few calls, one temporary of the moments' size."""
    b1, b2 = rule.betas
    torch._foreach_lerp_(ms, gs, 1 - b1)
    torch._foreach_mul_(vs, b2)
    torch._foreach_addcmul_(vs, gs, gs, 1 - b2)
    denominators = torch._foreach_sqrt(vs)
    torch._foreach_div_(denominators, [rule.root(t) for t in ts])
    torch._foreach_add_(denominators, rule.eps)
    if rule.weight_decay:
        torch._foreach_mul_(ps, 1 - rule.lr * rule.weight_decay)
    torch._foreach_addcdiv_(ps, ms, denominators, [-rule.step_size(t) for t in ts])


def fused_cpu_adamw(ps: Tensors, gs: Tensors, ms: Tensors, vs: Tensors, ts: Tensors, rule: Rule) -> None:
    """One pass over memory on a CPU: torch's own vectorised operator, which `torch.optim.AdamW(fused=True)` calls too.

    It steps tensors as they lie in memory, without a look at strides: give it tensors of one layout and dtype. `ts` are
    fp32 scalars.
    """
    torch._fused_adamw_(
        ps, gs, ms, vs, [], ts,
        lr=rule.lr, beta1=rule.betas[0], beta2=rule.betas[1], weight_decay=rule.weight_decay, eps=rule.eps,
        amsgrad=False, maximize=False,
    )  # fmt: skip
