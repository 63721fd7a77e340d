"""What the ranks do in the tests of layouts that have several axes: a decoder in stages, each cut over tensor ranks."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from jobs_tensor import CutDecoder, whole
from parallel_model import HIDDEN, LENGTH, VOCAB, batch
from torch import Tensor, nn

from bancada_parallelism import (
    CountCollectives,
    DataParallel,
    Layout,
    PipelineStage,
    ZeroStage1,
    ZeroStage2,
    ZeroStage3,
    clip_grad_norm,
    grad_norm,
    load_whole_state,
    pipeline_schedule,
    vocabulary_parallel_cross_entropy,
    vocabulary_parallel_logits,
    whole_state,
)

SEQUENCES = 4


class Part(nn.Module):
    """The blocks of one stage; the embedding at both ends, at the last as the head."""

    def __init__(self, layout: Layout, dtype: torch.dtype) -> None:
        super().__init__()
        s, last = layout.rank("pipeline"), layout.size("pipeline") - 1
        decoder = CutDecoder(layout, dtype)
        self.layout, self.first = layout, s == 0
        self.embed = decoder.embed if s in (0, last) else None
        blocks = dict(enumerate(decoder.blocks))
        self.blocks = nn.ModuleDict({str(i): block for i, block in blocks.items() if last == 0 or i == s})
        self.norm = decoder.norm if s == last else None

    def forward(self, x: Tensor) -> Tensor:
        if self.first:
            assert self.embed is not None
            x = self.embed(x)
        for block in self.blocks.values():
            x = block(x)
        return x if self.norm is None else self.norm(x)

    def loss_sum(self, x: Tensor, labels: Tensor) -> Tensor:
        assert self.embed is not None
        logits = vocabulary_parallel_logits(x, self.embed.weight, self.layout)
        return vocabulary_parallel_cross_entropy(logits, labels, VOCAB, self.layout).sum()


def one_process(data_ranks: int) -> tuple[dict[str, Tensor], float]:
    """Gradients and their norm of the mean over the data ranks' batches."""
    model = CutDecoder(None, torch.float64)
    (sum(model(*batch(0, rank, SEQUENCES, 2)) for rank in range(data_ranks)) / data_ranks).backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return gradients, torch.stack([g.norm() for g in gradients.values()]).norm().item()


def norm_and_clip(sizes: dict[str, int], micro_batches: int, max_norm: float) -> Any:
    """Norm before and after clipping, the whole clipped gradients, what a gradient that is not finite leads to."""
    layout = Layout.over_ranks(**sizes)
    part = Part(layout, torch.float64)
    parallel = DataParallel(part, layout)
    boundary = (SEQUENCES // micro_batches, LENGTH, HIDDEN)
    table = pipeline_schedule("1f1b", layout.size("pipeline"), micro_batches)
    stage = PipelineStage(parallel, layout, table, boundary=boundary, dtype=torch.float64)
    tokens, labels = batch(0, layout.rank("data"), SEQUENCES, 2)
    cut_labels, valid = labels.chunk(micro_batches), int((labels != -100).sum())
    with parallel.no_sync():
        stage.run(tokens.chunk(micro_batches), lambda x, micro: part.loss_sum(x, cut_labels[micro]) / valid)
    parallel.finish()
    tied = []
    if layout.size("pipeline") > 1:
        assert part.embed is not None
        tied = [part.embed.weight]
        stage.exchange_tied_gradient(part.embed.weight)
    with CountCollectives() as counted:
        norm = clip_grad_norm(part, layout, max_norm, tied=tied)
    named = {name: p.grad for name, p in part.named_parameters() if p.grad is not None}
    gradients = {name: whole(name, gradient, layout) for name, gradient in named.items()}
    after = grad_norm(part, layout, tied=tied)
    kept = next(iter(named.values()))
    if layout.rank("pipeline") == layout.rank("tensor") == 0:
        kept.view(-1)[0] = torch.inf
    before = kept.clone()
    try:
        clip_grad_norm(part, layout, max_norm, tied=tied)
    except FloatingPointError as error:
        return norm, after, gradients, counted.calls, str(error), torch.equal(kept, before)
    return None


def zero_norm(sizes: dict[str, int], micro_batches: int) -> Any:
    """The norm at each ZeRO stage of a model that is cut over tensor ranks too."""
    layout = Layout.over_ranks(**sizes)
    tokens, labels = batch(0, layout.rank("data"), SEQUENCES, 2)
    valid, found = int((labels != -100).sum()), []
    for make in (ZeroStage1, ZeroStage2, ZeroStage3):
        part = Part(layout, torch.float64)
        zero = make(part, layout, **({"units": list(part.blocks.values())} if make is ZeroStage3 else {}))
        with zero.no_sync():
            for x, y in zip(tokens.chunk(micro_batches)[:-1], labels.chunk(micro_batches)[:-1], strict=True):
                loss(part, x, y, valid).backward()
        loss(part, tokens.chunk(micro_batches)[-1], labels.chunk(micro_batches)[-1], valid).backward()
        zero.finish()
        found.append((zero.clip_grad_norm(0.25), zero.grad_norm()))
    return found


def loss(part: Part, x: Tensor, labels: Tensor, valid: int) -> Tensor:
    """Of a part that is the whole model; the head's weight is gathered with the root, so it runs inside of it."""
    part.forward, whole_forward = (lambda x: part.loss_sum(Part.forward(part, x), labels)), part.forward  # type: ignore[method-assign]
    try:
        return part(x) / valid
    finally:
        part.forward = whole_forward  # type: ignore[method-assign]


def save_and_load(sizes: dict[str, int], state: Any) -> Any:
    """The whole state after it was loaded, or (given none) after a step was taken; what a wrong one leads to."""
    layout = Layout.over_ranks(**sizes)
    part = Part(layout, torch.float32)
    optimizer = torch.optim.AdamW(part.parameters(), 1e-2)
    if state is None:
        for parameter in part.parameters():
            parameter.grad = parameter.detach() + 1
        optimizer.step()
        return whole_state(part, layout, optimizer), ""
    with torch.no_grad():
        for parameter in part.parameters():
            parameter.fill_(7)
    load_whole_state(state, part, layout, optimizer)
    found = whole_state(part, layout, optimizer)
    name = next(name for name, _ in part.named_parameters())
    try:
        load_whole_state({"parameters": {**state["parameters"], name: torch.zeros(3)}}, part, layout, optimizer)
    except ValueError as error:
        return found, str(error)
    return found, "nothing was raised"


def refused() -> Any:
    layout = Layout.over_ranks(tensor=dist.get_world_size())
    part = Part(layout, torch.float64)
    calls = {
        "tied": lambda: grad_norm(part, layout, tied=[nn.Parameter(torch.zeros(2))]),
        "max_norm": lambda: clip_grad_norm(part, layout, float("nan")),
    }
    told = []
    with CountCollectives() as counted:
        for call in calls.values():
            try:
                call()
            except ValueError as error:
                told.append(str(error))
    return told, sum(counted.calls.values())
