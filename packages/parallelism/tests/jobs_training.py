"""What the ranks do in the tests of data parallelism and ZeRO: five steps, told as losses, gradients, parameters."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from parallel_model import LENGTH, batch, decoder, loss_sum
from torch import Tensor

from bancada_parallelism import AdamWConfig, CountCollectives, DataParallel, Layout, ZeroStage1, ZeroStage2, ZeroStage3

CONFIG = AdamWConfig(lr=1e-2, betas=(0.9, 0.95), eps=1e-3, weight_decay=0.1)
STAGES = {1: ZeroStage1, 2: ZeroStage2, 3: ZeroStage3}
Steps = list[tuple[float, dict[str, Tensor]]]


def sizes(rank: int, step: int, uneven: bool) -> list[tuple[int, int]]:
    """Sequences and ignored labels of a rank's micro-batches; where uneven, rank 1 has nothing at step 2."""
    if not uneven:
        return [(2, 0), (2, 0)]
    if rank == 1 and step == 2:
        return []
    return [(1 + (rank + step) % 3, rank), (2, (rank + step) % 4)]


def micro_batches(rank: int, step: int, uneven: bool) -> list[tuple[Tensor, Tensor]]:
    return [
        batch(step, 10 * rank + number, sequences, ignored)
        for number, (sequences, ignored) in enumerate(sizes(rank, step, uneven))
    ]


def grads_of(module: torch.nn.Module) -> dict[str, Tensor]:
    return {name: p.grad.clone() for name, p in module.named_parameters() if p.grad is not None}


def data_parallel(dtype: torch.dtype, uneven: bool, accumulate: str, bucket_bytes: int, steps: int = 5) -> Any:
    rank = dist.get_rank()
    layout = Layout.over_ranks(data=dist.get_world_size())
    module = decoder(dtype, seed=rank)  # other values on each rank: the first rank's must win
    parallel = DataParallel(module, layout, bucket_bytes=bucket_bytes)
    optimizer = torch.optim.AdamW(parallel.parameters(), CONFIG.lr, CONFIG.betas, CONFIG.eps, CONFIG.weight_decay)
    told: Steps = []
    for step in range(steps):
        data = micro_batches(rank, step, uneven)
        divisor = parallel.mean_tokens(sum(int((labels != -100).sum()) for _, labels in data))
        total = torch.zeros((), dtype=torch.float64)
        for number, micro in enumerate(data):
            if accumulate == "no_sync" and number < len(data) - 1:
                with parallel.no_sync():
                    loss = loss_sum(parallel, micro)[0] / divisor
                    loss.backward()
            else:
                loss = loss_sum(parallel, micro)[0] / divisor
                loss.backward()
                if accumulate == "finish each":
                    parallel.finish()
            total += loss.detach()
        if accumulate == "no_sync":
            parallel.finish()
        dist.all_reduce(total)
        told.append((total.item() / dist.get_world_size(), grads_of(module)))
        optimizer.step()
        optimizer.zero_grad()
    return told, {name: p.detach().clone() for name, p in module.named_parameters()}


def zero(stage: int, dtype: torch.dtype, uneven: bool, steps: int = 5) -> Any:
    rank = dist.get_rank()
    layout = Layout.over_ranks(data=dist.get_world_size())
    module = decoder(dtype, seed=rank)
    sharded = make(stage, module, layout)
    told: Steps = []
    sent = []
    for step in range(steps):
        data = micro_batches(rank, step, uneven)
        if stage == 3 and not data:  # every rank runs the same units: an idle one runs them on ignored labels
            data = [batch(step, 99, 1, LENGTH)] * 2
        tokens = torch.tensor(float(sum(int((labels != -100).sum()) for _, labels in data)))
        dist.all_reduce(tokens)
        divisor = tokens.item() / dist.get_world_size()
        total = torch.zeros((), dtype=torch.float64)
        with CountCollectives() as counted:
            for number, micro in enumerate(data):
                last = number == len(data) - 1
                if last:
                    loss = loss_sum(module, micro)[0] / divisor
                    loss.backward()
                else:
                    with sharded.no_sync():
                        loss = loss_sum(module, micro)[0] / divisor
                        loss.backward()
                total += loss.detach()
            sharded.finish()
        gradients = {name: g.clone() for name, g in sharded.full_gradients().items()}
        with counted:
            sharded.step()
        sharded.zero_grad()
        sent.append(counted.total_sent)
        dist.all_reduce(total)
        told.append((total.item() / dist.get_world_size(), gradients))
    return told, sharded.full_state(), sharded.state_bytes(), sent, [unit.numel for unit in sharded.units]


def make(stage: int, module: Any, layout: Layout) -> ZeroStage1 | ZeroStage2 | ZeroStage3:
    if stage == 3:
        return ZeroStage3(module, layout, CONFIG, units=list(module.blocks))
    return STAGES[stage](module, layout, CONFIG, unit_bytes=4000)  # type: ignore[call-arg]


