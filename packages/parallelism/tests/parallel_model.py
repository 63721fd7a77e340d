"""A small decoder with tied embeddings, and its data: what every strategy must train as one process does."""

from __future__ import annotations

import torch
from torch import Tensor, nn

VOCAB, HIDDEN, HEADS, LENGTH = 23, 16, 4, 7


class Block(nn.Module):
    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
        self.qkv, self.out = nn.Linear(HIDDEN, 3 * HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.up, self.down = nn.Linear(HIDDEN, 3 * HIDDEN + 1), nn.Linear(3 * HIDDEN + 1, HIDDEN)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.dropout(self.out(mixed.transpose(1, 2).reshape(batch, length, HIDDEN)))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Decoder(nn.Module):
    """Tied embedding and head; a frozen vector; a layer that may go unused."""

    def __init__(self, layers: int = 2) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCAB, HIDDEN)
        self.blocks = nn.ModuleList(Block() for _ in range(layers))
        self.norm = nn.LayerNorm(HIDDEN)
        self.head = nn.Linear(HIDDEN, VOCAB, bias=False)
        self.head.weight = self.embed.weight
        self.spare = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.frozen = nn.Parameter(torch.zeros(HIDDEN), requires_grad=False)

    def forward(self, tokens: Tensor, spare: bool = False) -> Tensor:
        x = self.embed(tokens) + self.frozen
        for block in self.blocks:
            x = block(x)
        return self.head(self.spare(self.norm(x)) if spare else self.norm(x))


def decoder(dtype: torch.dtype, seed: int = 0, layers: int = 2) -> Decoder:
    torch.manual_seed(seed)
    return Decoder(layers).to(dtype)


def batch(step: int, rank: int, sequences: int, ignored: int = 0) -> tuple[Tensor, Tensor]:
    """Tokens and labels [sequences, length], of which the first `ignored` of each sequence are -100."""
    generator = torch.Generator().manual_seed(1000 * step + rank)
    tokens = torch.randint(0, VOCAB, (sequences, LENGTH), generator=generator)
    labels = torch.randint(0, VOCAB, (sequences, LENGTH), generator=generator)
    labels[:, :ignored] = -100
    return tokens, labels


def loss_sum(module: nn.Module, data: tuple[Tensor, Tensor], spare: bool = False) -> tuple[Tensor, int]:
    tokens, labels = data
    logits = module(tokens, spare=spare)
    total = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100, reduction="sum")
    return total, int((labels != -100).sum())
