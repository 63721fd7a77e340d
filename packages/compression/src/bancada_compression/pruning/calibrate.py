"""The norms of what every linear layer is given, collected over calibration batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor, nn

from bancada_compression._calibration import linear_layers, watch_inputs


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
    layers = linear_layers(model)
    sums: dict[str, Tensor] = {}

    def seen(name: str, x: Tensor) -> None:
        if x.shape[0]:
            sums[name] = sums.get(name, 0) + x.double().square().sum(0)

    watch_inputs(model, layers, batches, seen, run)
    return {name: total.sqrt().float() for name, total in sums.items()}
