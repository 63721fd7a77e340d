"""What the ranks do in the tests of the pipeline: a decoder in stages, embedding and head tied across its ends."""

from __future__ import annotations

import itertools
from typing import Any

import torch
import torch.distributed as dist
from parallel_model import HIDDEN, LENGTH, Decoder, batch, decoder
from torch import Tensor, nn

from bancada_parallelism import CountCollectives, Layout, PipelineStage, pipeline_schedule

SEQUENCES = 2


class Stage(nn.Module):
    """Some blocks of a decoder, after its embedding at the first stage and before its head at the last."""

    def __init__(self, whole: Decoder, blocks: range, first: bool, last: bool) -> None:
        super().__init__()
        self.embed = whole.embed if first else None
        self.blocks = nn.ModuleDict({str(i): whole.blocks[i] for i in blocks})
        self.norm, self.head = (whole.norm, whole.head) if last else (None, None)

    def forward(self, x: Tensor) -> Tensor:
        x = x if self.embed is None else self.embed(x)
        for block in self.blocks.values():
            x = block(x)
        return x if self.head is None or self.norm is None else self.head(self.norm(x))


def divide(layers: int, stages: int) -> list[range]:
    """Uneven where `stages` does not divide `layers`: the last stages have fewer."""
    bounds = [-(-layers * s // stages) for s in range(stages + 1)]
    return [range(a, b) for a, b in itertools.pairwise(bounds)]


def train(schedule: str, micro_batches: int, layers: int, dtype: torch.dtype, steps: int) -> Any:
    stages = dist.get_world_size()
    layout = Layout.over_ranks(pipeline=stages)
    s = layout.rank("pipeline")
    module = Stage(decoder(dtype, layers=layers), divide(layers, stages)[s], s == 0, s == stages - 1)
    table = pipeline_schedule(schedule, stages, micro_batches)
    stage = PipelineStage(module, layout, table, boundary=(SEQUENCES, LENGTH, HIDDEN), dtype=dtype)
    optimizer = torch.optim.AdamW(module.parameters(), 1e-2, (0.9, 0.95), 1e-3, 0.1)
    told = []
    for step in range(steps):
        data = [batch(step, micro, SEQUENCES, micro % 3) for micro in range(micro_batches)]
        tokens = sum(int((labels != -100).sum()) for _, labels in data)

        def loss(logits: Tensor, micro: int, data: Any = data, tokens: int = tokens) -> Tensor:
            labels = data[micro][1].flatten()
            return nn.functional.cross_entropy(logits.flatten(0, 1), labels, reduction="sum") / tokens

        with CountCollectives() as counted:
            losses = stage.run([x for x, _ in data], loss)
        if s in (0, stages - 1):
            tied = module.embed.weight if module.embed is not None else module.head.weight  # type: ignore[union-attr]
            stage.exchange_tied_gradient(tied)
        named = {n.replace("head", "embed"): p for n, p in module.named_parameters()}
        gradients = {n: p.grad.clone() for n, p in named.items() if p.grad is not None}
        told.append((sum(x.item() for x in losses), gradients))
        optimizer.step()
        optimizer.zero_grad()
    return told, float(counted.sent.get("send", 0)), counted.calls["send"]


def refused(what: str) -> Any:
    layout = Layout.over_ranks(pipeline=dist.get_world_size())
    table = pipeline_schedule("gpipe", 2, 2)
    try:
        with CountCollectives() as counted:
            if what == "stages":
                PipelineStage(nn.Identity(), layout, pipeline_schedule("gpipe", 3, 2), boundary=(1,))
            elif what == "order":
                wrong = (table[0], tuple(reversed(table[1])))
                PipelineStage(nn.Identity(), layout, wrong, boundary=(1,))
            else:
                PipelineStage(nn.Identity(), layout, table, boundary=(1,)).run(None, None)
    except ValueError as error:
        return str(error), sum(counted.calls.values())
    return None
