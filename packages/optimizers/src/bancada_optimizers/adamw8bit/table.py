"""One update of a parameter with 8-bit moments by torch's operators: codes are looked up, and found, in tables."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from bancada_optimizers.adamw.foreach import Rule
from bancada_optimizers.adamw8bit.blockwise import dequantize_blockwise, quantize_blockwise
from bancada_optimizers.adamw8bit.reference import BLOCK

CPU_CHUNK, CHUNK = 1 << 18, 1 << 24
"""Elements stepped at a time: on a CPU the temporaries stay in the caches, elsewhere they stay small."""


def table_adamw8bit(p: Tensor, g: Tensor, state: Mapping[str, Tensor], t: int, rule: Rule, first: int = 0) -> None:
    """Update `t` of the flat parameter from element `first`, a multiple of 256, on; parameter and state in place.

    Args:
        p, g: the parameter and its gradient, flat [numel].
        state: `exp_avg` and `exp_avg_sq`, uint8 [numel], with `exp_avg_scale` and `exp_avg_sq_scale`.
        t: the number of this update, from 1.
        rule: the numbers of the update.
        first: the first element that is stepped.
    """
    size = CPU_CHUNK if p.device.type == "cpu" else CHUNK
    for begin in range(first, p.numel(), size):
        part = slice(begin, begin + size)
        blocks = slice(begin // BLOCK, -(-min(begin + size, p.numel()) // BLOCK))
        _chunk(p[part], g[part], state, part, blocks, t, rule)


def _chunk(p: Tensor, g: Tensor, state: Mapping[str, Tensor], part: slice, blocks: slice, t: int, rule: Rule) -> None:
    b1, b2 = rule.betas
    g = g.to(torch.float32)
    m = dequantize_blockwise(state["exp_avg"][part], state["exp_avg_scale"][blocks], signed=True)
    v = dequantize_blockwise(state["exp_avg_sq"][part], state["exp_avg_sq_scale"][blocks], signed=False)
    m.lerp_(g, 1 - b1)
    v.mul_(b2).addcmul_(g, g, value=1 - b2)
    for name, moment, signed in (("exp_avg", m, True), ("exp_avg_sq", v, False)):
        codes, scales = quantize_blockwise(moment, signed)
        if not signed:
            codes = torch.maximum(codes, (moment > 0).to(torch.uint8))  # never 0 for what is not: see `AdamW8bit`
        state[name][part] = codes
        state[f"{name}_scale"][blocks] = scales
    denominator = v.sqrt_().div_(rule.root(t)).add_(rule.eps)
    keep, rate = 1 - rule.lr * rule.weight_decay, rule.step_size(t)
    if p.dtype in (torch.float32, torch.float64):
        p.mul_(keep).sub_(m.div_(denominator), alpha=rate)
    else:  # rounded once, from the exact sum
        p.copy_(p.to(torch.float32).mul_(keep).sub_(m.div_(denominator), alpha=rate))
