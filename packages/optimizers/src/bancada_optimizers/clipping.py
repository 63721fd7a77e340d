"""Clipping by the global norm, with a decision about gradients that are not finite."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from bancada_optimizers import _check

POLICIES = ("raise", "skip", "zero")


class NonFiniteGradientError(RuntimeError):
    """A gradient holds a NaN or an infinity."""


@dataclass(frozen=True)
class Clipped:
    """What `clip_gradients` did.

    Args:
        norm: the global norm before clipping (of the finite elements where `nonfinite="zero"`).
        factor: what the gradients were multiplied by, 1 where they were small enough.
        nonfinite: how many elements were NaN or infinite.
        skipped: whether the gradients were dropped, so that the update does nothing.
    """

    norm: float
    factor: float
    nonfinite: int
    skipped: bool


@torch.no_grad()
def clip_gradients(params: Iterable[Tensor], max_norm: float, *, nonfinite: str = "raise") -> Clipped:
    """Scales all gradients by min(1, max_norm / norm), norm = sqrt(sum of all squares), in place.

    The norm is summed in fp32 or better; where the squares overflow although all gradients are finite, in fp64.

    Args:
        params: parameters; those without a gradient do not count, and with none at all the norm is 0.
        max_norm: above 0.
        nonfinite: "raise"; "skip", which sets every gradient to None, so that an optimizer's step changes nothing; or
            "zero", which sets the elements to 0 and clips the rest.

    Raises:
        ValueError: a wrong argument, or a sparse gradient.
        NonFiniteGradientError: with "raise", before any gradient is changed.

    Warns:
        UserWarning: `params` is empty, as a generator is that was used before.

    Paper: Pascanu et al., On the difficulty of training recurrent neural networks, arXiv 1211.5063.
    """
    _check.number("max_norm", max_norm, above=0)
    _check.choice("nonfinite", nonfinite, POLICIES)
    owners = [params] if isinstance(params, Tensor) else list(params)
    if not owners:
        warnings.warn("clip_gradients: no parameters were given (a generator that was used before?)", stacklevel=2)
    for p in owners:
        _check.gradient(p)
    grads = [p.grad for p in owners if p.grad is not None]
    norm, bad = _norm(grads), 0
    if not torch.isfinite(norm):
        bad = sum(int((~torch.isfinite(g)).sum()) for g in grads)
        if bad and nonfinite == "raise":
            where = [i for i, p in enumerate(owners) if p.grad is not None and not torch.isfinite(p.grad).all()]
            raise NonFiniteGradientError(f"{bad} gradient elements are not finite, in the parameters {where[:8]}")
        if bad and nonfinite == "skip":
            for p in owners:
                p.grad = None
            return Clipped(float(norm), 1.0, bad, skipped=True)
        for g in grads if bad else ():
            g.nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)
        norm = _norm([g.double() for g in grads])
    value = float(norm)
    factor = min(1.0, max_norm / value) if value else 1.0
    if factor < 1.0:
        torch._foreach_mul_(grads, factor)
    return Clipped(value, factor, bad, skipped=False)


def _norm(grads: list[Tensor]) -> Tensor:
    filled = [g for g in grads if g.numel()]
    if not filled:
        return torch.zeros(())
    norms = [torch.linalg.vector_norm(g, dtype=torch.promote_types(g.dtype, torch.float32)) for g in filled]
    total: Tensor = torch.linalg.vector_norm(torch.stack([norm.to(norms[0].device) for norm in norms]))
    return total
