"""AdamW with 8-bit states as an optimizer class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from bancada_optimizers import _check
from bancada_optimizers._base import BaseOptimizer, Group, zeros
from bancada_optimizers.adamw.api import adamw_update, check_adamw
from bancada_optimizers.adamw.foreach import Rule
from bancada_optimizers.adamw8bit.blockwise import dequantize_blockwise, quantize_blockwise, tables
from bancada_optimizers.adamw8bit.reference import BLOCK

CPU_CHUNK, CHUNK = 1 << 18, 1 << 24
"""Elements stepped at a time: on a CPU the temporaries stay in the caches, elsewhere they stay small."""


class AdamW8bit(BaseOptimizer):
    """AdamW whose moments are kept as 8-bit codes in blocks of 256, each with a scale of its own.

    m, v <- dequantised; AdamW's update; m, v -> the nearest codes of the dynamic map (signed, unsigned)

    State: `exp_avg` and `exp_avg_sq` as codes with `exp_avg_scale` and `exp_avg_sq_scale`: 2 + 8/256 = 2.03 bytes a
    parameter; AdamW's own below `min_8bit_size` elements. The step is computed in fp32, and uses the moments from
    before they are rounded. A NaN in a gradient makes its block of 256 NaN, where AdamW loses one element.

    Args:
        params: parameters, or groups of them.
        lr: the rate, at least 0.
        betas: decay rates of the moments, each in [0, 1).
        eps: added to the root, above 0.
        weight_decay: decoupled, at least 0.
        min_8bit_size: parameters with fewer elements keep AdamW's states; at least 0.

    Raises:
        ValueError: an option out of range, a complex or integer parameter.

    Paper: Dettmers et al., 8-bit Optimizers via Block-wise Quantization, arXiv 2110.02861.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        *,
        min_8bit_size: int = 4096,
    ) -> None:
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "min_8bit_size": min_8bit_size,
            "backend": "auto",
        }
        super().__init__(params, defaults)

    def check_group(self, group: Mapping[str, Any]) -> None:
        """ValueError where an option of a group is wrong."""
        check_adamw(group)
        _check.whole("min_8bit_size", group["min_8bit_size"])

    def init_state(self, p: Tensor, group: Group) -> dict[str, Any]:
        """Step 0, and codes of zero with scales of zero."""
        if p.numel() < group["min_8bit_size"]:
            return {"step": torch.tensor(0.0), "exp_avg": zeros(p), "exp_avg_sq": zeros(p)}
        state: dict[str, Any] = {"step": torch.tensor(0.0)}
        blocks = -(-p.numel() // BLOCK)
        for name, signed in (("exp_avg", True), ("exp_avg_sq", False)):
            zero = tables(signed, p.device).zero
            state[name] = torch.full((p.numel(),), zero, dtype=torch.uint8, device=p.device)
            state[f"{name}_scale"] = torch.zeros(blocks, dtype=torch.float32, device=p.device)
        return state

    def update(self, group: Group, params: list[Tensor], grads: list[Tensor], states: list[dict[str, Any]]) -> None:
        """Steps the parameters of a group that have a gradient."""
        whole = [i for i, state in enumerate(states) if "exp_avg_scale" not in state]
        if whole:
            adamw_update(group, [params[i] for i in whole], [grads[i] for i in whole], [states[i] for i in whole])
        rule = Rule(group["lr"], (group["betas"][0], group["betas"][1]), group["eps"], group["weight_decay"])
        for p, g, state in zip(params, grads, states, strict=True):
            if "exp_avg_scale" in state:
                state["step"] += 1
                _step(p, g, state, int(state["step"]), rule)


def _step(p: Tensor, g: Tensor, state: dict[str, Tensor], t: int, rule: Rule) -> None:
    # Codes lie in the order of the flattened parameter, whatever its strides.
    flat = p.view(-1) if p.is_contiguous() else p.reshape(-1)
    gradient = g.reshape(-1)
    size = CPU_CHUNK if p.device.type == "cpu" else CHUNK
    for first in range(0, flat.numel(), size):
        part = slice(first, first + size)
        blocks = slice(first // BLOCK, -(-min(first + size, flat.numel()) // BLOCK))
        _chunk(flat[part], gradient[part], state, part, blocks, t, rule)
    if not p.is_contiguous():
        p.copy_(flat.view(p.shape))


def _chunk(p: Tensor, g: Tensor, state: dict[str, Tensor], part: slice, blocks: slice, t: int, rule: Rule) -> None:
    b1, b2 = rule.betas
    g = g.to(torch.float32)
    m = dequantize_blockwise(state["exp_avg"][part], state["exp_avg_scale"][blocks], signed=True)
    v = dequantize_blockwise(state["exp_avg_sq"][part], state["exp_avg_sq_scale"][blocks], signed=False)
    m.lerp_(g, 1 - b1)
    v.mul_(b2).addcmul_(g, g, value=1 - b2)
    for name, moment, signed in (("exp_avg", m, True), ("exp_avg_sq", v, False)):
        codes, scales = quantize_blockwise(moment, signed)
        state[name][part] = codes
        state[f"{name}_scale"][blocks] = scales
    denominator = v.sqrt_().div_(rule.root(t)).add_(rule.eps)
    keep, rate = 1 - rule.lr * rule.weight_decay, rule.step_size(t)
    if p.dtype in (torch.float32, torch.float64):
        p.mul_(keep).sub_(m.div_(denominator), alpha=rate)
    else:  # rounded once, from the exact sum
        p.copy_(p.to(torch.float32).mul_(keep).sub_(m.div_(denominator), alpha=rate))
