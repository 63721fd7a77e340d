"""A decoder whose layers are either whole or cut over tensor ranks; what the ranks do in the tests of both."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from parallel_model import HEADS, HIDDEN, VOCAB, batch
from torch import Tensor, nn

from bancada_parallelism import (
    ColumnParallelLinear,
    CountCollectives,
    Layout,
    RowParallelLinear,
    VocabularyParallelEmbedding,
    copy_to_ranks,
    vocabulary_parallel_cross_entropy,
    vocabulary_parallel_logits,
)

COLUMNS, ROWS = ("q", "k", "v", "up"), ("out", "down")


class CutBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
        self.q, self.v, self.out = (nn.Linear(HIDDEN, HIDDEN) for _ in range(3))
        self.k = nn.Linear(HIDDEN, HIDDEN, bias=False)  # a bias of the keys has a gradient of 0, and rounding
        self.up, self.down = nn.Linear(HIDDEN, 32, bias=False), nn.Linear(32, HIDDEN)

        self.group: dist.ProcessGroup | None = None

    def cut(self, layout: Layout) -> None:
        self.group = layout.group("tensor")
        for name in COLUMNS:
            setattr(self, name, ColumnParallelLinear(getattr(self, name), layout, copied=name != "up"))
        for name in ROWS:
            setattr(self, name, RowParallelLinear(getattr(self, name), layout))

    def forward(self, x: Tensor) -> Tensor:
        normed = self.norm1(x)
        if self.group is not None:
            normed = copy_to_ranks(normed, self.group)
        q, k, v = (
            layer(normed).unflatten(-1, (-1, HIDDEN // HEADS)).transpose(1, 2) for layer in (self.q, self.k, self.v)
        )
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class CutDecoder(nn.Module):
    """Embedding and head are one weight, used twice."""

    def __init__(self, layout: Layout | None, dtype: torch.dtype) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layout = layout
        self.embed, self.norm = nn.Embedding(VOCAB, HIDDEN), nn.LayerNorm(HIDDEN)
        self.blocks = nn.ModuleList(CutBlock() for _ in range(2))
        self.to(dtype)
        if layout is not None:
            self.embed = VocabularyParallelEmbedding(self.embed, layout)  # type: ignore[assignment]
            for block in self.blocks:
                block.cut(layout)

    def forward(self, tokens: Tensor, labels: Tensor) -> Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        if self.layout is None:
            logits = nn.functional.linear(x, self.embed.weight)
            total = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum")
        else:
            logits = vocabulary_parallel_logits(x, self.embed.weight, self.layout)
            total = vocabulary_parallel_cross_entropy(logits, labels, VOCAB, self.layout).sum()
        return total / (labels != -100).sum()


def whole(name: str, tensor: Tensor, layout: Layout) -> Tensor:
    """A parameter or gradient joined from its shards."""
    layer = name.split(".")[-2]
    bias_of_row = layer in ROWS and name.endswith("bias")
    if bias_of_row or layer not in (*COLUMNS, *ROWS, "embed"):
        return tensor.clone()
    shards = [torch.empty_like(tensor) for _ in range(layout.size("tensor"))]
    dist.all_gather(shards, tensor.contiguous(), group=layout.group("tensor"))
    joined = torch.cat(shards, dim=1 if layer in ROWS else 0)
    return joined[:VOCAB] if layer == "embed" else joined


def five_steps(layout: Layout | None, dtype: torch.dtype) -> Any:
    model = CutDecoder(layout, dtype)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2, (0.9, 0.95), 1e-3, 0.1)
    told = []
    for step in range(5):
        loss = model(*batch(step, 0, 3, ignored=2))
        loss.backward()
        named = {name: p.grad for name, p in model.named_parameters()}
        told.append((loss.item(), {n: g.clone() if layout is None else whole(n, g, layout) for n, g in named.items()}))
        optimizer.step()
        optimizer.zero_grad()
    return told


def train(dtype: torch.dtype) -> Any:
    return five_steps(Layout.over_ranks(tensor=dist.get_world_size()), dtype)


def block_traffic() -> Any:
    layout = Layout.over_ranks(tensor=dist.get_world_size())
    block = CutBlock()
    block.cut(layout)
    x = torch.randn(2, 5, HIDDEN, requires_grad=True)
    with CountCollectives() as forward:
        y = block(x)
    with CountCollectives() as backward:
        y.sum().backward()
    return [(counted.calls, float(counted.total_sent)) for counted in (forward, backward)]


def cross_entropy(logits: Tensor, labels: Tensor, dlosses: Tensor) -> Any:
    layout = Layout.over_ranks(tensor=dist.get_world_size())
    vocab = logits.shape[-1]
    rows = -(-vocab // layout.tensor)
    padded = nn.functional.pad(logits, (0, rows * layout.tensor - vocab), value=1e4)
    shard = padded.chunk(layout.tensor, -1)[layout.rank("tensor")].clone().requires_grad_()
    with CountCollectives() as counted:
        losses = vocabulary_parallel_cross_entropy(shard, labels, vocab, layout)
        (found,) = torch.autograd.grad(losses, shard, dlosses.to(losses.dtype))
    shards = [torch.empty_like(found) for _ in range(layout.tensor)]
    dist.all_gather(shards, found)
    joined = torch.cat(shards, -1)
    return losses.detach(), joined[..., :vocab], joined[..., vocab:], counted.calls


def refused(what: str) -> Any:
    layout = Layout.over_ranks(tensor=dist.get_world_size())
    labels, logits = torch.zeros(3, dtype=torch.int64), torch.zeros(3, 4)
    embedding = VocabularyParallelEmbedding(nn.Embedding(7, 2), layout)
    calls = {
        "out_features": lambda: ColumnParallelLinear(nn.Linear(4, 3), layout),
        "in_features": lambda: RowParallelLinear(nn.Linear(3, 4), layout),
        "shape": lambda: vocabulary_parallel_cross_entropy(logits[:, :3], labels, 7, layout),
        "label": lambda: vocabulary_parallel_cross_entropy(logits, labels + 7, 7, layout),
        "ignored": lambda: vocabulary_parallel_cross_entropy(logits, labels - 1, 7, layout),
        "dtype": lambda: vocabulary_parallel_cross_entropy(logits, labels.int(), 7, layout),
        "token": lambda: embedding(labels - 1),
        "padding_idx": lambda: VocabularyParallelEmbedding(nn.Embedding(7, 2, padding_idx=0), layout),
    }
    with CountCollectives() as counted:
        try:
            calls[what]()
        except ValueError as error:
            return str(error), sum(counted.calls.values())
    return None
