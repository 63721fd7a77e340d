"""Global norm and clipping: each element of each gradient counts once, wherever its copies lie."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn

from bancada_parallelism._check import check_number
from bancada_parallelism.layout import Layout
from bancada_parallelism.tensor.cut import cut_parameters


def counted_parameters(module: nn.Module, layout: Layout, tied: Collection[nn.Parameter] = ()) -> list[nn.Parameter]:
    """The parameters of this rank's part of a model that this rank counts in the global norm.

    A cut parameter counts on each tensor rank, one that is whole on all of them at the first only; a tied one, which
    two pipeline stages hold, at the first stage only.

    Raises:
        ValueError: `tied` holds what is no parameter of the module.
    """
    parameters = list(module.parameters())
    own = {id(parameter) for parameter in parameters}
    for parameter in tied:
        if id(parameter) not in own:
            raise ValueError(f"tied: a tensor of shape {list(parameter.shape)} is no parameter of the module")
    cut, once = {id(p) for p in cut_parameters(module)}, {id(p) for p in tied}
    first_tensor, first_stage = layout.rank("tensor") == 0, layout.rank("pipeline") == 0
    return [p for p in parameters if (first_tensor or id(p) in cut) and (first_stage or id(p) not in once)]


def norm_over(gradients: Sequence[Tensor], groups: Sequence[dist.ProcessGroup], device: torch.device) -> float:
    """The norm of the gradients of all ranks of the groups, each group a dimension of a grid; in fp64."""
    norms = list(torch._foreach_norm(list(gradients))) if gradients else []
    total = torch.stack(norms).double().square().sum() if norms else torch.zeros((), dtype=torch.float64, device=device)
    for group in groups:
        dist.all_reduce(total, group=group)
    return math.sqrt(total.item())


def model_groups(layout: Layout) -> list[dist.ProcessGroup]:
    """The groups over which one model lies in parts."""
    return [layout.group(axis) for axis in ("tensor", "pipeline") if layout.size(axis) > 1]


def factor_for(norm: float, max_norm: float) -> float:
    """What gradients of this norm are scaled by; FloatingPointError for a norm that is not finite."""
    if not math.isfinite(norm):
        raise FloatingPointError(f"the norm of the gradients is {norm}")
    return max_norm / norm if norm > max_norm else 1.0


def grad_norm(module: nn.Module, layout: Layout, *, tied: Collection[nn.Parameter] = ()) -> float:
    """sqrt(sum of squares of all gradients of the model), each element once; the same on every rank.

    Args:
        module: this rank's part of the model, with gradients that are averaged over the data ranks already.
        layout: the model lies over the ranks of its `tensor` and `pipeline` axes.
        tied: parameters that the first and the last stage both hold, after `exchange_tied_gradient`.

    A collective of one number along each of the two axes. A parameter without a gradient counts as zeros.

    Raises:
        ValueError: `tied` holds what is no parameter of the module; before the collective.
    """
    counted = [p.grad for p in counted_parameters(module, layout, tied) if p.grad is not None]
    device = next((p.device for p in module.parameters()), torch.device("cpu"))
    return norm_over(counted, model_groups(layout), device)


def clip_grad_norm(module: nn.Module, layout: Layout, max_norm: float, *, tied: Collection[nn.Parameter] = ()) -> float:
    """g <- g min(1, max_norm / norm), with the global norm of `grad_norm`; the norm before. A collective.

    Raises:
        ValueError: `max_norm` is no finite number of at least 0, or as `grad_norm`; before the collective.
        FloatingPointError: the norm is not finite; on every rank, and the gradients stay as they were.

    Paper: Pascanu et al., On the difficulty of training recurrent neural networks, arXiv 1211.5063.
    """
    check_number("max_norm", max_norm, 0)
    norm = grad_norm(module, layout, tied=tied)
    gradients = [p.grad for p in module.parameters() if p.grad is not None]
    if (factor := factor_for(norm, max_norm)) != 1.0 and gradients:
        torch._foreach_mul_(gradients, factor)
    return norm
