"""Bytes and calls of every collective that runs inside a `with`, ours or a library's, counted at the call.

What is counted is logical: the bytes that a rank must send by a bandwidth-optimal algorithm, whatever the backend
does (gloo's reduce-scatter, for one, sends like an all-reduce). With n ranks and S bytes: all-reduce 2(n-1)/n S,
reduce-scatter and all-gather (n-1)/n S of the whole, all-to-all what goes to others, send and broadcast S.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import _resolve_process_group
from torch.utils._python_dispatch import TorchDispatchMode

Sent = Callable[[int, int], Fraction]


class CountCollectives(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the collectives called in this process while it is entered.

    Attributes:
        calls: how often each operation was called (`all_reduce`, `reduce_scatter`, `all_gather`, `broadcast`,
            `all_to_all`, `send`, `gather`, `scatter`, `reduce`, `barrier`).
        sent: bytes this rank sends for each, by the formulas above; a fraction where the formula gives one.

    Receives are not counted: their bytes are those of a send elsewhere.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: Counter[str] = Counter()
        self.sent: dict[str, Fraction] = {}

    @property
    def total_sent(self) -> Fraction:
        """Bytes sent by all operations together."""
        return sum(self.sent.values(), Fraction(0))

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Runs the operation; counts it first where it is a collective."""
        name, known = func.name().removesuffix(".default"), _OPERATIONS
        if name in known:
            operation, whole, sent = known[name]
            size, me, root = _group(func, args)
            if operation == "all_to_all":
                nbytes = _size_for_others(func, args, args[whole], size, me)
            else:
                nbytes = _size(args[whole])
            if name.startswith("_c10d_functional::all_gather"):
                nbytes *= size
            self.calls[operation] += 1
            counted = sent(size, nbytes) if root is None or root == me else Fraction(0)
            self.sent[operation] = self.sent.get(operation, Fraction(0)) + counted
        return func(*args, **(kwargs or {}))


def _size(value: Any) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in _tensors(value))


def _size_for_others(func: Any, args: tuple[Any, ...], value: Any, size: int, me: int) -> int:
    """What an all-to-all sends to other ranks, with even or uneven splits."""
    if not isinstance(value, Tensor):
        return sum(_size(tensor) for other, tensor in enumerate(value) if other != me)
    place = next(i for i, argument in enumerate(func._schema.arguments) if argument.name.startswith("input_split"))
    rows, splits = value.shape[0], args[place]
    kept = splits[me] if splits else rows // size
    return _size(value) // rows * (rows - kept) if rows else 0


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def _group(func: Any, args: tuple[Any, ...]) -> tuple[int, int, int | None]:
    """The size of the operation's group, this rank in it, and the rank that alone sends (None: all do)."""
    given = {argument.name: args[i] for i, argument in enumerate(func._schema.arguments) if i < len(args)}
    if "process_group" in given:
        group = dist.ProcessGroup.unbox(given["process_group"])
    else:
        group = _resolve_process_group(given["group_name"])
    name = func.name()
    root = given.get("root_rank", given.get("src")) if "broadcast" in name or "scatter_" in name else None
    return group.size(), group.rank(), None if "reduce_scatter" in name else root


def _share(times: int) -> Sent:
    return lambda n, nbytes: Fraction(times * (n - 1) * nbytes, n)


def _all(n: int, nbytes: int) -> Fraction:
    return Fraction(nbytes)


def _none(n: int, nbytes: int) -> Fraction:
    return Fraction(0)


# name of the operation in torch: what we call it, which argument holds the whole, and the bytes a rank sends of it
_OPERATIONS: dict[str, tuple[str, int, Sent]] = {
    "c10d::allreduce_": ("all_reduce", 0, _share(2)),
    "c10d::allreduce_coalesced_": ("all_reduce", 0, _share(2)),
    "c10d::_allgather_base_": ("all_gather", 0, _share(1)),
    "c10d::allgather_": ("all_gather", 0, _share(1)),
    "c10d::allgather_into_tensor_coalesced_": ("all_gather", 0, _share(1)),
    "c10d::_reduce_scatter_base_": ("reduce_scatter", 1, _share(1)),
    "c10d::reduce_scatter_": ("reduce_scatter", 1, _share(1)),
    "c10d::reduce_scatter_tensor_coalesced_": ("reduce_scatter", 1, _share(1)),
    "c10d::alltoall_base_": ("all_to_all", 1, _all),
    "c10d::alltoall_": ("all_to_all", 1, _all),
    "c10d::broadcast_": ("broadcast", 0, _all),
    "c10d::reduce_": ("reduce", 0, _all),
    "c10d::gather_": ("gather", 1, _all),
    "c10d::scatter_": ("scatter", 1, _share(1)),
    "c10d::send": ("send", 0, _all),
    "c10d::barrier": ("barrier", 0, _none),
    "_c10d_functional::all_reduce": ("all_reduce", 0, _share(2)),
    "_c10d_functional::all_gather_into_tensor": ("all_gather", 0, _share(1)),
    "_c10d_functional::reduce_scatter_tensor": ("reduce_scatter", 0, _share(1)),
    "_c10d_functional::all_to_all_single": ("all_to_all", 0, _all),
}
"""For `broadcast` and `scatter` the bytes are those of the root."""