def one_zero_step(stage: int) -> Any:
    """Bytes sent in a step of one micro-batch, and the units."""
    layout = Layout.over_ranks(data=dist.get_world_size())
    module = decoder(torch.float32)
    sharded = make(stage, module, layout)
    with CountCollectives() as counted:
        loss_sum(module, batch(0, dist.get_rank(), 2), spare=True)[0].backward()
        sharded.finish()
        sharded.step()
    sharded.zero_grad()
    return counted.total_sent, counted.calls, sharded.state_bytes(), [unit.numel for unit in sharded.units]


def norm_and_clip(stage: int) -> Any:
    layout = Layout.over_ranks(data=dist.get_world_size())
    module = decoder(torch.float64)
    sharded = make(stage, module, layout)
    loss_sum(module, batch(0, dist.get_rank(), 2))[0].backward()
    sharded.finish()
    norm = sharded.clip_grad_norm(0.5)
    clipped, gradients = sharded.grad_norm(), sharded.full_gradients()
    sharded.gradient_shards()[0][0] = float("nan") if dist.get_rank() == 0 else 1.0
    try:
        sharded.clip_grad_norm(0.5)
    except FloatingPointError as error:
        return norm, clipped, gradients, str(error)
    return None


def load(stage: int, state: dict[str, Any]) -> Any:
    layout = Layout.over_ranks(data=dist.get_world_size())
    module = decoder(torch.float32, seed=9)
    sharded = make(stage, module, layout)
    sharded.load_full_state(state)
    again = sharded.full_state()
    wrong = {**state, "exp_avg": {**state["exp_avg"], "norm.weight": torch.zeros(3)}}
    try:
        sharded.load_full_state(wrong)
    except ValueError as error:
        logits = module(batch(0, 0, 1)[0]).detach()
        return again, str(error), logits
    return None


def misuse(what: str) -> str:
    layout = Layout.over_ranks(data=dist.get_world_size())
    module = decoder(torch.float32)
    data = batch(0, 0, 1)
    try:
        if what == "another module":
            other = decoder(torch.float32, layers=2 + dist.get_rank())
            DataParallel(other, layout)
        elif what == "nothing trainable":
            DataParallel(module.requires_grad_(False), layout)
        elif what == "half precision":
            ZeroStage2(module.half(), layout)
        elif what == "tied across units":
            ZeroStage3(module, layout, units=[module.head])
        elif what == "unit of another":
            ZeroStage3(module, layout, units=[decoder(torch.float32).blocks[0]])
        elif what == "overlapping":
            ZeroStage3(module, layout, units=[module.blocks[0], module.blocks[0].up])
        elif what == "step before finish":
            ZeroStage1(module, layout).step()
        elif what == "finish in no_sync":
            parallel = DataParallel(module, layout)
            with parallel.no_sync():
                parallel.finish()
        elif what == "two backwards":
            parallel = DataParallel(module, layout, bucket_bytes=1)
            for _ in range(2):
                loss_sum(parallel, data, spare=True)[0].backward()
        elif what == "no tokens":
            DataParallel(module, layout).mean_tokens(0)
    except (ValueError, RuntimeError) as error:
        dist.barrier()
        return f"{type(error).__name__}: {error}"
    return "nothing was raised"


def experts() -> Any:
    """Each rank uses an expert of its own, the third is used by none; buckets come ready in another order."""
    rank = dist.get_rank()
    torch.manual_seed(0)
    module = torch.nn.ModuleList(torch.nn.Linear(4, 4, bias=False, dtype=torch.float64) for _ in range(3))
    parallel = DataParallel(module, Layout.over_ranks(data=dist.get_world_size()), bucket_bytes=1)
    x = torch.full((2, 4), 1.0 + rank, dtype=torch.float64)
    module[rank](x).sum().backward()
    parallel.finish()
    return [expert.weight.grad for expert in module]


def two_forwards_with_batch_norm() -> Any:
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1)).double()
    parallel = DataParallel(module, Layout.over_ranks(data=dist.get_world_size()))
    torch.manual_seed(dist.get_rank())
    x, y = torch.randn(2, 5, 4, dtype=torch.float64)
    (parallel(x).mean() - parallel(y).square().mean()).backward()
    parallel.finish()
    return grads_of(module), int(module[1].num_batches_tracked)


def reduced_in(dtype: torch.dtype | None) -> Any:
    ranks, rank = dist.get_world_size(), dist.get_rank()
    module = torch.nn.Linear(1, 3, bias=False, dtype=torch.bfloat16)
    parallel = DataParallel(module, Layout.over_ranks(data=ranks), reduce_dtype=dtype)
    with CountCollectives() as counted:
        (parallel(torch.ones(1, 1, dtype=torch.bfloat16)) * (256.0 if rank == 2 else 0.75)).sum().backward()
        parallel.finish()
    assert module.weight.grad is not None
    return module.weight.grad * ranks, float(counted.total_sent)


def frozen_bytes() -> Any:
    module = torch.nn.Sequential(torch.nn.Linear(8, 8).requires_grad_(False), torch.nn.Linear(8, 2, bias=False))
    parallel = DataParallel(module, Layout.over_ranks(data=dist.get_world_size()))
    with CountCollectives() as counted:
        parallel(torch.ones(1, 8)).sum().backward()
        parallel.finish()
    return float(counted.total_sent), [name for name, p in module.named_parameters() if p.grad is not None]
