"""`factorize`: the linear layers of a model as products of two thin ones, all or none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bancada_compression._calibration import linear_layers, watch_inputs
from bancada_compression._check import check_fraction
from bancada_compression.lowrank.factor import rank_for, svd_factor, whitened_svd_factor


@dataclass(frozen=True)
class FactoredLayer:
    """What became of a linear layer: its rank (0: kept, and `reason` says why) and its parameters before and after."""

    name: str
    rank: int
    reason: str
    parameters_before: int
    parameters_after: int


class LowRankLinear(nn.Module):
    """y = (x A^T) B^T + b: rank * (out + in) parameters in place of out * in, and as many multiplications.

    Args:
        b: [out, rank].
        a: [rank, in].
        bias: [out], or None.
    """

    bias: nn.Parameter | None

    def __init__(self, b: Tensor, a: Tensor, bias: nn.Parameter | None = None) -> None:
        super().__init__()
        if b.dim() != 2 or a.dim() != 2 or b.shape[1] != a.shape[0]:
            raise ValueError(f"a: shape {list(a.shape)}; must be [rank, in], with b [out, rank], here {list(b.shape)}")
        if bias is not None and tuple(bias.shape) != (b.shape[0],):
            raise ValueError(f"bias: shape {list(bias.shape)}; must be [out] = [{b.shape[0]}]")
        self.b, self.a = nn.Parameter(b), nn.Parameter(a)
        self.register_parameter("bias", bias)

    @property
    def weight(self) -> Tensor:
        """The product B A, [out, in]."""
        return self.b @ self.a

    def forward(self, x: Tensor) -> Tensor:
        """The two products, for x [..., in]."""
        return F.linear(F.linear(x, self.a), self.b, self.bias)

    def extra_repr(self) -> str:
        """What `print(model)` shows of a layer."""
        return f"in_features={self.a.shape[1]}, out_features={self.b.shape[0]}, rank={self.a.shape[0]}"


def factorize(
    model: nn.Module,
    ratio: float,
    grams: Mapping[str, Tensor] | None = None,
    skip: Iterable[str] = (),
) -> list[FactoredLayer]:
    """Replaces the linear layers of a model, in place, by products of two thin ones with `ratio` of the parameters.

    Args:
        model: any module that contains `nn.Linear`.
        ratio: parameters of a factored weight to those before, 0 to 1; the rank follows (`rank_for`).
        grams: from `input_grams`: the activation-whitened SVD; None: the plain one.
        skip: patterns of names of layers to keep.

    Returns:
        What became of each linear layer: one that shares its weight, is a subclass or too small for any rank is kept.

    Raises:
        ValueError: the model is itself a linear layer or has none, ratio is out of range, a layer has no Gram matrix,
            or a weight is not finite. The model is then as it was.

    Papers: SVD-LLM, arXiv 2403.07378.
    """
    check_fraction("ratio", ratio)
    patterns = [skip] if isinstance(skip, str) else list(skip)
    layers = {name: module for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    if not layers or isinstance(model, nn.Linear):
        raise ValueError(f"model: a {type(model).__name__}; must be a module that contains linear layers")
    made: dict[int, LowRankLinear] = {}
    reports = []
    for name, layer in layers.items():
        reason, rank = _choice(model, name, layer, ratio, patterns)
        before = after = layer.weight.numel()
        if rank:
            made[id(layer)] = _factored(name, layer, rank, grams)
            after = rank * (layer.out_features + layer.in_features)
        reports.append(FactoredLayer(name, rank, reason, before, after))
    places = [(parent, key, child) for parent in list(model.modules()) for key, child in parent._modules.items()]
    for parent, key, child in places:
        if child is not None and id(child) in made:
            parent._modules[key] = made[id(child)]
    return reports


def _choice(model: nn.Module, name: str, layer: nn.Linear, ratio: float, patterns: list[str]) -> tuple[str, int]:
    """Why a layer is kept, or its rank."""
    if any(fnmatchcase(name, one) for one in patterns):
        return "skipped", 0
    if type(layer) is not nn.Linear:
        return "a subclass of Linear, or masked", 0
    if sum(layer.weight is one for module in model.modules() for one in module._parameters.values()) > 1:
        return "shares its weight with another module", 0
    rank = rank_for(layer.out_features, layer.in_features, ratio)
    return ("" if rank else f"not even rank 1 has {ratio:g} of its parameters"), rank


def _factored(name: str, layer: nn.Linear, rank: int, grams: Mapping[str, Tensor] | None) -> LowRankLinear:
    if grams is not None and name not in grams:
        raise ValueError(f"grams: none for layer {name!r}; must have one for each, or name the layer in skip")
    try:
        if grams is None:
            b, a = svd_factor(layer.weight, rank)
        else:
            b, a = whitened_svd_factor(layer.weight, grams[name], rank)
    except ValueError as error:
        raise ValueError(f"model: layer {name!r} cannot be factorised: {error}") from error
    return LowRankLinear(b, a, layer.bias).train(layer.training)


def input_grams(
    model: nn.Module, batches: Iterable[Any], run: Callable[[nn.Module, Any], object] | None = None
) -> dict[str, Tensor]:
    """X X^T of the inputs of each linear layer over all tokens of all batches, float64 [in, in] by name.

    Args:
        model: a module with `nn.Linear` layers; run without gradients in the mode it is in.
        batches: what the model is called with; a mapping is given as keywords, anything else as the one argument.
        run: how to call the model with a batch instead.

    Raises:
        ValueError: the model has no linear layer.

    Paper: Wang et al., SVD-LLM, arXiv 2403.07378.
    """
    layers = linear_layers(model)
    sums = {name: torch.zeros(m.in_features, m.in_features, dtype=torch.float64) for name, m in layers.items()}

    def seen(name: str, x: Tensor) -> None:
        x = x.double()
        sums[name] = sums[name].to(x.device).addmm(x.T, x)

    watch_inputs(model, layers, batches, seen, run)
    return sums
