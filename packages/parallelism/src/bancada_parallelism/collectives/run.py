"""All-reduce over point-to-point messages: this rank's part of a table, with what it sent counted."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from bancada_parallelism._check import FLOATING, check_floating
from bancada_parallelism.collectives.table import Step, all_reduce_table


@dataclass(frozen=True)
class Traffic:
    """What one rank did in a collective: steps it went through, messages and bytes it sent."""

    steps: int
    messages: int
    sent_bytes: int


def all_reduce(
    tensor: Tensor,
    group: dist.ProcessGroup | None = None,
    *,
    algorithm: str = "ring",
    accumulate: torch.dtype | None = None,
) -> Traffic:
    """Sum over the ranks, in place: tensor <- sum_r tensor_r, the same bits on every rank.

    Args:
        tensor: any shape and strides, the same shape and dtype on every rank.
        group: all ranks where None.
        algorithm: `ring`, `tree` or `halving-doubling`.
        accumulate: the dtype that partial sums are held and sent in: fp32 for the 16-bit types where None, so that the
            sum is rounded once. Sums on their way back are sent in the tensor's own dtype.

    Raises:
        ValueError: no floating-point tensor, an unknown algorithm, or an `accumulate` narrower than the tensor.
        RuntimeError: a rank did not answer; the message names it, the algorithm and the step.

    Paper: Patarasuk and Yuan, Bandwidth Optimal All-reduce Algorithms, 2009 (ring).
    """
    check_floating("tensor", tensor)
    wide = torch.promote_types(tensor.dtype, torch.float32) if accumulate is None else accumulate
    if wide not in FLOATING or torch.promote_types(wide, tensor.dtype) != wide:
        raise ValueError(f"accumulate={wide}: must be a floating dtype that holds every value of {tensor.dtype}")
    ranks, me = dist.get_world_size(group), dist.get_rank(group)
    table = all_reduce_table(algorithm, ranks, tensor.numel())
    held = tensor.detach().to(wide, memory_format=torch.contiguous_format, copy=True).flatten()
    messages = sent_bytes = 0
    for number, step in enumerate(table):
        if held.dtype != tensor.dtype and not any(move.adds for move in step):
            held = held.to(tensor.dtype)  # who holds a finished sum rounds it, and all others get those bits
        sent = _exchange(held, step, me, group, f"all_reduce {algorithm} step {number + 1} of {len(table)}")
        messages += sent > 0
        sent_bytes += sent
    tensor.detach().copy_(held.reshape(tensor.shape))
    return Traffic(len(table), messages, sent_bytes)


def _exchange(held: Tensor, step: Step, me: int, group: dist.ProcessGroup | None, where: str) -> int:
    """One step of this rank; the bytes it sent. A rank sends and receives once a step at most."""
    sent_bytes = 0
    received: list[tuple[Tensor, Tensor, bool]] = []
    waiting: list[tuple[dist.Work, str]] = []
    try:
        for move in step:
            here = held[move.first : move.last]
            if not here.numel():
                continue
            if move.source == me:
                sent_bytes += here.numel() * here.element_size()
                work = dist.isend(here.clone(), group=group, group_dst=move.target)
                assert work is not None
                waiting.append((work, f"rank {move.target} did not take what it was sent"))
            if move.target == me:
                values = torch.empty_like(here)
                work = dist.irecv(values, group=group, group_src=move.source)
                assert work is not None
                waiting.append((work, f"rank {move.source} sent nothing"))
                received.append((here, values, move.adds))
    except RuntimeError as error:
        raise RuntimeError(f"{where}: a message could not be started: {error}") from error
    for work, blame in waiting:
        try:
            work.wait()
        except RuntimeError as error:
            raise RuntimeError(f"{where}: {blame}: {error}") from error
    for here, values, adds in received:
        if adds:
            here.add_(values)
        else:
            here.copy_(values)
    return sent_bytes
