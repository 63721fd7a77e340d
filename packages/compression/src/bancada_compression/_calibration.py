"""Shows the inputs of every linear layer, over calibration batches, to whoever collects statistics of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn


def linear_layers(model: nn.Module) -> dict[str, nn.Linear]:
    """The linear layers of a model by name; ValueError where it has none."""
    layers = {name: module for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    if not layers:
        raise ValueError("model: contains no nn.Linear to calibrate")
    return layers


def watch_inputs(
    model: nn.Module,
    layers: dict[str, nn.Linear],
    batches: Iterable[Any],
    seen: Callable[[str, Tensor], None],
    run: Callable[[nn.Module, Any], object] | None = None,
) -> None:
    """Runs the model without gradients; `seen(name, x)` is given each layer's input as [tokens, in].

    A mapping among the batches is given to the model as keywords, anything else as its one argument; `run`
    calls it in another way. The hooks are gone afterwards, whatever the model raises.
    """

    def hook(name: str) -> Callable[[nn.Module, tuple[Any, ...]], None]:
        return lambda module, args: seen(name, args[0].detach().flatten(0, -2))

    hooks = [module.register_forward_pre_hook(hook(name)) for name, module in layers.items()]
    try:
        with torch.no_grad():
            for batch in batches:
                if run is not None:
                    run(model, batch)
                elif isinstance(batch, dict):
                    model(**batch)
                else:
                    model(batch)
    finally:
        for handle in hooks:
            handle.remove()
