"""AdamW as `torch.compile` makes it: a kernel compiled at the first step, for tensors of every size and any rate."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from bancada_optimizers.adamw.foreach import Rule, Tensors


def _flat_step(p: Tensor, g: Tensor, m: Tensor, v: Tensor, numbers: Tensor) -> None:
    """One update of flat tensors, in place. The numbers come as a tensor: a new rate compiles nothing."""
    step_size, root, keep, eps, one_minus_b1, b2, one_minus_b2 = numbers.unbind()
    gradient = g.to(m.dtype)
    moment = m + (gradient - m) * one_minus_b1
    square = b2 * v + one_minus_b2 * gradient * gradient
    m.copy_(moment)
    v.copy_(square)
    p.copy_(p.to(m.dtype) * keep - step_size * moment / (square.sqrt() / root + eps))


@functools.cache
def _compiled() -> Callable[..., Any]:
    return torch.compile(_flat_step, dynamic=True, fullgraph=True)


def compiled_adamw(ps: Tensors, gs: Tensors, ms: Tensors, vs: Tensors, ts: Sequence[int], rule: Rule) -> None:
    """One pass over memory for each tensor. Tensors are stepped as they lie in memory: give it equal layouts."""
    b1, b2 = rule.betas
    for p, g, m, v, t in zip(ps, gs, ms, vs, ts, strict=True):
        numbers = torch.tensor(
            [rule.step_size(t), rule.root(t), 1 - rule.lr * rule.weight_decay, rule.eps, 1 - b1, b2, 1 - b2],
            dtype=m.dtype,
            device=m.device,
        )
        _compiled()(*(_flat(x) for x in (p, g, m, v)), numbers)


def _flat(x: Tensor) -> Tensor:
    return x.detach().as_strided((x.numel(),), (1,))
