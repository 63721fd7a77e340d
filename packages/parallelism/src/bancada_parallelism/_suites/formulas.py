"""What a step must send and a rank must hold, in closed form: what is counted must come out exactly."""

from __future__ import annotations

import functools

from torch import nn

from bancada.ceilings import TORCH_DTYPES
from bancada.suite import Case
from bancada_parallelism import zero_state_bytes
from bancada_parallelism._suites import decoder
from bancada_parallelism.data.buckets import assign_buckets
from bancada_parallelism.data.data_parallel import DEFAULT_BUCKET_BYTES

Figures = dict[str, int]


def _itemsize(case: Case) -> int:
    return TORCH_DTYPES[case.word("dtype")].itemsize


def _state(parameters: int, gradients: int, optimizer: int) -> Figures:
    return {"bytes.parameters": parameters, "bytes.gradients": gradients, "bytes.optimizer": optimizer}


def _sent(**operations: tuple[int, int]) -> Figures:
    """Calls and bytes by operation, and the bytes of all: nothing else may be sent."""
    found: Figures = {"comm.bytes": sum(size for _, size in operations.values())}
    for name, (calls, size) in operations.items():
        found |= {f"comm.{name}.calls": calls, f"comm.{name}.bytes": size}
    return found


@functools.cache
def _buckets(hidden: int, layers: int, itemsize: int) -> tuple[int, ...]:
    """Elements of each bucket: parameters, last first, in runs of at most 25 MiB."""
    import torch

    dtype = {4: torch.float32, 8: torch.float64}[itemsize]
    with torch.device("meta"):
        named = {
            name: nn.Parameter(torch.empty(shape, dtype=dtype))
            for name, shape in decoder.shapes(hidden, layers).items()
        }
    return tuple(sum(p.numel() for p in bucket.values()) for bucket in assign_buckets(named, DEFAULT_BUCKET_BYTES))


def buckets(case: Case) -> tuple[int, ...]:
    """Elements of each bucket of data parallelism and of ZeRO's first two stages."""
    return _buckets(case.number("hidden"), case.number("layers"), _itemsize(case))


def units(case: Case) -> list[int]:
    """Elements of each unit of stage 3: the blocks and the rest."""
    numels = {name: shape.numel() for name, shape in decoder.shapes_of(case).items()}
    blocks = [
        sum(numel for name, numel in numels.items() if name.startswith(f"blocks.{i}."))
        for i in range(case.number("layers"))
    ]
    return [*blocks, sum(numels.values()) - sum(blocks)]


def data_parallel(case: Case) -> Figures:
    """Every rank holds 4 x bP and reduces bP: an all-reduce a bucket."""
    whole = _itemsize(case) * sum(buckets(case))
    return _sent(all_reduce=(len(buckets(case)), whole)) | _state(whole, whole, 2 * whole)


def zero(case: Case, stage: int) -> Figures:
    """Gradients reduce-scattered, parameters gathered: once at stages 1 and 2, twice (forward, backward) at stage 3."""
    numels, ranks, size = units(case) if stage == 3 else list(buckets(case)), case.number("world_size"), _itemsize(case)
    padded, gathers = size * sum(-(-numel // ranks) * ranks for numel in numels), 2 if stage == 3 else 1
    held = zero_state_bytes(stage, numels, ranks, size)
    sent = _sent(reduce_scatter=(len(numels), padded), all_gather=(gathers * len(numels), gathers * padded))
    return sent | _state(held.parameters, held.gradients, held.optimizer)


def tensor_parallel(case: Case, *, again: bool = False) -> Figures:
    """Two all-reduces of bsh a layer each way, one more for the embedding and one for the head, and the loss's.

    Args:
        again: blocks are computed again in backward, with their two forward all-reduces.
    """
    size, layers, ranks = _itemsize(case), case.number("layers"), case.number("world_size")
    tokens = case.number("batch") * case.number("seq_len")
    full = (6 if again else 4) * layers + 2
    sent = _sent(all_reduce=(full + 2, size * tokens * (full * case.number("hidden") + 3)))
    whole = sum(shape.numel() for name, shape in decoder.shapes_of(case).items() if _replicated(name))
    cut = sum(shape.numel() for name, shape in decoder.shapes_of(case).items() if not _replicated(name))
    here = size * (whole + cut // ranks)
    return sent | _state(here, here, 2 * here)


def _replicated(name: str) -> bool:
    """Layer norms, and the biases of row-parallel layers."""
    return "norm" in name or name.endswith(("out.bias", "down.bias"))


def pipeline(case: Case) -> Figures:
    """A micro-batch crosses each boundary once each way; the stage in the middle, or at the end of two, sends most."""
    size, ranks, micro = _itemsize(case), case.number("world_size"), case.number("micro_batches")
    whole_boundary = size * case.number("batch") * case.number("seq_len") * case.number("hidden")
    neighbours = min(2, ranks - 1)
    messages = (neighbours * micro, neighbours * whole_boundary)
    numels = {name: shape.numel() for name, shape in decoder.shapes_of(case).items()}
    stages = decoder.stages(case.number("layers"), ranks)
    held = [
        sum(n for name, n in numels.items() if name.startswith(tuple(f"blocks.{i}." for i in blocks)))
        + (numels["embed.weight"] if blocks.start == 0 else 0)
        + (sum(n for name, n in numels.items() if name.startswith(("norm", "head"))) if blocks is stages[-1] else 0)
        for blocks in stages
    ]
    most = size * max(held)
    return _sent(send=messages, recv=messages) | _state(most, most, 2 * most)
