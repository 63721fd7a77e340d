"""`student_of`: a shallower copy of a Transformer, made of some of its own layers.

Sanh et al., DistilBERT, arXiv 1910.01108, section 3: the student is initialised from one layer in two.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from torch import nn

from bancada_compression._check import check_count

DEPTHS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")
"""What configurations call the number of layers."""
INDICES = ("layer_idx", "layer_id", "layer_index")
"""What layers call their own place, which their cache of keys and values is found by."""


def student_of(model: nn.Module, layers: int | Sequence[int], stack: str | None = None) -> nn.Module:
    """A copy of a model with only some of the layers of its stack; the model itself stays as it is.

    Everything else is copied once (ties stay ties), layers that are left out are never copied. Where the model has a
    `config` with a number of layers or with a list of one entry a layer, the copy's is shortened likewise, and layers
    that know their own index are told the new one.

    Args:
        model: the teacher.
        layers: how many, taken evenly from the first to the last (1: the first); or which, in ascending order.
        stack: the name of the `nn.ModuleList` of layers; None: the only one that has two layers or more of one type.

    Returns:
        The student, with parameters of its own, in the mode (training or not) of the model.

    Raises:
        ValueError: no such stack, several candidates (they are named), or layers that are not there or not in order.

    Paper: Sanh et al., arXiv 1910.01108.
    """
    name, found = _stack(model, stack)
    kept = _kept(layers, len(found))
    memo: dict[int, Any] = {}
    placeholder = nn.ModuleList()
    placeholder.train(found.training)
    memo[id(found)] = placeholder
    student = copy.deepcopy(model, memo)
    for index in kept:
        placeholder.append(copy.deepcopy(found[index], memo))
    _tell(student, placeholder, kept, len(found))
    assert student.get_submodule(name) is placeholder
    return student


def _stack(model: nn.Module, stack: str | None) -> tuple[str, nn.ModuleList]:
    lists = {name: module for name, module in model.named_modules() if type(module) is nn.ModuleList and len(module)}
    if stack is not None:
        if stack not in lists:
            raise ValueError(f"stack={stack!r}: must be one of the model's module lists: {', '.join(lists) or 'none'}")
        return stack, lists[stack]
    alike = {name: one for name, one in lists.items() if len(one) > 1 and len({type(layer) for layer in one}) == 1}
    outer = {name: one for name, one in alike.items() if not any(name.startswith(f"{other}.") for other in alike)}
    if len(outer) != 1:
        raise ValueError(f"stack=None: the model has {len(outer)} lists of like layers ({', '.join(outer) or 'none'}); "
                         "must be named")  # fmt: skip
    return next(iter(outer.items()))


def _kept(layers: int | Sequence[int], depth: int) -> list[int]:
    if isinstance(layers, int):
        check_count("layers", layers, most=depth)
        return [round(i * (depth - 1) / max(layers - 1, 1)) for i in range(layers)]
    kept = list(layers)
    whole = all(isinstance(one, int) and not isinstance(one, bool) for one in kept)
    if not kept or not whole or kept != sorted(set(kept)) or kept[0] < 0 or kept[-1] >= depth:
        raise ValueError(f"layers={layers!r}: must be ascending whole numbers from 0 to {depth - 1}, at least one")
    return kept


def _tell(student: nn.Module, stack: nn.ModuleList, kept: list[int], depth: int) -> None:
    """Sets the number of layers in the configuration, and each layer's index."""
    for place, layer in enumerate(stack):
        for module in layer.modules():
            for name in INDICES:
                if getattr(module, name, None) == kept[place]:
                    setattr(module, name, place)
    configs = {id(one): one for module in student.modules() if (one := getattr(module, "config", None)) is not None}
    for config in configs.values():
        for name, value in list(vars(config).items()):
            if name in DEPTHS and value == depth:
                setattr(config, name, len(kept))
            elif name == "layer_types" and isinstance(value, list) and len(value) == depth:
                setattr(config, name, [value[index] for index in kept])
