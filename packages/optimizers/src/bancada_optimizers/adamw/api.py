"""AdamW as an optimizer class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from bancada_optimizers import _check
from bancada_optimizers._base import BaseOptimizer, Group, same_layout, state_dtype, zeros
from bancada_optimizers.adamw import triton_kernel
from bancada_optimizers.adamw.compiled import compiled_adamw
from bancada_optimizers.adamw.foreach import Rule, foreach_adamw, fused_cpu_adamw
from bancada_optimizers.adamw.reference import adamw_step

BACKENDS = ("auto", "for-loop", "foreach", "fused", "compiled", "triton")
TORCHS_OPTIONS = {
    "amsgrad": False, "maximize": False, "foreach": None, "capturable": False, "differentiable": False, "fused": None,
    "decoupled_weight_decay": True,
}  # fmt: skip
"""Options of torch.optim.AdamW: without the last one in a group, it would read the state as Adam's, with L2."""

NOT_OFFERED = ("amsgrad", "maximize", "capturable", "differentiable")


class AdamW(BaseOptimizer):
    """Adam with decoupled weight decay.

    m <- b1 m + (1 - b1) g; v <- b2 v + (1 - b2) g^2; p <- p - lr (m_hat / (sqrt(v_hat) + eps) + weight_decay p)

    State: `step`, `exp_avg`, `exp_avg_sq`, 8 bytes a parameter, in the parameter's dtype, but fp32 for fp16 and bf16.
    The keys are those of torch.optim.AdamW, and state_dicts load both ways.

    Args:
        params: parameters, or groups of them (`decay_groups(model)`).
        lr: the rate, at least 0; a number, never a tensor.
        betas: decay rates of the moments, each in [0, 1).
        eps: added to the root, above 0.
        weight_decay: decoupled, at least 0.
        backend: "for-loop" is the reference; "foreach" needs few calls; "fused" is one pass on a CPU, by torch's own
            operator; "compiled" compiles at its first step; "triton" is one kernel for all tensors on a GPU. "auto"
            takes triton on a GPU and fused on a CPU. A tensor that a version does not take (other strides in the
            gradient, fp64 for Triton) is stepped by the reference.

    Raises:
        ValueError: an option out of range, a complex or integer parameter, a backend that cannot run here.

    Paper: Loshchilov and Hutter, arXiv 1711.05101.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        *,
        backend: str = "auto",
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "backend": backend}
        super().__init__(params, {**TORCHS_OPTIONS, **defaults})

    def check_group(self, group: Mapping[str, Any]) -> None:
        """ValueError where an option of a group is wrong."""
        check_adamw(group)
        _check.choice("backend", group["backend"], BACKENDS)
        if group["backend"] == "triton" and (reason := triton_kernel.unusable()) is not None:
            raise ValueError(f"backend='triton': {reason}; allowed here are {', '.join(BACKENDS[:-1])}")

    def check_params(self, group: Group) -> None:
        """ValueError where a parameter cannot be stepped, or not by the backend that was asked for."""
        super().check_params(group)
        if group["backend"] == "fused" and any(p.device.type != "cpu" for p in tensors(group["params"])):
            raise ValueError("backend='fused': a parameter is not on a CPU; allowed there are auto, triton, foreach")

    def init_state(self, p: Tensor, group: Group) -> dict[str, Any]:
        """Step 0 and moments of zeros."""
        return {"step": torch.tensor(0.0), "exp_avg": zeros(p), "exp_avg_sq": zeros(p)}

    def update(self, group: Group, params: list[Tensor], grads: list[Tensor], states: list[dict[str, Any]]) -> None:
        """Steps the parameters of a group that have a gradient."""
        adamw_update(group, params, grads, states)


def check_adamw(group: Mapping[str, Any]) -> None:
    """ValueError where one of AdamW's options is wrong."""
    _check.number("lr", group["lr"], least=0)
    _check.betas(group["betas"])
    _check.number("eps", group["eps"], above=0)
    _check.number("weight_decay", group["weight_decay"], least=0)
    _check.not_offered(group, NOT_OFFERED)
    if group.get("decoupled_weight_decay") is False and group["weight_decay"]:
        raise ValueError("decoupled_weight_decay=False: Adam with L2 is not offered here; allowed is True")


