"""The norms of what every linear layer is given, collected over calibration batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn


def activation_norms(
    model: nn.Module, batches: Iterable[Any], run: Callable[[nn.Module, Any], object] | None = None
) -> dict[str, Tensor]:
    """||X_j||_2 of each input column of each linear layer, over all tokens of all batches.

    Sums of squares are kept in float64, one number a column: a layer's inputs are never stored. The model runs without
    gradients in the mode it is in (call `.eval()` first to switch dropout off).

    Args:
        model: a module with `nn.Linear` layers.
        batches: what the model is called with; a mapping is given as keywords, anything else as the one argument.
        run: how to call the model with a batch instead.

    Returns:
        [in] in float32 by the layer's name; a layer that saw no token has no entry.

    Raises:
        ValueError: the model has no linear layer.

    Paper: Sun et al., arXiv 2306.11695, section 3.
    """
    layers = {name: module for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    if not layers:
        raise ValueError("model: contains no nn.Linear to calibrate")
    sums: dict[str, Tensor] = {}

    def watch(name: str) -> Callable[[nn.Module, tuple[Any, ...]], None]:
        def seen(module: nn.Module, args: tuple[Any, ...]) -> None:
            x = args[0].detach().flatten(0, -2)
            if x.shape[0]:
                sums[name] = sums.get(name, 0) + x.double().square().sum(0)

        return seen

    hooks = [module.register_forward_pre_hook(watch(name)) for name, module in layers.items()]
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
        for hook in hooks:
            hook.remove()
    return {name: total.sqrt().float() for name, total in sums.items()}
