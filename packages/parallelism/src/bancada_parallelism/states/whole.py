"""Whole states by parameter name: what any layout of tensor and pipeline ranks gives, and any other takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from bancada_parallelism.layout import Layout
from bancada_parallelism.tensor.cut import cut_parameters

State = dict[str, dict[str, Tensor]]
PARAMETERS = "parameters"


def whole_state(module: nn.Module, layout: Layout, optimizer: torch.optim.Optimizer | None = None) -> State:
    """`{"parameters": {name: tensor}, KEY: {name: tensor}, ...}` of the whole model, on every rank; a collective.

    Args:
        module: this rank's part; its parameters have the names that they have in the whole model.
        layout: the model lies over the ranks of its `tensor` and `pipeline` axes.
        optimizer: its states are KEYs (`exp_avg`, `step`, ...): what has a parameter's shape is cut as it is.

    Shards are joined along the dimension that their layer's `CUT` names, without what pads a vocabulary.
    """
    mine: State = {PARAMETERS: {}}
    for name, parameter, size in _sized(module, layout):
        join = _joiner(parameter, size, layout)
        mine[PARAMETERS][name] = join(parameter.detach())
        for key, value in sorted((optimizer.state.get(parameter, {}) if optimizer else {}).items()):
            if isinstance(value, Tensor):
                mine.setdefault(key, {})[name] = join(value) if value.shape == parameter.shape else value.clone()
    if layout.size("pipeline") == 1:
        return mine
    stages: list[Any] = [None] * layout.size("pipeline")
    dist.all_gather_object(stages, mine, group=layout.group("pipeline"))
    return {key: {n: t for stage in stages for n, t in stage.get(key, {}).items()} for key in _keys(stages)}


def load_whole_state(
    state: Mapping[str, Mapping[str, Tensor]], module: nn.Module, layout: Layout,
    optimizer: torch.optim.Optimizer | None = None,
) -> None:  # fmt: skip
    """Takes this rank's part of a `whole_state`, of whatever layout it was; no communication.

    Args:
        module, layout, optimizer: as for `whole_state`; a state that holds nothing of the optimizer's clears it.

    Raises:
        ValueError: a parameter that the state lacks, or has in another shape; nothing is changed then.
    """
    found = list(_sized(module, layout))
    for name, parameter, size in found:
        wanted = list(parameter.shape)
        if size is not None:
            wanted[size[0]] = size[1]
        there = state.get(PARAMETERS, {}).get(name)
        if there is None or list(there.shape) != wanted:
            shape = "missing" if there is None else f"shape {list(there.shape)}"
            raise ValueError(f"state['{PARAMETERS}'][{name!r}]: {shape}; must be {wanted}")
    for name, parameter, size in found:
        whole = state[PARAMETERS][name]
        with torch.no_grad():
            parameter.copy_(_part(whole, size, layout))
        if optimizer is not None:
            held = {key: named[name] for key, named in state.items() if key != PARAMETERS and name in named}
            optimizer.state[parameter] = {
                key: (_part(value, size, layout) if value.shape == whole.shape else value).clone()
                for key, value in held.items()
            }


Size = tuple[int, int] | None
"""Along which dimension a parameter is cut, and how long the whole is there."""


def _sized(module: nn.Module, layout: Layout) -> Iterator[tuple[str, nn.Parameter, Size]]:
    cut, ranks = cut_parameters(module), layout.size("tensor")
    padded = {
        getattr(inner, name): size
        for inner in module.modules()
        for name, size in getattr(inner, "whole_sizes", {}).items()
    }
    for name, parameter in module.named_parameters():
        dim = cut.get(parameter)
        size = None if dim is None else (dim, padded.get(parameter, parameter.shape[dim] * ranks))
        yield name, parameter, size


def _joiner(parameter: nn.Parameter, size: Size, layout: Layout) -> Callable[[Tensor], Tensor]:
    if size is None or layout.size("tensor") == 1:
        return lambda tensor: tensor.detach().clone() if size is None else tensor.detach().narrow(*_first(size)).clone()

    def join(tensor: Tensor) -> Tensor:
        shard = tensor.detach().contiguous()
        shards = [torch.empty_like(shard) for _ in range(layout.size("tensor"))]
        dist.all_gather(shards, shard, group=layout.group("tensor"))
        return torch.cat(shards, size[0]).narrow(*_first(size)).clone()

    return join


def _first(size: tuple[int, int]) -> tuple[int, int, int]:
    return size[0], 0, size[1]


def _part(whole: Tensor, size: Size, layout: Layout) -> Tensor:
    """This tensor rank's shard, padded with zeros where the ranks do not divide the whole."""
    if size is None:
        return whole
    dim, length = size
    ranks = layout.size("tensor")
    rows = -(-length // ranks)
    first = min(layout.rank("tensor") * rows, length)
    shard = whole.narrow(dim, first, min(rows, length - first))
    missing = rows - shard.shape[dim]
    if not missing:
        return shard
    shape = list(shard.shape)
    shape[dim] = missing
    return torch.cat([shard, shard.new_zeros(shape)], dim)


def _keys(stages: list[State]) -> list[str]:
    return list(dict.fromkeys(key for stage in stages for key in stage))
