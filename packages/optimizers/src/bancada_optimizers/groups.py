"""Which parameters decay."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import nn

from bancada_optimizers import _check

NORMS = (nn.LayerNorm, nn.RMSNorm, nn.GroupNorm, nn.modules.batchnorm._BatchNorm, nn.modules.instancenorm._InstanceNorm)


def decay_groups(model: nn.Module, weight_decay: float = 0.1, *, no_decay: Iterable[str] = ()) -> list[dict[str, Any]]:
    """Two groups for an optimizer: parameters that decay, and those that must not.

    Matrices and larger (embeddings too) decay. What has less than two dimensions does not (biases, scales), nor does a
    normalisation's parameter of any shape, nor what `no_decay` names. Frozen parameters are left out, a shared one is
    listed once. A group without parameters is not made.

    Args:
        model: any module.
        weight_decay: of the first group, at least 0; the second has 0.
        no_decay: names of further parameters or modules (`"embed_tokens"`).

    Raises:
        ValueError: a negative weight_decay; a name that the model does not have; a model without trainable parameters.
    """
    _check.number("weight_decay", weight_decay, least=0)
    names = known_names("no_decay", model, no_decay)
    norms = {id(p) for module in model.modules() if isinstance(module, NORMS) for p in module.parameters()}
    decaying: list[nn.Parameter] = []
    remaining: list[nn.Parameter] = []
    for name, p in model.named_parameters():  # a shared parameter comes once
        if p.requires_grad:
            spared = p.dim() < 2 or id(p) in norms or any(within(name, outer) for outer in names)
            (remaining if spared else decaying).append(p)
    if not decaying and not remaining:
        raise ValueError("model: it has no trainable parameters")
    groups = [{"params": decaying, "weight_decay": weight_decay}, {"params": remaining, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]


def known_names(argument: str, model: nn.Module, chosen: Iterable[str]) -> list[str]:
    """The names as a list; ValueError for one that is neither a parameter nor a module of the model."""
    known = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    known |= {name for name, _ in model.named_modules(remove_duplicate=False)}
    names = [chosen] if isinstance(chosen, str) else list(chosen)
    for name in names:
        if name not in known or not name:
            raise ValueError(f"{argument}={name!r}: the model has no parameter and no module of that name")
    return names


def within(name: str, outer: str) -> bool:
    """Whether a dotted name is `outer` or lies inside it."""
    return name == outer or name.startswith(f"{outer}.")
