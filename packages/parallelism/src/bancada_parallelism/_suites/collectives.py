"""`parallelism.collectives`: one vector summed over the ranks, by our tables of messages and by the library."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor

from bancada.ceilings import TORCH_DTYPES
from bancada.ranks import Ranks, RanksContender, RanksSuite
from bancada.suite import Axis, Case, Metric, Tensors, Work
from bancada_parallelism import all_reduce, all_reduce_cost
from bancada_parallelism._suites import catalogue

ALGORITHMS = ("ring", "tree", "halving-doubling")
Sum = Callable[[Tensor], object]


class Summing:
    """Copies this rank's vector and sums the copy over the ranks, in every step anew."""

    def __init__(self, case: Case, given: Tensors, ranks: Ranks, *, how: Sum) -> None:
        self._mine = given["x"][ranks.rank]
        self._held = torch.empty_like(self._mine)
        self._how = how

    def step(self) -> None:
        """One all-reduce."""
        self._held.copy_(self._mine)
        self._how(self._held)

    def reset(self) -> None:
        """Forgets the sum."""
        self._held.zero_()

    def outputs(self) -> dict[str, Tensor]:
        """The sum, as rank 0 holds it."""
        return {"sum": self._held}

    def state_bytes(self) -> dict[str, int]:
        """Nothing is kept but the vector itself."""
        return {}

    def close(self) -> None:
        """Lets go of the vectors."""
        self.__dict__.clear()


def _scatter_and_gather(x: Tensor) -> None:
    """The two halves of a ring, as the library has them; the vector is padded to a multiple of the ranks."""
    ranks, length = dist.get_world_size(), x.numel()
    padded = torch.nn.functional.pad(x, (0, -length % ranks))
    mine = padded.new_empty(padded.numel() // ranks)
    dist.reduce_scatter(mine, list(padded.chunk(ranks)))
    parts = list(padded.chunk(ranks))
    dist.all_gather(parts, mine)
    x.copy_(padded[:length])


def inputs(case: Case, device: str, seed: int) -> dict[str, Tensor]:
    """`x` [world_size, numel]: every rank has all vectors, and sums its own."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(case.number("world_size"), case.number("numel"), generator=generator, dtype=torch.float64)
    return {"x": x.to(device, TORCH_DTYPES[case.word("dtype")])}


def oracle(case: Case, given: Tensors) -> dict[str, Tensor]:
    """The sum in float64."""
    return {"sum": given["x"].double().sum(0)}


def tolerance(case: Case) -> float:
    """n eps: each of n - 1 additions rounds by half an eps of a partial sum at most, and the result once."""
    return case.number("world_size") * torch.finfo(TORCH_DTYPES[case.word("dtype")]).eps


def work(case: Case) -> Work:
    """n - 1 additions an element; least bytes: each rank reads its vector and writes the sum."""
    ranks, numel = case.number("world_size"), case.number("numel")
    return Work(float((ranks - 1) * numel), float(2 * ranks * numel * TORCH_DTYPES[case.word("dtype")].itemsize))


def expected(case: Case, contender: str) -> dict[str, int] | None:
    """Messages and bytes of the rank that sends most; exact where the ranks divide the vector.

    Ring 2(n-1) messages; tree ceil(log2 n); halving-doubling 2 log2 p, p the power of two within n, and one more where
    ranks are left over. Partial sums of 16-bit vectors travel in fp32, so nothing is demanded there.
    """
    ranks, numel = case.number("world_size"), case.number("numel")
    power = 1 << (ranks.bit_length() - 1)
    if contender not in ALGORITHMS or numel % (ranks * power) or case.word("dtype") not in ("fp32", "fp64"):
        return None
    cost = all_reduce_cost(contender, ranks, numel * TORCH_DTYPES[case.word("dtype")].itemsize)
    calls = {
        "ring": 2 * (ranks - 1),
        "tree": (ranks - 1).bit_length(),
        "halving-doubling": 2 * (power.bit_length() - 1) + (ranks > power),
    }[contender]
    sent = int(cost.most_bytes)
    return {
        "comm.send.calls": calls,
        "comm.send.bytes": sent,
        "comm.recv.calls": calls,
        "comm.recv.bytes": sent,
        "comm.bytes": 2 * sent,
    }


CONTENDERS = (
    RanksContender(
        "torch-all-reduce", "ring", "peer", partial(Summing, how=dist.all_reduce),
        label="torch all_reduce", reference=True, precision="the vector's dtype", backend="gloo: a ring in C++",
    ),
    RanksContender(
        "torch-scatter-gather", "ring", "peer", partial(Summing, how=_scatter_and_gather),
        label="torch reduce_scatter, all_gather", precision="the vector's dtype", backend="gloo: in C++",
    ),
    *(
        RanksContender(
            name, name, "bancada", partial(Summing, how=partial(all_reduce, algorithm=name)),
            label=f"all_reduce, {name}", precision="fp32 accumulation",
        )
        for name in ALGORITHMS
    ),
)  # fmt: skip

COLLECTIVES = RanksSuite(
    id="parallelism.collectives",
    title="All-reduce of one vector",
    family="parallelism",
    question="What does each way of summing a vector over ranks send, in how many messages, and how long does it take?",
    axes=(
        Axis("world_size", "r{}", minimum=2, unit="ranks"),
        Axis("numel", "n{}", minimum=1, unit="elements", scale="log"),
        Axis("dtype", "{}", str, choices=("fp64", "fp32", "bf16")),
    ),
    defaults={"world_size": 2, "numel": 1 << 20, "dtype": "fp32"},
    inputs=inputs,
    oracle=oracle,
    tolerance=tolerance,
    work=work,
    techniques=catalogue.used_by(CONTENDERS),
    contenders=CONTENDERS,
    metrics=(
        Metric("comm.all_ranks.bytes", "Bytes handed to collectives, all ranks", "B", scale="log"),
        Metric("comm.send.calls", "Messages sent by the busiest rank"),
    ),
    x_axis="numel",
    small={"world_size": 2, "numel": 24, "dtype": "fp32"},
    checked_steps=1,
    expected=expected,
)
