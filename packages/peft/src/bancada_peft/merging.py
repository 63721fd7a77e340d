"""An adapter computed into the weights, and taken out of them again."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bancada_peft.adapting import adapted_modules, record_of
from bancada_peft.layers import AdaptedModule, Adapter, Merged, quantised
from bancada_peft.saved import SavedModule, shared_outside


@torch.no_grad()
def merge(model: nn.Module, name: str | None = None, *, keep_copy: bool = True) -> int:
    """Computes an adapter into the weights: the model then runs at its plain speed.

    The new weights are computed in float32 (float64 where the weights are) and rounded once to the weights' type, so
    that each is within eps/2 |W'| of the right one, plus the error of s B A in float32. Merging again is no change.

    Args:
        name: the adapter; None: the active one.
        keep_copy: keep the weights as they were, which takes as much memory as the adapted layers' weights;
            `unmerge` then restores them to the bit. Without a copy (LoRA only) it computes W' - s B A: after n cycles
            |W_n - W| <= n eps (|W| + |s B A|), eps that of the weights' type, elementwise.

    Returns:
        the bytes of the copies kept.

    Raises:
        ValueError: no such adapter, another one merged, a method that cannot be merged (or not without a copy), an
            embedding tied to a layer outside the adapter, a quantised weight, one that would not be finite. Nothing is
            then changed.
    """
    record = record_of(model)
    name = record.active if name is None else name
    if name is None or name not in record.methods:
        raise ValueError(f"name={name!r}: the model's adapters are {', '.join(sorted(record.methods)) or 'none'}")
    if record.merged is not None and record.merged != name:
        raise ValueError(f"name={name!r}: adapter {record.merged!r} is merged; unmerge() first")
    hosts = {path: module for path, module in adapted_modules(model).items() if name in module.adapters}
    if record.merged == name:
        return sum(_kept(module) for module in hosts.values())
    for path, module in hosts.items():
        _check(model, path, module, name, keep_copy)
    if not keep_copy:  # with copies, what was written can be taken back
        for path, module in hosts.items():
            _rounded(path, module, name)
    try:
        for path, module in hosts.items():
            new, adapter = _rounded(path, module, name), _adapter(module, name)
            copies = {key: module.get_parameter(key).detach().clone() for key in new} if keep_copy else {}
            module.merged_state = Merged(name, copies, _versions(adapter))
            for key, tensor in new.items():
                module.get_parameter(key).copy_(tensor)
    except BaseException:
        for module in hosts.values():
            _restore(module)
        raise
    record.merged = name
    return sum(_kept(module) for module in hosts.values())


@torch.no_grad()
def unmerge(model: nn.Module) -> None:
    """Takes the merged adapter out of the weights again: see `merge` for how exactly.

    Raises:
        ValueError: nothing is merged, or no copy was kept and the adapter has been changed since.
    """
    record = record_of(model)
    if record.merged is None:
        raise ValueError("model: no adapter is merged")
    hosts = {path: module for path, module in adapted_modules(model).items() if module.merged_state is not None}
    for path, module in hosts.items():
        state = module.merged_state
        assert state is not None
        if not state.copies and state.versions != _versions(_adapter(module, state.name)):
            raise ValueError(f"{path}: adapter {state.name!r} was changed since it was merged, and no copy was kept")
    for module in hosts.values():
        _restore(module)
    record.merged = None


def _adapter(module: AdaptedModule, name: str) -> Adapter:
    adapter = module.adapters[name]
    assert isinstance(adapter, Adapter)
    return adapter


def _check(model: nn.Module, path: str, module: AdaptedModule, name: str, keep_copy: bool) -> None:
    adapter = _adapter(module, name)
    if (kind := quantised(module)) is not None:
        raise ValueError(f"{path}: its weight is a {kind}; merge into the plain weights and quantise those")
    if not adapter.mergeable:
        raise ValueError(f"{path}: {type(adapter).__name__} is no change of the weights and cannot be merged")
    if not keep_copy and not adapter.reversible:
        raise ValueError(f"keep_copy=False: {path} has a {type(adapter).__name__}, which only a copy can undo")
    if not isinstance(adapter, SavedModule) and (tied := shared_outside(model, module)):
        raise ValueError(f"{path}: its weight is tied to {', '.join(tied)}, which merging would change too")


def _rounded(path: str, module: AdaptedModule, name: str) -> dict[str, Tensor]:
    """The merged parameters in their own type; ValueError where one is not finite."""
    found = _adapter(module, name).merged(module)
    found = {key: tensor.to(module.get_parameter(key).dtype) for key, tensor in found.items()}
    for key, tensor in found.items():
        if not torch.isfinite(tensor).all():
            raise ValueError(f"{path}.{key}: with {name!r} merged it would not be finite in {tensor.dtype}")
    return found


def _restore(module: AdaptedModule) -> None:
    state = module.merged_state
    if state is None:
        return
    for key, tensor in (state.copies or _adapter(module, state.name).unmerged(module)).items():
        module.get_parameter(key).copy_(tensor)
    module.merged_state = None


def _versions(adapter: nn.Module) -> tuple[int, ...]:
    return tuple(parameter._version for parameter in adapter.parameters())


def _kept(module: AdaptedModule) -> int:
    copies: dict[str, Tensor] = {} if module.merged_state is None else module.merged_state.copies
    return sum(tensor.numel() * tensor.element_size() for tensor in copies.values())
