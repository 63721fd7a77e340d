"""Muon as an optimizer class, with AdamW for what is no hidden matrix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from bancada_optimizers import _check
from bancada_optimizers._base import BaseOptimizer, Group, zeros
from bancada_optimizers.adamw.api import BACKENDS, adamw_update, check_adamw
from bancada_optimizers.muon.reference import COEFFICIENTS, SCALES, scale_of


class Muon(BaseOptimizer):
    """Momentum whose singular values are pushed to 1, for hidden matrices; AdamW for everything else.

    m <- momentum m + (1 - momentum) g; p <- p (1 - lr weight_decay) - lr scale NewtonSchulz(m, or Nesterov's m)

    A group says `use_muon`: True (2-D parameters only) or False (AdamW: embeddings, the head, vectors);
    `muon_groups(model)` makes both. State: `momentum_buffer`, 4 bytes a parameter, of matrices; AdamW's of the rest.

    Args:
        params: `muon_groups(model)`, or 2-D parameters.
        lr: the rate of both, at least 0; a group may have its own.
        weight_decay: decoupled, at least 0.
        momentum: in [0, 1).
        nesterov: look ahead.
        ns_steps: Newton-Schulz steps, at least 1.
        scale: "match_rms_adamw" lets one rate serve both kinds of group; "original" wants a rate of about 0.02.
        betas, eps: AdamW's.
        ns_dtype: what Newton-Schulz computes in: "float32", "bfloat16", or "auto": bfloat16 on a GPU, and elsewhere
            the momentum's.
        backend: AdamW's.

    Raises:
        ValueError: an option out of range, a parameter of a Muon group that is not 2-D, a complex or integer one.

    Papers: Jordan et al., Muon, 2024; Liu et al., arXiv 2502.16982.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_steps: int = 5,
        scale: str = "match_rms_adamw",
        betas: tuple[float, float] = (0.9, 0.95),
        eps: float = 1e-8,
        *,
        ns_dtype: str = "auto",
        backend: str = "auto",
    ) -> None:
        defaults = {
            "use_muon": True, "lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov,
            "ns_steps": ns_steps, "scale": scale, "ns_dtype": ns_dtype, "betas": betas, "eps": eps, "backend": backend,
        }  # fmt: skip
        super().__init__(params, defaults)

    def check_group(self, group: Mapping[str, Any]) -> None:
        """ValueError where an option of a group is wrong."""
        _check.flag("use_muon", group["use_muon"])
        check_adamw(group)
        _check.choice("backend", group["backend"], BACKENDS)
        _check.number("momentum", group["momentum"], least=0, below=1)
        _check.flag("nesterov", group["nesterov"])
        _check.whole("ns_steps", group["ns_steps"], least=1)
        _check.choice("scale", group["scale"], SCALES)
        _check.choice("ns_dtype", group["ns_dtype"], ("auto", "float32", "bfloat16"))

    def check_params(self, group: Group) -> None:
        """ValueError where a parameter cannot be stepped, or is no matrix in a Muon group."""
        super().check_params(group)
        for item in group["params"]:
            p = item[1] if isinstance(item, tuple) else item
            if group["use_muon"] and isinstance(p, Tensor) and p.dim() != 2:
                raise ValueError(
                    f"params: shape {list(p.shape)} in a group with use_muon=True; must be 2-D: give the rest to a "
                    "group with use_muon=False, as muon_groups(model) does"
                )

    def init_state(self, p: Tensor, group: Group) -> dict[str, Any]:
        """A momentum of zeros for a matrix, AdamW's state otherwise."""
        if group["use_muon"]:
            return {"momentum_buffer": zeros(p)}
        return {"step": torch.tensor(0.0), "exp_avg": zeros(p), "exp_avg_sq": zeros(p)}

    def update(self, group: Group, params: list[Tensor], grads: list[Tensor], states: list[dict[str, Any]]) -> None:
        """Steps the parameters of a group that have a gradient."""
        if not group["use_muon"]:
            adamw_update(group, params, grads, states)
            return
        for p, g, state in zip(params, grads, states, strict=True):
            _step(group, p, g, state["momentum_buffer"])


def _step(group: Group, p: Tensor, g: Tensor, m: Tensor) -> None:
    g = g.to(m.dtype)
    m.lerp_(g, 1 - group["momentum"])
    update = m.lerp(g, 1 - group["momentum"]) if group["nesterov"] else m
    direction = _newton_schulz(update.to(_ns_dtype(group, m)), group["ns_steps"])
    rate = group["lr"] * scale_of(p.shape, group["scale"])
    keep = 1 - group["lr"] * group["weight_decay"]
    if p.dtype == m.dtype:
        p.mul_(keep).add_(direction.to(m.dtype), alpha=-rate)
    else:  # rounded once, from the exact sum
        p.copy_((p.to(m.dtype) * keep).add_(direction.to(m.dtype), alpha=-rate))


def _ns_dtype(group: Group, m: Tensor) -> torch.dtype:
    if group["ns_dtype"] == "auto":
        return torch.bfloat16 if m.is_cuda else m.dtype
    return torch.bfloat16 if group["ns_dtype"] == "bfloat16" else torch.float32


def _newton_schulz(u: Tensor, steps: int) -> Tensor:
    """`reference.newton_schulz` with each sum inside its product: three calls a step. `u` is not changed."""
    a, b, c = COEFFICIENTS
    tall = u.shape[0] > u.shape[1]
    x = u.mT if tall else u
    x = x / torch.linalg.matrix_norm(x).clamp(min=1e-7)
    for _ in range(steps):
        gram = x @ x.mT
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x
