"""This package's strategies at work on the suites' decoder."""

from __future__ import annotations

import functools
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from bancada_parallelism import (
    AdamWConfig,
    ColumnParallelLinear,
    DataParallel,
    PipelineStage,
    RowParallelLinear,
    VocabularyParallelEmbedding,
    ZeroStage1,
    ZeroStage2,
    ZeroStage3,
    checkpoint,
    copy_to_ranks,
    cut_parameters,
    pipeline_schedule,
    vocabulary_parallel_cross_entropy,
)
from bancada_parallelism._suites import decoder
from bancada_parallelism._suites.engine import Engine, PipelineEngine, TorchEngine, layout, union


class Replicated(TorchEngine):
    """`DataParallel` and torch's fused AdamW."""

    recompute = staticmethod(checkpoint)

    def start(self) -> None:
        """The whole model on every rank."""
        self.loss_share = 1 / self.ranks.world_size
        self.optimize(decoder.part(self.case, self.given, around=self.around), fused=True)
        self._parallel = DataParallel(self.module, layout(self.ranks.device.type, data=self.ranks.world_size))

    def update(self, tokens: Tensor, labels: Tensor) -> Tensor:
        """One step of data parallelism."""
        self.optimizer.zero_grad()
        loss = decoder.loss(self._parallel(self.mine(tokens)), self.mine(labels))
        loss.backward()  # type: ignore[no-untyped-call]
        self._parallel.finish()
        self.optimizer.step()
        return loss.detach()


class Sharded(Engine):
    """ZeRO, stage 1, 2 or 3, with this package's AdamW."""

    recompute = staticmethod(checkpoint)

    def __init__(self, *args: Any, stage: int, **options: Any) -> None:
        self._stage = stage
        super().__init__(*args, **options)

    def start(self) -> None:
        """At stage 3 every block is a unit, and the rest is one more."""
        self.loss_share = 1 / self.ranks.world_size
        model = decoder.part(self.case, self.given, around=self.around)
        where, config = layout(self.ranks.device.type, data=self.ranks.world_size), AdamWConfig(**decoder.ADAMW)
        self._zero: ZeroStage1 | ZeroStage2 | ZeroStage3
        if self._stage == 3:
            self._zero = ZeroStage3(model, where, config, units=list(model.blocks.values()))
        else:
            self._zero = (ZeroStage1 if self._stage == 1 else ZeroStage2)(model, where, config)

    def update(self, tokens: Tensor, labels: Tensor) -> Tensor:
        """One step of ZeRO."""
        zero, rank, ranks = self._zero, self.ranks.rank, self.ranks.world_size
        zero.zero_grad()
        loss = decoder.loss(zero.module(tokens.chunk(ranks)[rank]), labels.chunk(ranks)[rank])
        loss.backward()  # type: ignore[no-untyped-call]
        zero.finish()
        zero.step()
        return loss.detach()

    def moments(self) -> dict[str, Tensor]:
        """Gathered from the shards."""
        found: dict[str, Tensor] = self._zero.full_state()["exp_avg"]
        return found

    def parameters(self) -> dict[str, Tensor]:
        """Gathered from the shards."""
        found: dict[str, Tensor] = self._zero.full_state()["parameters"]
        return found

    def state_bytes(self) -> dict[str, int]:
        """As ZeRO counts them from its own tensors."""
        state = self._zero.state_bytes()
        return {"parameters": state.parameters, "gradients": state.gradients, "optimizer": state.optimizer}

    def restart(self) -> None:
        """By the state of a run that has taken no step."""
        first = {name: self.given[f"parameters.{name}"] for name in decoder.shapes_of(self.case)}
        zeros = {name: torch.zeros_like(value) for name, value in first.items()}
        self._zero.load_full_state({"steps": 0, "parameters": first, "exp_avg": zeros, "exp_avg_sq": zeros})
        self._zero.zero_grad()


class TensorCut(TorchEngine):
    """Layers cut by columns and rows, embedding and loss by the vocabulary; torch's fused AdamW."""

    recompute = staticmethod(checkpoint)

    def start(self) -> None:
        """q, k and v share the all-reduce of their input's gradient."""
        self.loss_share = 1 / self.ranks.world_size
        self._layout = where = layout(self.ranks.device.type, tensor=self.ranks.world_size)
        model = decoder.part(self.case, self.given, around=self.around)
        assert model.embed is not None and model.head is not None
        model.embed = VocabularyParallelEmbedding(model.embed, where)  # type: ignore[assignment]
        model.head = ColumnParallelLinear(model.head, where)  # type: ignore[assignment]
        for block in model.blocks.values():
            assert isinstance(block, decoder.Block)
            block.share = functools.partial(copy_to_ranks, group=where.group("tensor"))
            for name in ("q", "k", "v", "up"):
                setattr(block, name, ColumnParallelLinear(getattr(block, name), where, copied=name != "up"))
            for name in ("out", "down"):
                setattr(block, name, RowParallelLinear(getattr(block, name), where))
        self.optimize(model, fused=True)

    def update(self, tokens: Tensor, labels: Tensor) -> Tensor:
        """One step on the whole batch, of which every rank computes its features."""
        self.optimizer.zero_grad()
        logits = self.module(tokens)
        loss = vocabulary_parallel_cross_entropy(logits, labels, decoder.VOCAB, self._layout).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return loss.detach()

    def moments(self) -> dict[str, Tensor]:
        """Joined from the shards."""
        return {name: self._join(p, self.moment(p)) for name, p in self.module.named_parameters()}

    def parameters(self) -> dict[str, Tensor]:
        """Joined from the shards."""
        return {name: self._join(p, p.detach()) for name, p in self.module.named_parameters()}

    def _join(self, parameter: nn.Parameter, shard: Tensor) -> Tensor:
        dim = cut_parameters(self.module).get(parameter)
        if dim is None:
            return shard
        shards = [torch.empty_like(shard, memory_format=torch.contiguous_format) for _ in range(self.ranks.world_size)]
        dist.all_gather(shards, shard.contiguous())
        return torch.cat(shards, dim)


class Staged(PipelineEngine):
    """A pipeline by GPipe's or 1F1B's table; torch's fused AdamW."""

    recompute = staticmethod(checkpoint)

    def start(self) -> None:
        """Blocks are dealt out evenly, embedding and head to the ends."""
        case, count, micro = self.case, self.ranks.world_size, self.case.number("micro_batches")
        blocks = decoder.stages(case.number("layers"), count)[self.ranks.rank]
        model = decoder.part(case, self.given, blocks, self.around)
        boundary = (case.number("batch") // micro, case.number("seq_len"), case.number("hidden"))
        where, dtype = layout(self.ranks.device.type, pipeline=count), next(model.parameters()).dtype
        self._stage = PipelineStage(
            model, where, pipeline_schedule(self._schedule, count, micro), boundary=boundary, dtype=dtype,
            device=self.ranks.device,
        )  # fmt: skip
        self.optimize(model, fused=True)

    def run(self, tokens: Tensor, labels: Tensor) -> Tensor:
        """Forward and backward of the batch; its loss on the last stage, 0 elsewhere."""
        micro = self.case.number("micro_batches")
        cut = labels.chunk(micro)
        losses = self._stage.run(tokens.chunk(micro), lambda y, number: decoder.loss(y, cut[number]) / micro)
        return torch.stack(losses).sum() if losses else torch.zeros((), device=self.ranks.device)

    def moments(self) -> dict[str, Tensor]:
        """Put together from the stages."""
        return union(super().moments())

    def parameters(self) -> dict[str, Tensor]:
        """Put together from the stages."""
        return union(super().parameters())
