"""Activation checkpointing: forward keeps a function's inputs only, backward runs it again.

Chen et al., Training Deep Nets with Sublinear Memory Cost, arXiv 1604.06174. What autograd would save is replaced by
a number; the first of them that backward asks for makes the function run again, with the random state and the
autocast state of its first run, and the others are taken from that run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks


def checkpoint(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """`function(*args, **kwargs)`, of which only the arguments are kept for backward.

    Args:
        function: must compute the same when run again from the same random state.
        args, kwargs: tensors, and anything else, passed on.

    Raises:
        ValueError: `function` cannot be called.
        RuntimeError (in backward): a tensor among the arguments was changed in place since, or the second run saved
            other tensors than the first.

    Memory: the arguments, and in backward the activations of one function at a time. Time: one more forward.
    """
    if not callable(function):
        raise ValueError(f"function={function!r}: must be callable")
    if not torch.is_grad_enabled():
        return function(*args, **kwargs)
    frame = _Frame(function, args, kwargs)
    with saved_tensors_hooks(frame.leave_out, frame.fetch):
        return function(*args, **kwargs)


class _Frame:
    """One call of a function: its arguments, the state around it, and what its second run saved."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.function, self.args, self.kwargs = function, args, kwargs
        self.tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
        self.versions = [tensor._version for tensor in self.tensors]
        self.devices = sorted({tensor.device.index or 0 for tensor in self.tensors if tensor.is_cuda})
        self.random = torch.get_rng_state(), [torch.cuda.get_rng_state(device) for device in self.devices]
        kinds = sorted({"cpu", *(tensor.device.type for tensor in self.tensors)})
        self.autocast = [(kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in kinds]
        self.left_out: list[tuple[torch.Size, torch.dtype]] = []
        self.saved: dict[int, Tensor] = {}

    def leave_out(self, tensor: Tensor) -> int:
        """Called by autograd in forward: keeps a number in place of the tensor."""
        self.left_out.append((tensor.shape, tensor.dtype))
        return len(self.left_out) - 1

    def fetch(self, number: int) -> Tensor:
        """Called by autograd in backward: the tensor, which then goes away."""
        if number not in self.saved:
            self._run_again()
        return self.saved.pop(number)

    def _run_again(self) -> None:
        if [tensor._version for tensor in self.tensors] != self.versions:
            raise RuntimeError("checkpoint: an argument was changed in place between forward and backward")
        saved: list[Tensor] = []

        def keep(tensor: Tensor) -> Tensor:
            saved.append(tensor.detach())
            return tensor.detach()

        with self._as_before(), torch.enable_grad(), saved_tensors_hooks(keep, lambda tensor: tensor):
            self.function(*map(_detached, self.args), **{name: _detached(v) for name, v in self.kwargs.items()})
        if [(tensor.shape, tensor.dtype) for tensor in saved] != self.left_out:
            raise RuntimeError(
                f"checkpoint: the second run saved {len(saved)} tensors unlike the first's {len(self.left_out)}: "
                "the function does not compute the same again"
            )
        self.saved = dict(enumerate(saved))

    @contextmanager
    def _as_before(self) -> Iterator[None]:
        """The random state and autocast of the first run; the present random state comes back after."""
        with ExitStack() as stack:
            stack.enter_context(torch.random.fork_rng(self.devices))
            torch.set_rng_state(self.random[0])
            for device, state in zip(self.devices, self.random[1], strict=True):
                torch.cuda.set_rng_state(state, device)
            for kind, enabled, dtype in self.autocast:
                stack.enter_context(torch.autocast(kind, dtype=dtype, enabled=enabled, cache_enabled=False))
            yield


def _detached(value: Any) -> Any:
    return value.detach().requires_grad_(value.requires_grad) if isinstance(value, Tensor) else value
