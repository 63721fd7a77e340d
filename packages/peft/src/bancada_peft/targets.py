"""Which modules of a model a method is put on."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from torch import nn

from bancada_peft.layers import AdaptedModule, layout_of

ALL_LINEAR = "all-linear"
_SHOWN = 6


def select(model: nn.Module, patterns: str | tuple[str, ...], argument: str = "target_modules") -> dict[str, nn.Module]:
    """The modules that `patterns` names, by their path in the model.

    Args:
        model: searched as it was before any adapter: adapters' own modules are not seen.
        patterns: a tuple of names, each a module's path or its end (`q_proj`, `mlp.up_proj`); or a regular expression
            that a path matches as a whole; or `all-linear`: every linear layer but the output head.
        argument: how an error calls `patterns`.

    Raises:
        ValueError: a name or the expression matches nothing; the near names are listed.
    """
    modules = dict(_modules(model))
    if patterns == ALL_LINEAR:
        head = _output_head(model)
        found = {
            path: module
            for path, module in modules.items()
            if module is not head and layout_of(module) in ("linear", "conv1d")
        }
        if not found:
            raise ValueError(f"{argument}={patterns!r}: the model has no linear layer")
        return found
    if isinstance(patterns, str):
        try:
            expression = re.compile(patterns)
        except re.error as error:
            raise ValueError(f"{argument}={patterns!r}: not a regular expression: {error}") from None
        found = {path: module for path, module in modules.items() if expression.fullmatch(path)}
        if not found:
            raise ValueError(f"{argument}={patterns!r}: matches no module; {_near(patterns, modules)}")
        return found
    chosen: set[str] = set()
    for name in patterns:
        matches = {path for path in modules if path == name or path.endswith(f".{name}")}
        if not matches:
            raise ValueError(f"{argument}: {name!r} matches no module; {_near(name, modules)}")
        chosen |= matches
    return {path: module for path, module in modules.items() if path in chosen}


def _modules(model: nn.Module) -> Iterable[tuple[str, nn.Module]]:
    """Every module below `model` by path, each module once, without what adapters brought."""
    hidden: list[str] = []
    for path, module in model.named_modules():
        if any(path == inner or path.startswith(f"{inner}.") for inner in hidden):
            continue
        if isinstance(module, AdaptedModule):
            hidden.append(f"{path}.adapters" if path else "adapters")
        if path:
            yield path, module


def _output_head(model: nn.Module) -> nn.Module | None:
    getter = getattr(model, "get_output_embeddings", None)
    head = getter() if callable(getter) else None
    return head if isinstance(head, nn.Module) else None


def _near(wanted: str, modules: dict[str, nn.Module]) -> str:
    """The names that a person may have meant, or where nothing is near, some that could be adapted."""
    able = {path.rsplit(".", 1)[-1] for path, module in modules.items() if layout_of(module) is not None}
    names = sorted({path.rsplit(".", 1)[-1] for path in modules} | able)
    near = difflib.get_close_matches(wanted.rsplit(".", 1)[-1], names, _SHOWN, 0.5)
    near += [path for path in difflib.get_close_matches(wanted, list(modules), 2, 0.8) if path not in near]
    if near:
        return f"near are {', '.join(near)}"
    return f"this model has {', '.join(sorted(able)[:_SHOWN]) or 'no layer that can be adapted'}"
