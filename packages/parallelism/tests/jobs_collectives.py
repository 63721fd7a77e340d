"""What the ranks do in the tests of layouts, collectives and failures."""

from __future__ import annotations

import datetime
import os
import signal
import time

import torch
import torch.distributed as dist

from bancada_parallelism import CountCollectives, Layout, RankWatch, all_reduce


def values(rank: int, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(rank), dtype=torch.float64).to(dtype)


def reduce(algorithm: str, shape: tuple[int, ...], dtype: torch.dtype, strided: bool = False, few: int | None = None):
    group = dist.new_group(list(range(few))) if few else None
    rank = dist.get_rank()
    if few and rank >= few:
        return None
    tensor = values(rank, shape, dtype)
    if strided:
        tensor = tensor.mT.contiguous().mT
    with CountCollectives() as counted:
        traffic = all_reduce(tensor, group, algorithm=algorithm)
    return tensor, traffic, counted.calls, counted.total_sent


def reduce_these(per_rank: list[torch.Tensor], algorithm: str) -> torch.Tensor:
    tensor = per_rank[dist.get_rank()]
    all_reduce(tensor, algorithm=algorithm)
    return tensor


def torch_collectives(length: int) -> dict[str, tuple[int, float]]:
    ranks = dist.get_world_size()
    x, whole = torch.zeros(length), torch.zeros(length * ranks)
    with CountCollectives() as counted:
        dist.all_reduce(x)
        dist.all_gather_into_tensor(whole, x)
        dist.all_gather(list(whole.chunk(ranks)), x)
        dist.reduce_scatter_tensor(x, whole)
        dist.broadcast(x, 0)
        dist.all_to_all_single(torch.empty_like(whole), whole)
        dist.barrier()
    return {name: (counted.calls[name], float(counted.sent[name])) for name in counted.calls}


def ddp_bytes(inputs: int) -> tuple[float, int]:
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(inputs, 4, bias=False))
    with CountCollectives() as counted:
        model(torch.ones(2, inputs)).sum().backward()
    return float(counted.sent["all_reduce"]), counted.calls["all_reduce"]


def layout(wanted: dict[str, int]) -> tuple[str, int]:
    with CountCollectives() as counted:
        try:
            made = Layout.over_ranks(**wanted)
        except ValueError as error:
            return str(error), sum(counted.calls.values())
    here = {axis: made.rank(axis) for axis in ("pipeline", "data", "tensor")}
    assert here == made.coordinates(dist.get_rank())
    total = torch.tensor([float(dist.get_rank())])
    dist.all_reduce(total, group=made.group("tensor"))
    return f"{here} {total.item():g}", made.ranks


def failing(how: str, guilty: int, port: int, timeout_s: float) -> None:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    dist.barrier()
    group = dist.new_group(timeout=datetime.timedelta(seconds=timeout_s))
    dist.barrier(group)
    watch = RankWatch(dist.TCPStore("127.0.0.1", port, None, is_master=False), rank, ranks, grace=1.5)
    for step in range(5):
        with watch.step(step):
            if rank == guilty and step == 3:
                if how == "raises":
                    raise ArithmeticError("the loss is not finite")
                if how == "is killed":
                    os.kill(os.getpid(), signal.SIGKILL)
                time.sleep(timeout_s + 3)
                return
            all_reduce(torch.ones(8), group)
