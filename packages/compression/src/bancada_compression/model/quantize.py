"""`quantize`: the linear layers of a model, all or none.

Every new layer is made before the first one is put in place: whatever goes wrong leaves the model as it was.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from bancada_compression.model.report import LayerReport, ModelReport
from bancada_compression.quantized import Format, QuantizedLinear


def quantize(model: nn.Module, config: Format | Mapping[str, Format | None], skip: Iterable[str] = ()) -> ModelReport:
    """Replaces the linear layers of a model, in place, by quantised ones; reports every module with parameters.

    A layer whose weight another module also uses (a tied head) is kept: a copy of it would make the model larger and
    break the tie. So are subclasses of `nn.Linear` and layers with hooks, which a new layer would not have. Pruned
    layers are quantised as they are masked, and their zeros stay zeros.

    Args:
        model: any module that contains `nn.Linear`.
        config: `Int8()`, `W8A8()`, `Groupwise(bits, group_size)`, `NF4()`, or a mapping from patterns of names
            (`"*.mlp.*"`, as a shell's) to one of them, or to None for layers to keep; the first that fits counts.
        skip: patterns of names of layers to keep (`["lm_head"]`).

    Returns:
        What became of each module: format or reason, bytes before and after, signal to noise.

    Raises:
        ValueError: the model is itself a linear layer or has none, a pattern fits no layer, a config is no format, or a
            weight cannot be quantised (its name is told). The model is then as it was.
    """
    if not isinstance(model, nn.Module) or isinstance(model, (nn.Linear, QuantizedLinear)):
        raise ValueError(f"model: a {type(model).__name__}; must be a module that contains linear layers")
    rules: dict[str, Format | None] = dict.fromkeys(_patterns(skip))
    rules.update(config if isinstance(config, Mapping) else {"*": config})
    for pattern, chosen in rules.items():
        if chosen is not None and not callable(getattr(chosen, "layer", None)):
            raise ValueError(f"config: {pattern!r} -> {chosen!r}; must be Int8(), W8A8(), Groupwise(), NF4() or None")
    linear = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    if not linear:
        raise ValueError("model: contains no nn.Linear to quantise")
    for pattern in rules:
        if not any(fnmatchcase(name, pattern) for name in linear):
            raise ValueError(f"config: {pattern!r} fits none of the linear layers {', '.join(linear[:8])}, ...")
    made, reports = _make(model, rules)
    _put(model, made)
    return ModelReport(tuple(reports))


def _patterns(skip: Iterable[str]) -> list[str]:
    patterns = [skip] if isinstance(skip, str) else list(skip)
    if not all(isinstance(pattern, str) for pattern in patterns):
        raise ValueError(f"skip={patterns!r}: must be patterns of names")
    return patterns


def _make(model: nn.Module, rules: Mapping[str, Format | None]) -> tuple[dict[int, QuantizedLinear], list[LayerReport]]:
    """The new layers by the id of the old, and the report; touches nothing."""
    users = _users(model)
    counted: set[int] = set()
    made: dict[int, QuantizedLinear] = {}
    reports: list[LayerReport] = []
    inside: set[int] = set()
    for name, module in model.named_modules():
        if id(module) in inside:
            continue
        own = list(module.parameters(recurse=False))
        if parametrize.is_parametrized(module):
            own = list(module.parameters())
            inside.update(id(child) for child in module.modules())
        if not own:
            continue
        fresh = [parameter for parameter in own if id(parameter) not in counted]
        counted.update(id(parameter) for parameter in own)
        before = after = sum(parameter.nbytes for parameter in fresh)
        reason, chosen = _choice(name, module, rules, users)
        noise = None
        if chosen is not None:
            new, noise = _new(name, module, chosen)
            made[id(module)] = new
            after = new.quantized.nbytes + (0 if new.bias is None else new.bias.nbytes)
        shape = tuple(getattr(module, "weight", own[0]).shape)
        kind = "Linear" if _is_linear(module) else type(module).__name__
        reports.append(
            LayerReport(name, kind, shape, "" if chosen is None else chosen.name, reason, before, after, noise)
        )
    return made, reports


def _users(model: nn.Module) -> dict[int, int]:
    """How many modules use each parameter as their own."""
    found: dict[int, int] = {}
    for module in model.modules():
        for parameter in module._parameters.values():
            if parameter is not None:
                found[id(parameter)] = found.get(id(parameter), 0) + 1
    return found


def _is_linear(module: nn.Module) -> bool:
    """Exactly `nn.Linear`, or one that torch's parametrisation (a pruning mask) has given a class of its own."""
    kind = type(module)
    return kind is nn.Linear or (parametrize.is_parametrized(module) and kind.__bases__ == (nn.Linear,))


def _choice(
    name: str, module: nn.Module, rules: Mapping[str, Format | None], users: Mapping[int, int]
) -> tuple[str, Format | None]:
    """Why a module is kept, or the format it gets."""
    if not _is_linear(module):
        return ("a subclass of Linear" if isinstance(module, nn.Linear) else "not a linear layer"), None
    if any(users[id(parameter)] > 1 for parameter in module.parameters()):
        return "shares its weight with another module", None
    if module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks:
        return "has hooks", None
    for pattern, chosen in rules.items():
        if fnmatchcase(name, pattern):
            return ("" if chosen is not None else f"skipped by {pattern!r}"), chosen
    return "no pattern fits", None


def _new(name: str, module: nn.Module, chosen: Format) -> tuple[QuantizedLinear, float]:
    weight, bias = module.weight, module.bias
    assert isinstance(weight, Tensor) and (bias is None or isinstance(bias, nn.Parameter))
    weight = weight.detach()
    if weight.is_meta:
        raise ValueError(f"model: layer {name!r} is on the meta device; must have its weights loaded")
    try:
        layer = chosen.layer(weight, bias)
    except ValueError as error:
        raise ValueError(f"model: layer {name!r} cannot be quantised: {error}") from error
    return layer.train(module.training), signal_to_noise(weight, layer.quantized.dequantize(torch.float32))


def signal_to_noise(weight: Tensor, found: Tensor) -> float:
    """10 log10(sum w^2 / sum (w - q)^2) in dB, summed in float64; infinite where nothing was lost."""
    noise = float((weight.double() - found.double()).square().sum())
    signal = float(weight.double().square().sum())
    if noise == 0:
        return math.inf
    return 10 * math.log10(signal / noise) if signal else -math.inf


def _put(model: nn.Module, made: Mapping[int, QuantizedLinear]) -> None:
    """Puts the new layers into every place where the old ones stood; back again where that is interrupted."""
    places = [
        (parent, name, child)
        for parent in list(model.modules())
        for name, child in parent._modules.items()
        if child is not None and id(child) in made
    ]
    try:
        for parent, name, child in places:
            setattr(parent, name, made[id(child)])
    except BaseException:
        for parent, name, child in places:
            parent._modules[name] = child
        raise