def adamw_update(group: Group, params: list[Tensor], grads: list[Tensor], states: list[dict[str, Any]]) -> None:
    """Counts the step of every tensor and hands each to the version of AdamW that takes it."""
    betas = (float(group["betas"][0]), float(group["betas"][1]))
    rule = Rule(group["lr"], betas, group["eps"], group["weight_decay"])
    by_version: dict[str, list[int]] = {}
    for index, (p, g, state) in enumerate(zip(params, grads, states, strict=True)):
        by_version.setdefault(_version(group["backend"], p, g, state), []).append(index)
    steps = [state["step"] for state in states]
    torch._foreach_add_(steps, 1.0)
    for version, indices in by_version.items():
        ps, gs = [params[i] for i in indices], [grads[i] for i in indices]
        ms, vs = [states[i]["exp_avg"] for i in indices], [states[i]["exp_avg_sq"] for i in indices]
        # The fused operator reads the counters where they are; to read one from Python takes a microsecond.
        ts: list[Any] = [steps[i] if version == "fused" else int(steps[i]) for i in indices]
        _VERSIONS[version](ps, gs, ms, vs, ts, rule)


def _version(backend: str, p: Tensor, g: Tensor, state: Mapping[str, Tensor]) -> str:
    """Which version steps a tensor: the backend's, or the reference where the tensor is not one for it."""
    m, v = state["exp_avg"], state["exp_avg_sq"]
    if backend == "auto":
        backend = "fused" if p.device.type == "cpu" else "triton" if p.is_cuda else "foreach"
        if backend == "triton" and (p.dtype == torch.float64 or triton_kernel.unusable()):
            backend = "foreach"
    if backend in ("for-loop", "foreach"):
        return backend
    whole = same_layout(p, g, m, v) and m.dtype == v.dtype == state_dtype(p) and g.dtype == p.dtype
    if not whole or (backend == "triton" and p.dtype == torch.float64) or (backend == "compiled" and p.numel() < 2):
        return "for-loop"
    return backend


def _for_loop(
    ps: list[Tensor], gs: list[Tensor], ms: list[Tensor], vs: list[Tensor], ts: list[int], rule: Rule
) -> None:
    options = {"lr": rule.lr, "betas": rule.betas, "eps": rule.eps, "weight_decay": rule.weight_decay}
    for p, g, m, v, t in zip(ps, gs, ms, vs, ts, strict=True):
        for old, new in zip((p, m, v), adamw_step(p, g, m, v, t, **options), strict=True):  # type: ignore[arg-type]
            old.copy_(new)


def _wide(step: Any) -> Any:
    """`step` for parameters of the half types too: those one by one, on copies in the moments' dtype."""

    def widened(
        ps: list[Tensor], gs: list[Tensor], ms: list[Tensor], vs: list[Tensor], ts: list[int], rule: Rule
    ) -> None:
        for dtypes in {(m.dtype, p.device) for m, p in zip(ms, ps, strict=True)}:
            same = [i for i, (p, m) in enumerate(zip(ps, ms, strict=True)) if (m.dtype, p.device) == dtypes]
            plain = [i for i in same if ps[i].dtype == gs[i].dtype == ms[i].dtype == vs[i].dtype]
            if plain:
                step(*([x[i] for i in plain] for x in (ps, gs, ms, vs, ts)), rule)
            chosen = set(plain)
            for i in same:
                if i not in chosen:
                    p = ps[i].to(ms[i].dtype, copy=True)
                    step([p], [gs[i].to(p.dtype)], [ms[i]], [vs[i]], [ts[i]], rule)
                    ps[i].copy_(p)

    return widened


def tensors(params: list[Any]) -> list[Tensor]:
    """The parameters of a group, which may come with names."""
    return [item[1] if isinstance(item, tuple) else item for item in params]


_VERSIONS = {
    "for-loop": _for_loop,
    "foreach": _wide(foreach_adamw),
    "fused": _wide(fused_cpu_adamw),
    "compiled": compiled_adamw,
    "triton": triton_kernel.triton_adamw,
}
