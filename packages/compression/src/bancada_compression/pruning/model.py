"""`prune`: masks on the linear layers of a model that hold through training, casts and saving.

A mask is a parametrisation of torch's: the weight that the layer sees is `original * mask` at every call. The gradient
of a removed weight is 0, and whatever momentum or decay an optimizer still holds for it changes nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from bancada_compression._check import check_choice, check_fraction
from bancada_compression.pruning.masks import keep_mask, n_of_m_mask
from bancada_compression.pruning.scores import magnitude_scores, wanda_scores


@dataclass(frozen=True)
class PrunedLayer:
    """What became of one linear layer: by which scores, how many weights there are, and how many were removed."""

    name: str
    method: str
    weights: int
    removed: int


class Mask(nn.Module):
    """weight = original where the mask is true, else 0."""

    mask: Tensor

    def __init__(self, mask: Tensor) -> None:
        super().__init__()
        self.register_buffer("mask", mask)

    def forward(self, original: Tensor) -> Tensor:
        """The weight that the layer uses."""
        # As bytes: choosing by a mask of truths takes 15 times as long on a CPU, and multiplying by one four times.
        return original * self.mask.view(torch.uint8)

    def right_inverse(self, weight: Tensor) -> Tensor:
        """What is stored for a weight that is assigned."""
        return torch.where(self.mask, weight, 0.0)


def prune(
    model: nn.Module,
    sparsity: float = 0.5,
    method: Literal["magnitude", "wanda"] = "magnitude",
    norms: Mapping[str, Tensor] | None = None,
    pattern: Literal["row", "matrix", "2:4"] = "row",
    skip: Iterable[str] = (),
) -> list[PrunedLayer]:
    """Masks the linear layers of a model, in place; `make_permanent` ends it.

    Args:
        model: any module that contains `nn.Linear`.
        sparsity: share of the weights to remove, 0 to 1; 2:4 removes half (0.5).
        method: `magnitude`: |W|; `wanda`: |W| times the norm of its input.
        norms: for wanda, from `activation_norms`; a layer without an entry (an expert that saw no token) falls back to
            magnitude, with a warning.
        pattern: compare the weights of one output, of the matrix, or of four neighbours.
        skip: patterns of names of layers to leave.

    Returns:
        What became of each linear layer that was not skipped.

    Raises:
        ValueError: no linear layer, an argument that is not allowed, a layer that is pruned already or shares its
            weight, or a weight that is not finite. The model is then as it was.

    Papers: Han et al., arXiv 1506.02626; Sun et al., arXiv 2306.11695; 2:4: Mishra et al., arXiv 2104.08378.
    """
    check_fraction("sparsity", sparsity)
    check_choice("method", method, ("magnitude", "wanda"))
    check_choice("pattern", pattern, ("row", "matrix", "2:4"))
    if pattern == "2:4" and sparsity != 0.5:
        raise ValueError(f"sparsity={sparsity!r}: must be 0.5 for 2:4")
    if (norms is None) != (method == "magnitude"):
        raise ValueError(f"norms: {'none given' if norms is None else 'given'}; wanda needs them, magnitude takes none")
    patterns = [skip] if isinstance(skip, str) else list(skip)
    layers = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and not any(fnmatchcase(name, one) for one in patterns)
    }
    if not layers:
        raise ValueError("model: contains no nn.Linear to prune")
    masks = {name: _mask(model, name, layer, sparsity, norms, pattern) for name, layer in layers.items()}
    for name, (_, mask) in masks.items():
        parametrize.register_parametrization(layers[name], "weight", Mask(mask))
    return [
        PrunedLayer(name, used, mask.numel(), mask.numel() - int(mask.sum())) for name, (used, mask) in masks.items()
    ]


def _mask(
    model: nn.Module, name: str, layer: nn.Linear, sparsity: float, norms: Mapping[str, Tensor] | None, pattern: str
) -> tuple[str, Tensor]:
    """The method that a layer's mask came from, and the mask."""
    if parametrize.is_parametrized(layer):
        raise ValueError(f"model: layer {name!r} has a parametrisation already; make_permanent ends that of a mask")
    users = sum(layer.weight is one for module in model.modules() for one in module._parameters.values())
    if users > 1:
        raise ValueError(f"model: layer {name!r} shares its weight; name it in skip")
    try:
        if norms is None:
            used, scores = "magnitude", magnitude_scores(layer.weight)
        elif name in norms:
            used, scores = "wanda", wanda_scores(layer.weight, norms[name])
        else:
            warnings.warn(f"layer {name!r} saw no calibration token: pruned by magnitude", stacklevel=3)
            used, scores = "magnitude", magnitude_scores(layer.weight)
    except ValueError as error:
        raise ValueError(f"model: layer {name!r} cannot be pruned: {error}") from error
    if pattern == "2:4":
        return used, n_of_m_mask(scores)
    return used, keep_mask(scores, sparsity, "row" if pattern == "row" else "matrix")


def make_permanent(model: nn.Module) -> int:
    """Ends all masks of a model: the weights keep their zeros as plain parameters; returns how many layers had one.

    From then on training may fill the zeros again.
    """
    count = 0
    for module in list(model.modules()):
        if not (isinstance(module, nn.Linear) and parametrize.is_parametrized(module, "weight")):
            continue
        if any(isinstance(one, Mask) for one in module.get_submodule("parametrizations.weight").children()):
            parametrize.remove_parametrizations(module, "weight", leave_parametrized=True)
            with torch.no_grad():
                module.weight += 0.0  # no -0.0 among the zeros: files zip smaller
            count += 1
    return count
