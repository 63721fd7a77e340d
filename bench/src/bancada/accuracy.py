"""Errors of outputs and gradients against the float64 answer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from bancada.suite import Tensors


@dataclass(frozen=True)
class Error:
    """max |x - ref| and ||x - ref|| / ||ref|| (the norm of the difference where ref is 0).

    Infinite where x is not finite and ref is.
    """

    largest: float
    relative: float


def error(value: torch.Tensor, answer: torch.Tensor) -> Error:
    """The error of one tensor. Equal infinities are no error; a NaN is an infinite one."""
    x = value.detach().to(answer.device, torch.float64)
    difference = x - answer
    difference = torch.where(x == answer, 0.0, difference)
    if not torch.isfinite(difference).all():
        return Error(math.inf, math.inf)
    largest = float(difference.abs().max()) if difference.numel() else 0.0
    finite = torch.where(torch.isfinite(answer), answer, 0.0)
    norm = float(torch.linalg.vector_norm(finite))
    off = float(torch.linalg.vector_norm(difference))
    return Error(largest, off / norm if norm else off)


@dataclass(frozen=True)
class Judgement:
    """Errors by output, the largest share of its limit that one takes, and what is wrong (empty: nothing)."""

    errors: Mapping[str, Error]
    limit_share: float
    wrong: str


def judge(outputs: Tensors, answer: Tensors, limits: Mapping[str, float]) -> Judgement:
    """Holds every output against the answer and its limit."""
    missing = sorted(set(answer) - set(outputs))
    if missing:
        return Judgement({}, math.inf, f"gives no {', '.join(missing)}")
    errors: dict[str, Error] = {}
    share, wrong = 0.0, []
    for name, right in answer.items():
        if tuple(outputs[name].shape) != tuple(right.shape):
            wrong.append(f"{name} has shape {list(outputs[name].shape)}, right is {list(right.shape)}")
            continue
        errors[name] = found = error(outputs[name], right)
        limit = limits[name]
        share = max(share, found.largest / limit if limit else (0.0 if found.largest == 0 else math.inf))
        if not found.largest <= limit:
            wrong.append(f"{name} is off by {found.largest:.3g}, allowed is {limit:.3g}")
    return Judgement(errors, share, "; ".join(wrong))


def fields(judgement: Judgement) -> dict[str, float]:
    """The errors as row fields: the worst output, the worst gradient (names that begin with `d`), and each by name."""
    found: dict[str, float] = {}
    for name, one in judgement.errors.items():
        if not math.isfinite(one.largest):
            continue
        found[f"error.{name}.max"], found[f"error.{name}.rel"] = one.largest, one.relative
        prefix = "grad_error" if is_gradient(name) else "error"
        found[f"{prefix}_max"] = max(found.get(f"{prefix}_max", 0.0), one.largest)
        found[f"{prefix}_rel"] = max(found.get(f"{prefix}_rel", 0.0), one.relative)
    if math.isfinite(judgement.limit_share):
        found["error_limit_share"] = judgement.limit_share
    return found


def is_gradient(name: str) -> bool:
    """Whether an output's name is that of a gradient (`dq` for the gradient with respect to `q`)."""
    return name.startswith("d") and len(name) > 1


def changed_inputs(before: Tensors, after: Tensors, may: tuple[str, ...]) -> list[str]:
    """Names of the inputs that a call changed and was not allowed to. NaN counts as equal to NaN."""
    return [name for name, old in before.items() if name not in may and not _same(old, after[name].detach())]


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    equal = a == b
    if a.is_floating_point():
        equal |= a.isnan() & b.isnan()
    return bool(equal.all())
