"""Lion as an optimizer class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from bancada_optimizers import _check
from bancada_optimizers._base import BaseOptimizer, Group, state_dtype, zeros
from bancada_optimizers.lion.reference import lion_step

BACKENDS = ("auto", "for-loop", "foreach")
CHUNK = 1 << 18
"""Elements that the five operators of a step go over before the next ones: the chunk stays in the caches."""


class Lion(BaseOptimizer):
    """The sign of a momentum: every element moves by lr, so rates are 3 to 10 times smaller than AdamW's.

    p <- p (1 - lr weight_decay) - lr sign(b1 m + (1 - b1) g); m <- b2 m + (1 - b2) g

    State: `exp_avg`, 4 bytes a parameter in fp32 (fp32 too for fp16 and bf16).

    Args:
        params: parameters, or groups of them.
        lr: the rate, at least 0.
        betas: b1 of the direction and b2 of the momentum, each in [0, 1).
        weight_decay: decoupled, at least 0; 3 to 10 times AdamW's, for the product with lr stays.
        backend: "for-loop" is the reference; "foreach" works in place, on a CPU chunk by chunk. "auto" is foreach.

    Raises:
        ValueError: an option out of range, a complex or integer parameter.

    Paper: Chen et al., arXiv 2302.06675.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
        *,
        backend: str = "auto",
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay, "backend": backend})

    def check_group(self, group: Mapping[str, Any]) -> None:
        """ValueError where an option of a group is wrong."""
        _check.number("lr", group["lr"], least=0)
        _check.betas(group["betas"])
        _check.number("weight_decay", group["weight_decay"], least=0)
        _check.choice("backend", group["backend"], BACKENDS)

    def init_state(self, p: Tensor, group: Group) -> dict[str, Any]:
        """A momentum of zeros."""
        return {"exp_avg": zeros(p)}

    def update(self, group: Group, params: list[Tensor], grads: list[Tensor], states: list[dict[str, Any]]) -> None:
        """Steps the parameters of a group that have a gradient."""
        plain: list[int] = []
        for i, (p, g, state) in enumerate(zip(params, grads, states, strict=True)):
            alike = p.dtype == g.dtype == state["exp_avg"].dtype == state_dtype(p)
            if group["backend"] == "for-loop" or not alike:
                _for_loop(group, p, g, state["exp_avg"])
            else:
                plain.append(i)
        if plain:
            _foreach(
                group, [params[i] for i in plain], [grads[i] for i in plain], [states[i]["exp_avg"] for i in plain]
            )


def _for_loop(group: Group, p: Tensor, g: Tensor, m: Tensor) -> None:
    options = {name: group[name] for name in ("lr", "betas", "weight_decay")}
    for old, new in zip((p, m), lion_step(p, g, m, **options), strict=True):
        old.copy_(new)


def _foreach(group: Group, ps: list[Tensor], gs: list[Tensor], ms: list[Tensor]) -> None:
    if ps[0].device.type != "cpu":
        _in_place(group, ps, gs, ms)
        return
    for p, g, m in zip(ps, gs, ms, strict=True):
        if p.numel() <= CHUNK or not (p.is_contiguous() and g.is_contiguous() and m.is_contiguous()):
            _in_place(group, [p], [g], [m])
            continue
        for part in zip(*(torch.split(x.view(-1), CHUNK) for x in (p, g, m)), strict=True):
            _in_place(group, *([x] for x in part))


def _in_place(group: Group, ps: list[Tensor], gs: list[Tensor], ms: list[Tensor]) -> None:
    b1, b2 = group["betas"]
    directions = torch._foreach_lerp(ms, gs, 1 - b1)
    torch._foreach_sign_(directions)
    if group["weight_decay"]:
        torch._foreach_mul_(ps, 1 - group["lr"] * group["weight_decay"])
    torch._foreach_add_(ps, directions, alpha=-group["lr"])
    torch._foreach_lerp_(ms, gs, 1 - b2)
