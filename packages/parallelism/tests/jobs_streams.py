"""What the ranks do in the tests of random streams: a cut feed-forward block with dropout inside and after it."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from parallel_model import HIDDEN
from torch import Tensor, nn

from bancada_parallelism import ColumnParallelLinear, Layout, RandomStreams, RowParallelLinear, checkpoint

P, BLOCKS = 0.3, 2


def masks(sizes: dict[str, int], draws: int) -> Any:
    layout = Layout.over_ranks(**sizes)
    streams = RandomStreams(5, layout)
    outside = torch.get_rng_state()
    found: dict[str, list[Tensor]] = {"replicated": [], "cut": []}
    for _ in range(draws):
        with streams.replicated():
            found["replicated"].append(nn.functional.dropout(torch.ones(64), P))
        with streams.cut():
            found["cut"].append(nn.functional.dropout(torch.ones(64), P))
    assert torch.equal(torch.get_rng_state(), outside)
    return {kind: torch.stack(drawn) for kind, drawn in found.items()}


class Block(nn.Module):
    """x + dropout(row(gelu(column(x)))): the dropped activation is whole on every tensor rank."""

    def __init__(self, streams: RandomStreams) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(HIDDEN, 4 * HIDDEN), nn.Linear(4 * HIDDEN, HIDDEN)
        self.streams = streams

    def cut(self, layout: Layout) -> None:
        self.up = ColumnParallelLinear(self.up, layout)  # type: ignore[assignment]
        self.down = RowParallelLinear(self.down, layout)  # type: ignore[assignment]

    def forward(self, x: Tensor) -> Tensor:
        y = self.down(nn.functional.gelu(self.up(x)))
        with self.streams.replicated():
            return x + nn.functional.dropout(y, P)


def train(layout: Layout, checkpointed: bool, steps: int = 2) -> Any:
    """Outputs of each step, the input's gradients, and where the streams stand at the end."""
    torch.manual_seed(0)
    streams = RandomStreams(5, layout)
    blocks = nn.ModuleList(Block(streams) for _ in range(BLOCKS)).double()
    if layout.tensor > 1:
        for block in blocks:
            block.cut(layout)  # type: ignore[operator]
    told = []
    for step in range(steps):
        x = torch.randn(3, HIDDEN, dtype=torch.float64, generator=torch.Generator().manual_seed(step)).requires_grad_()
        y = x
        for block in blocks:
            y = checkpoint(streams.replayed(block), y) if checkpointed else block(y)
        y.square().sum().backward()
        assert x.grad is not None
        told += [y.detach(), x.grad]
    return told, streams.state()


def tensor_parallel(checkpointed: bool) -> Any:
    return train(Layout.over_ranks(tensor=dist.get_world_size()), checkpointed)
