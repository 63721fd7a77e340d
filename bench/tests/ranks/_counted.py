"""`planted.counted`: contenders whose collectives, peak memory and slowest rank are known by hand."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import Tensor, nn

from bancada.ranks import RankRun, Ranks, RanksContender, RanksSuite
from bancada.suite import Axis, Case, Technique, Tensors, Work

MIB = 2**20
SLEEP_S = 0.05
Step = Callable[[], object]


class Run:
    """A step without outputs."""

    def __init__(self, step: Step) -> None:
        self._step = step

    def step(self) -> None:
        self._step()

    def reset(self) -> None:
        pass

    def outputs(self) -> Tensors:
        return {}

    def state_bytes(self) -> Mapping[str, int]:
        return {}

    def close(self) -> None:
        pass


def _every_collective(ranks: Ranks) -> Step:
    size, other = ranks.world_size, 1 - ranks.rank
    x = torch.ones(12)  # 48 bytes

    def step() -> None:
        parts, whole = [torch.empty(12) for _ in range(size)], torch.ones(12 * size)
        dist.all_reduce(x.clone())
        dist.all_gather_into_tensor(whole, x)
        dist.all_gather(parts, x)
        dist.reduce_scatter_tensor(torch.empty(6), x)
        dist.reduce_scatter(torch.empty(12), parts)
        dist.broadcast(x, 0)
        dist.all_to_all_single(torch.empty(12), x)
        dist.all_to_all([torch.empty(6), torch.empty(6)], list(x.chunk(2)))
        for sender in range(size):
            if ranks.rank == sender:
                dist.send(x, other)
            else:
                dist.recv(torch.empty(12), other)
        for work in dist.batch_isend_irecv(
            [dist.P2POp(dist.isend, x, other), dist.P2POp(dist.irecv, torch.empty(12), other)]
        ):
            work.wait()
        dist.barrier()
        dist.gather(x, parts if ranks.rank == 0 else None, dst=0)
        dist.scatter(torch.empty(12), [x, x] if ranks.rank == 0 else None, src=0)
        dist.reduce(x.clone(), 0)
        functional.all_reduce(x, "sum", dist.group.WORLD).sum()

    return step


def _functional(ranks: Ranks) -> Step:
    x = torch.ones(12)

    def step() -> None:
        group = dist.group.WORLD
        functional.wait_tensor(functional.all_reduce(x, "sum", group))
        functional.wait_tensor(torch.ops._c10d_functional.all_gather_into_tensor(x, ranks.world_size, group.group_name))
        functional.wait_tensor(functional.reduce_scatter_tensor(x, "sum", 0, group))
        functional.wait_tensor(functional.all_to_all_single(x, None, None, group))

    return step


def _backward(model: Callable[[Tensor], Tensor]) -> Step:
    def step() -> None:
        model(torch.ones(4, 10, requires_grad=True)).sum().backward()

    return step


def _ddp(ranks: Ranks) -> Step:
    return _backward(nn.parallel.DistributedDataParallel(nn.Linear(10, 10)))


def _fsdp(ranks: Ranks) -> Step:
    from torch.distributed.fsdp import fully_shard

    model = nn.Sequential(nn.Linear(10, 10), nn.Linear(10, 10))
    for layer in model:
        fully_shard(layer)
    return _backward(fully_shard(model))


def _tensor_parallel(ranks: Ranks) -> Step:
    from torch.distributed.tensor import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    model = nn.Sequential(nn.Linear(10, 10), nn.Linear(10, 10))
    mesh = init_device_mesh("cpu", (ranks.world_size,))
    return _backward(parallelize_module(model, mesh, {"0": ColwiseParallel(), "1": RowwiseParallel()}))


def _pipelining(ranks: Ranks) -> Step:
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    stage = PipelineStage(nn.Linear(10, 10), ranks.rank, ranks.world_size, ranks.device)
    schedule = ScheduleGPipe(stage, n_microbatches=2, loss_fn=nn.functional.mse_loss)
    x = torch.ones(4, 10)

    def step() -> None:
        if ranks.rank == 0:
            schedule.step(x)
        else:
            schedule.step(target=x)

    return step


def _hidden(ranks: Ranks) -> Step:
    @torch.library.custom_op("planted::hidden", mutates_args={"x"})
    def hidden(x: Tensor) -> None:
        dist.all_reduce(x)

    x = torch.zeros(12)
    return lambda: hidden(x)


def _lopsided(ranks: Ranks) -> Step:
    return lambda: torch.zeros((ranks.rank + 1) * MIB, dtype=torch.uint8)


def _slow_on_one(ranks: Ranks) -> Step:
    return lambda: time.sleep(SLEEP_S * ranks.rank)


def _calls(**figures: tuple[int, int]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, (calls, size) in figures.items():
        found |= {f"comm.{name}.calls": calls, f"comm.{name}.bytes": size}
    return found | {"comm.bytes": sum(size for _, size in figures.values())}


LAYER = 4 * 110  # bytes of a layer of 10 x 10 with its bias
CONTENDERS: dict[str, tuple[Callable[[Ranks], Step], dict[str, int]]] = {
    "every-collective": (
        _every_collective,
        _calls(
            all_reduce=(2, 48 + 48), all_gather=(2, 96 + 96), reduce_scatter=(2, 48 + 96), broadcast=(1, 48),
            all_to_all=(2, 48 + 48), send=(2, 48 + 48), recv=(2, 48 + 48), barrier=(1, 0), gather=(1, 96),
            scatter=(1, 96), reduce=(1, 48),
        ),
    ),
    "functional": (
        _functional, _calls(all_reduce=(1, 48), all_gather=(1, 96), reduce_scatter=(1, 48), all_to_all=(1, 48)),
    ),
    "ddp": (_ddp, _calls(all_reduce=(1, LAYER))),
    # each layer is gathered forward and again backward
    "fsdp": (_fsdp, _calls(all_gather=(4, 4 * LAYER), reduce_scatter=(2, 2 * LAYER))),
    # 4 x 10 activations once, and the input's gradients once
    "tensor-parallel": (_tensor_parallel, _calls(all_reduce=(2, 2 * 160))),
    # two micro-batches of 2 x 10: activations one way, gradients the other
    "pipelining": (_pipelining, _calls(send=(2, 2 * 80), recv=(2, 2 * 80))),
    "hidden": (_hidden, {"comm.bytes": 0}),
    "lopsided": (_lopsided, {"comm.bytes": 0}),
    "slow-on-one": (_slow_on_one, {"comm.bytes": 0}),
}  # fmt: skip


def _builds(make: Callable[[Ranks], Step]) -> Callable[[Case, Tensors, Ranks], RankRun]:
    return lambda case, inputs, ranks: Run(make(ranks))


def counted() -> list[RanksSuite]:
    """The suite."""
    return [
        RanksSuite(
            id="planted.counted",
            title="Counted",
            family="parallelism",
            question="Is every collective counted?",
            axes=(Axis("world_size", "n{}", int, minimum=2),),
            defaults={"world_size": 2},
            inputs=lambda case, device, seed: {},
            oracle=lambda case, given: {},
            tolerance=lambda case: 0.0,
            checked_steps=1,
            expected=lambda case, contender: CONTENDERS[contender][1],
            work=lambda case: Work(1e3, 1e3),
            techniques=(Technique("planted", "Planted", "Plantado", "parallelism", "For tests.", "y = sum x", "-"),),
            contenders=tuple(
                RanksContender(name, "planted", "peer", _builds(make)) for name, (make, _) in CONTENDERS.items()
            ),
            x_axis="world_size",
        )
    ]
