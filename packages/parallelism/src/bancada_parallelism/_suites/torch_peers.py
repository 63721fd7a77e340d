"""What torch, and accelerate around it, offer for the same: DDP, ZeRO, FSDP2, DTensor, pipelining."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from bancada_parallelism._suites import decoder
from bancada_parallelism._suites.engine import PipelineEngine, TorchEngine, layout, union


class Wrapped(TorchEngine):
    """DistributedDataParallel and torch's fused AdamW."""

    def start(self) -> None:
        """The whole model on every rank."""
        self.loss_share = 1 / self.ranks.world_size
        self.optimize(decoder.part(self.case, self.given, around=self.around), fused=True)
        self.model: nn.Module = nn.parallel.DistributedDataParallel(self.module)

    def update(self, tokens: Tensor, labels: Tensor) -> Tensor:
        """One step of data parallelism."""
        self.optimizer.zero_grad()
        loss = decoder.loss(self.model(self.mine(tokens)), self.mine(labels))
        self.backward(loss)
        self.optimizer.step()
        return loss.detach()

    def backward(self, loss: Tensor) -> None:
        """Gradients of this rank's loss."""
        loss.backward()  # type: ignore[no-untyped-call]


class Accelerated(Wrapped):
    """accelerate's `prepare` and `backward`, which run DistributedDataParallel."""

    def start(self) -> None:
        """As a training script writes it."""
        from accelerate import Accelerator  # type: ignore[import-not-found, import-untyped, unused-ignore]

        self.loss_share = 1 / self.ranks.world_size
        self.optimize(decoder.part(self.case, self.given, around=self.around), fused=True)
        self._accelerator = Accelerator(cpu=self.ranks.device.type == "cpu", mixed_precision="no")
        self.model = self._accelerator.prepare(self.module)

    def backward(self, loss: Tensor) -> None:
        """Gradients of this rank's loss."""
        self._accelerator.backward(loss)


class Redundant(Wrapped):
    """DistributedDataParallel, with the optimizer's states dealt out by whole parameters."""

    def start(self) -> None:
        """A rank steps the parameters it owns and sends them to the others."""
        from torch.distributed.optim import ZeroRedundancyOptimizer

        super().start()
        self.optimizer = ZeroRedundancyOptimizer(
            self.module.parameters(), optimizer_class=torch.optim.AdamW, **decoder.ADAMW, fused=True
        )

    @property
    def _own(self) -> Any:
        return self.optimizer.optim  # type: ignore[attr-defined]

    def moment(self, parameter: nn.Parameter) -> Tensor:
        """From the owner to all."""
        state: dict[str, Tensor] = self._own.state.get(parameter, {})
        found = state.get("exp_avg", torch.zeros_like(parameter)).clone()
        dist.all_reduce(found)
        return found

    def state_bytes(self) -> dict[str, int]:
        """With the states of the parameters that this rank owns."""
        states = [value for state in self._own.state.values() for value in state.values() if value.dim()]
        return super().state_bytes() | {"optimizer": sum(value.numel() * value.element_size() for value in states)}

    def restart(self) -> None:
        """In place."""
        super().restart()
        self._own.state.clear()


class FullySharded(TorchEngine):
    """FSDP2: `fully_shard` of every block and of the rest."""

    def start(self) -> None:
        """Each block is a group of parameters that is gathered and sharded together."""
        from torch.distributed.fsdp import fully_shard

        self.loss_share = 1 / self.ranks.world_size
        mesh = layout(self.ranks.device.type, data=self.ranks.world_size).mesh
        assert mesh is not None
        model = decoder.part(self.case, self.given, around=self.around)
        for block in model.blocks.values():
            fully_shard(block, mesh=mesh["data"])
        fully_shard(model, mesh=mesh["data"])
        self.optimize(model, foreach=True)

    def update(self, tokens: Tensor, labels: Tensor) -> Tensor:
        """One step of sharded data parallelism."""
        self.optimizer.zero_grad()
        loss = decoder.loss(self.module(self.mine(tokens)), self.mine(labels))
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return loss.detach()


class DistributedTensors(TorchEngine):
    """`parallelize_module` with column- and row-wise styles, and `loss_parallel`."""

    def start(self) -> None:
        """The plan of torch's tutorial: the embedding by rows, the head by columns."""
        from torch.distributed.tensor import Replicate
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
        from torch.distributed.tensor.parallel.style import ParallelStyle

        self.loss_share = 1 / self.ranks.world_size
        mesh = layout(self.ranks.device.type, tensor=self.ranks.world_size).mesh
        assert mesh is not None
        model = decoder.part(self.case, self.given, around=self.around)
        for block in model.blocks.values():
            plan: dict[str, ParallelStyle] = {name: ColwiseParallel() for name in ("q", "k", "v", "up")}
            plan |= {name: RowwiseParallel() for name in ("out", "down")}
            parallelize_module(block, mesh["tensor"], plan)
        ends: dict[str, ParallelStyle] = {
            "embed": RowwiseParallel(input_layouts=Replicate()),
            "head": ColwiseParallel(use_local_output=False),
        }
        parallelize_module(model, mesh["tensor"], ends)
        self.optimize(model, foreach=True)

    def update(self, tokens: Tensor, labels: Tensor) -> Tensor:
        """One step on the whole batch."""
        from torch.distributed.tensor.parallel import loss_parallel

        self.optimizer.zero_grad()
        with loss_parallel():
            loss = decoder.loss(self.module(tokens), labels)
            loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        found: Tensor = loss.detach()
        return found.full_tensor() if hasattr(found, "full_tensor") else found


class Pipelined(PipelineEngine):
    """`torch.distributed.pipelining`: `ScheduleGPipe` or `Schedule1F1B` around a `PipelineStage`."""

    def start(self) -> None:
        """The same stages as ours."""
        from torch.distributed import pipelining

        case, count = self.case, self.ranks.world_size
        blocks = decoder.stages(case.number("layers"), count)[self.ranks.rank]
        model = decoder.part(case, self.given, blocks, self.around)
        stage = pipelining.PipelineStage(model, self.ranks.rank, count, self.ranks.device)
        kind = {"gpipe": pipelining.ScheduleGPipe, "1f1b": pipelining.Schedule1F1B}[self._schedule]
        self._runner = kind(stage, case.number("micro_batches"), loss_fn=decoder.loss)
        self.optimize(model, fused=True)

    def run(self, tokens: Tensor, labels: Tensor) -> Tensor:
        """Forward and backward of the batch; its loss on the last stage, 0 elsewhere."""
        losses: list[Tensor] = []
        given = (tokens.contiguous(),) if self.ranks.rank == 0 else ()  # torch 2.11 refuses the strides of a slice
        if self.ranks.rank == self.ranks.world_size - 1:
            self._runner.step(*given, target=labels, losses=losses)
        else:
            self._runner.step(*given)
        return torch.stack(losses).detach().mean() if losses else torch.zeros((), device=self.ranks.device)

    def moments(self) -> dict[str, Tensor]:
        """Put together from the stages."""
        return union(super().moments())

    def parameters(self) -> dict[str, Tensor]:
        """Put together from the stages."""
        return union(super().parameters())
