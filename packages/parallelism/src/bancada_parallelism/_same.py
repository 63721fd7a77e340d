"""Making sure that every rank of a group holds the same module before tensors are exchanged."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import nn


def broadcast_module(module: nn.Module, group: dist.ProcessGroup) -> None:
    """Parameters and buffers of the group's first rank, on every rank.

    Raises:
        ValueError: names, shapes, dtypes or `requires_grad` differ between ranks; raised on every rank.
    """
    tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    mine = {name: (tuple(t.shape), str(t.dtype), t.requires_grad) for name, t in tensors.items()}
    everyones: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(everyones, mine, group=group)
    for rank, theirs in enumerate(everyones):
        if theirs != everyones[0]:
            names = sorted(n for n in theirs.keys() | everyones[0].keys() if theirs.get(n) != everyones[0].get(n))
            raise ValueError(
                f"module: rank {rank} differs from rank 0 in {', '.join(names)}; "
                "names, shapes, dtypes and requires_grad must be the same on every rank"
            )
    with torch.no_grad():
        for tensor in tensors.values():
            dist.broadcast(tensor.detach(), group=group, group_src=0)
