"""Calls and bytes of every collective of one step, by whatever library: counted where it enters torch's dispatcher.

DDP's reducer in C++, FSDP, DTensor, DeepSpeed, pipelining's sends: all go through the operators `c10d::*` or
`_c10d_functional::*`, and a dispatch mode sees those with their arguments. What counts is the logical payload at the
call, whatever the backend then puts on the wire (gloo's reduce-scatter, for one, sends like an all-reduce):

| name | bytes of one call |
|---|---|
| `all_reduce`, `broadcast`, `reduce`, `send`, `recv` | the whole tensor |
| `all_gather`, `gather` | the whole gathered buffer |
| `reduce_scatter`, `scatter` | the whole buffer before it is dealt out |
| `all_to_all` | what this rank gives, its own part included |
| `barrier` | 0 |

One call of a coalesced operation counts once, with the bytes of all its tensors. `broadcast`, `gather`, `scatter` and
`reduce` count alike on every rank of the group, root or not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

NAMES = (
    "all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "send", "recv", "barrier", "gather",
    "scatter", "reduce",
)  # fmt: skip


class Communications(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the collectives called on this rank while it is entered.

    Attributes:
        calls: how often each of `NAMES` was called.
        bytes: their logical bytes, as the module's table says.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # hiding this mode from the compiler would import the compiler: seconds, on every rank

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Runs the operation; counts it first where it is a collective."""
        if any(kind.__module__.startswith("torch.distributed.") for kind in types):
            return NotImplemented  # DTensor first comes down to collectives of plain tensors
        name = str(func) if isinstance(func, torch._ops.OpOverload) else ""
        given = _arguments(func, args, kwargs or {}) if name.startswith(("c10d.", "_c10d_functional.")) else {}
        for operation, size in _counted(name, given):
            self.calls[operation] += 1
            self.bytes[operation] += size
        return func(*args, **(kwargs or {}))

    def figures(self) -> dict[str, int]:
        """`comm.NAME.calls` and `comm.NAME.bytes` of what was called, and `comm.bytes` of all together."""
        found = {f"comm.{name}.calls": self.calls[name] for name in NAMES if self.calls[name]}
        found |= {f"comm.{name}.bytes": self.bytes[name] for name in NAMES if self.calls[name]}
        return found | {"comm.bytes": sum(self.bytes.values())}


def seen_by_profiler(call: Callable[[], object]) -> int:
    """How many collectives torch's profiler sees in `call()`: a mode does not see into operators written in Python."""
    with torch.autograd.profiler.profile() as profiler:
        call()
    assert profiler.kineto_results is not None
    names = [_bare(event.name()) for event in profiler.kineto_results.events()]
    return sum(name.startswith("c10d::") and name in _OPERATIONS for name in names)


def _arguments(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of an operator by their names in its schema."""
    named = {argument.name: args[place] for place, argument in enumerate(func._schema.arguments) if place < len(args)}
    return named | dict(kwargs)


def _counted(name: str, given: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """What an operator's call counts as: one collective, or (in a batch of sends and receives) several, or none."""
    bare = _bare(name)
    if bare in _OPERATIONS:
        operation, payload, times_group = _OPERATIONS[bare]
        yield operation, _size(given[payload]) * (_group_size(given) if times_group else 1)
    elif bare == "_c10d_functional::batch_p2p_ops":
        for operation, tensor in zip(given["op_list"], given["tensors"], strict=True):
            yield ("send" if "send" in operation else "recv"), _size(tensor)


def _bare(name: str) -> str:
    """An operator's name as in the table: `c10d.allreduce_.default` and `c10d::allreduce_` are both the latter."""
    return name.removesuffix(".default").removesuffix("_out").replace(".", "::")


def _size(value: Any) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in _tensors(value))


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def _group_size(given: Mapping[str, Any]) -> int:
    if "group_size" in given:
        return int(given["group_size"])
    group = given["process_group"]
    return int((group if isinstance(group, dist.ProcessGroup) else dist.ProcessGroup.unbox(group)).size())


# operator of torch: what it counts as, the argument that holds the payload, and whether it holds one rank's part only
_OPERATIONS: dict[str, tuple[str, str, bool]] = {
    "c10d::allreduce_": ("all_reduce", "tensors", False),
    "c10d::allreduce_coalesced_": ("all_reduce", "tensors", False),
    "c10d::_allgather_base_": ("all_gather", "output_tensor", False),
    "c10d::allgather_": ("all_gather", "output_tensors", False),
    "c10d::allgather_coalesced_": ("all_gather", "output_lists", False),
    "c10d::allgather_into_tensor_coalesced_": ("all_gather", "outputs", False),
    "c10d::_reduce_scatter_base_": ("reduce_scatter", "input_tensor", False),
    "c10d::reduce_scatter_": ("reduce_scatter", "input_tensors", False),
    "c10d::reduce_scatter_tensor_coalesced_": ("reduce_scatter", "inputs", False),
    "c10d::alltoall_base_": ("all_to_all", "input", False),
    "c10d::alltoall_": ("all_to_all", "input_tensors", False),
    "c10d::broadcast_": ("broadcast", "tensors", False),
    "c10d::reduce_": ("reduce", "tensors", False),
    "c10d::gather_": ("gather", "input_tensors", True),
    "c10d::scatter_": ("scatter", "output_tensors", True),
    "c10d::send": ("send", "tensors", False),
    "c10d::recv_": ("recv", "tensors", False),
    "c10d::recv_any_source_": ("recv", "tensors", False),
    "c10d::barrier": ("barrier", "device_ids", False),
    "c10d::monitored_barrier_": ("barrier", "device_ids", False),
    "_c10d_functional::all_reduce": ("all_reduce", "input", False),
    "_c10d_functional::all_reduce_": ("all_reduce", "input", False),
    "_c10d_functional::all_reduce_coalesced": ("all_reduce", "inputs", False),
    "_c10d_functional::all_reduce_coalesced_": ("all_reduce", "inputs", False),
    "_c10d_functional::all_gather_into_tensor": ("all_gather", "input", True),
    "_c10d_functional::all_gather_into_tensor_coalesced": ("all_gather", "inputs", True),
    "_c10d_functional::reduce_scatter_tensor": ("reduce_scatter", "input", False),
    "_c10d_functional::reduce_scatter_tensor_coalesced": ("reduce_scatter", "inputs", False),
    "_c10d_functional::all_to_all_single": ("all_to_all", "input", False),
    "_c10d_functional::broadcast": ("broadcast", "input", False),
    "_c10d_functional::broadcast_": ("broadcast", "input", False),
    "_c10d_functional::isend": ("send", "tensor", False),
    "_c10d_functional::irecv": ("recv", "tensor", False),
}
