"""SGD as an optimizer class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from bancada_optimizers import _check
from bancada_optimizers._base import BaseOptimizer, Group, same_layout, state_dtype, zeros
from bancada_optimizers.sgd.reference import sgd_step

TORCHS_OPTIONS = {"dampening": 0, "maximize": False, "foreach": None, "differentiable": False, "fused": None}
"""Options that torch.optim.SGD looks for in a loaded state."""

BACKENDS = ("auto", "for-loop", "foreach", "fused")


class SGD(BaseOptimizer):
    """Gradient descent with momentum and L2 decay.

    g <- g + weight_decay p; b <- momentum b + g; p <- p - lr b, or p - lr (g + momentum b) with Nesterov's momentum

    State: `momentum_buffer`, 4 bytes a parameter in fp32 (fp32 too for fp16 and bf16); none with momentum 0. The key
    is that of torch.optim.SGD, and state_dicts load both ways.

    Args:
        params: parameters, or groups of them.
        lr: the rate, at least 0.
        momentum: in [0, 1).
        weight_decay: L2, at least 0.
        nesterov: needs momentum above 0.
        backend: "for-loop" is the reference; "foreach" needs few calls; "fused" is one pass on a CPU, by torch's own
            operator. "auto" takes fused on a CPU and foreach elsewhere.

    Raises:
        ValueError: an option out of range, a complex or integer parameter.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        backend: str = "auto",
    ) -> None:
        defaults = {
            "lr": lr, "momentum": momentum, "weight_decay": weight_decay, "nesterov": nesterov, "backend": backend,
        }  # fmt: skip
        super().__init__(params, {**TORCHS_OPTIONS, **defaults})

    def check_group(self, group: Mapping[str, Any]) -> None:
        """ValueError where an option of a group is wrong."""
        _check.number("lr", group["lr"], least=0)
        momentum = _check.number("momentum", group["momentum"], least=0, below=1)
        _check.number("weight_decay", group["weight_decay"], least=0)
        if _check.flag("nesterov", group["nesterov"]) and momentum == 0:
            raise ValueError("nesterov=True: needs momentum above 0")
        _check.choice("backend", group["backend"], BACKENDS)
        _check.not_offered(group, ("dampening", "maximize", "differentiable"))

    def check_params(self, group: Group) -> None:
        """ValueError where a parameter cannot be stepped, or not by the backend that was asked for."""
        super().check_params(group)
        tensors = [item[1] if isinstance(item, tuple) else item for item in group["params"]]
        if group["backend"] == "fused" and any(p.device.type != "cpu" for p in tensors):
            raise ValueError("backend='fused': a parameter is not on a CPU; allowed there are auto, foreach")

    def init_state(self, p: Tensor, group: Group) -> dict[str, Any]:
        """A buffer of zeros (momentum * 0 + g is the first update's g); nothing with momentum 0."""
        return {"momentum_buffer": zeros(p)} if group["momentum"] else {}

    def check_state(self, p: Tensor, group: Group, state: Mapping[str, Any]) -> None:
        """As the base says; torch saves a buffer of None where there is no momentum."""
        if state.get("momentum_buffer") is not None:
            super().check_state(p, group, state)

    def _own(self, p: Tensor, name: str, value: Any) -> Any:
        return zeros(p) if value is None and self._group_of(p)["momentum"] else super()._own(p, name, value)

    def update(self, group: Group, params: list[Tensor], grads: list[Tensor], states: list[dict[str, Any]]) -> None:
        """Steps the parameters of a group that have a gradient."""
        by_version: dict[str, list[int]] = {}
        buffers = [state.get("momentum_buffer") for state in states]
        for i, (p, g, b) in enumerate(zip(params, grads, buffers, strict=True)):
            by_version.setdefault(_version(group["backend"], p, g, b), []).append(i)
        for version, chosen in by_version.items():
            _VERSIONS[version](
                group, [params[i] for i in chosen], [grads[i] for i in chosen], [buffers[i] for i in chosen]
            )


def _version(backend: str, p: Tensor, g: Tensor, b: Tensor | None) -> str:
    if p.dtype != state_dtype(p) or g.dtype != p.dtype or (b is not None and b.dtype != p.dtype):
        return "for-loop"  # the half types are computed in fp32, one by one
    if backend == "auto":
        backend = "fused" if p.device.type == "cpu" else "foreach"
    # The fused operator steps tensors as they lie in memory; a moment's layout has no gaps, the parameter's may.
    if backend == "fused" and not (same_layout(p, g, b) if b is not None else p.is_contiguous() and g.is_contiguous()):
        return "for-loop"
    return backend


def _for_loop(group: Group, ps: list[Tensor], gs: list[Tensor], bs: list[Any]) -> None:
    for p, g, b in zip(ps, gs, bs, strict=True):
        state = torch.zeros_like(p, dtype=state_dtype(p)) if b is None else b
        options = {name: group[name] for name in ("lr", "weight_decay", "nesterov", "momentum")}
        new, buffer = sgd_step(p, g, state, **options)
        p.copy_(new)
        if b is not None:
            b.copy_(buffer)


def _foreach(group: Group, ps: list[Tensor], gs: list[Tensor], bs: list[Any]) -> None:
    momentum = group["momentum"]
    if group["weight_decay"]:
        gs = list(torch._foreach_add(gs, ps, alpha=group["weight_decay"]))
    direction = gs
    if momentum:
        torch._foreach_mul_(bs, momentum)
        torch._foreach_add_(bs, gs)
        direction = list(torch._foreach_add(gs, bs, alpha=momentum)) if group["nesterov"] else bs
    torch._foreach_add_(ps, direction, alpha=-group["lr"])


def _fused(group: Group, ps: list[Tensor], gs: list[Tensor], bs: list[Any]) -> None:
    torch._fused_sgd_(
        ps, gs, bs if group["momentum"] else [], lr=group["lr"], momentum=group["momentum"],
        weight_decay=group["weight_decay"], dampening=0.0, nesterov=group["nesterov"], maximize=False,
        is_first_step=False,
    )  # fmt: skip


_VERSIONS = {"for-loop": _for_loop, "foreach": _foreach, "fused": _fused}
