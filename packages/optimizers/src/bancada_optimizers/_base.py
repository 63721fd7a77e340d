"""What the optimizers share: refusals before any change, the closure, and a state that loads as it was saved."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from bancada_optimizers import _check

Group = dict[str, Any]


class BaseOptimizer(torch.optim.Optimizer):
    """A torch optimizer whose groups are checked, and whose state keeps its dtypes.

    Options, `backend` included, live in the parameter groups as plain values: they are saved, copied and pickled
    with the rest. Step counters belong to a parameter, so that one that joins late begins at its own first step.
    """

    def __init__(self, params: Any, defaults: Group) -> None:
        self.check_group(defaults)
        super().__init__(params, {**defaults, "differentiable": False})  # torch adds it to copies; so to all

    def check_group(self, group: Mapping[str, Any]) -> None:
        """ValueError where an option of a group is wrong."""
        raise NotImplementedError

    def fill_group(self, group: Mapping[str, Any]) -> Group:
        """The group with this optimizer's defaults where it says nothing."""
        return {**self.defaults, **group}

    def init_state(self, p: Tensor, group: Group) -> dict[str, Any]:
        """The state of a parameter that is about to take its first step."""
        raise NotImplementedError

    def update(self, group: Group, params: list[Tensor], grads: list[Tensor], states: list[dict[str, Any]]) -> None:
        """Steps the parameters of a group that have a gradient."""
        raise NotImplementedError

    def add_param_group(self, param_group: Group) -> None:
        """Adds a group; ValueError for a wrong option or a parameter that cannot be stepped, with nothing changed."""
        if not isinstance(param_group, dict) or "params" not in param_group:
            raise ValueError(f"param_group={param_group!r}: must be a dict with `params`")
        params = param_group["params"]
        group = self.fill_group({**param_group, "params": [params] if isinstance(params, Tensor) else list(params)})
        self.check_group(group)
        self.check_params(group)
        super().add_param_group(group)

    def check_params(self, group: Group) -> None:
        """ValueError where a parameter of the group cannot be stepped."""
        for item in group["params"]:
            p = item[1] if isinstance(item, tuple) else item
            if isinstance(p, Tensor):  # torch refuses the rest, and says so
                _check.parameter(p)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One update of every parameter that has a gradient; gradients are only read.

        Args:
            closure: computes the loss again, with gradients enabled.

        Returns:
            what the closure returned, or None.

        Raises:
            ValueError: a sparse gradient or a wrong option in a group, with no parameter and no state changed.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            self.check_group(group)
            for p in group["params"]:
                _check.gradient(p)
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            if params:
                self.update(group, params, [p.grad for p in params], [self._state_of(p, group) for p in params])
        return loss

    def _state_of(self, p: Tensor, group: Group) -> dict[str, Any]:
        state: dict[str, Any] = self.state[p]
        if not state:
            state = self.state[p] = self.init_state(p, group)
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes over a saved state, this optimizer's or that of its namesake in torch.optim.

        Tensors are copied, so that two optimizers never share one, and keep the dtype they were saved in
        (torch casts them to the parameter's). ValueError for a state that this optimizer does not have or an option
        that it does not offer, with nothing changed.
        """
        saved = state_dict["param_groups"]
        for group in saved:
            self.check_group(self.fill_group({name: _plain(value) for name, value in group.items()}))
        ids = list(chain.from_iterable(group["params"] for group in saved))
        owners = list(chain.from_iterable(group["params"] for group in self.param_groups))
        by_id = dict(zip(ids, owners, strict=False))
        of_id = {key: self.fill_group(group) for group in saved for key in group["params"]}
        for key, state in state_dict["state"].items():
            if key in by_id:
                self.check_state(by_id[key], of_id[key], state)
        groups_only = {"state": {}, "param_groups": saved}
        super().load_state_dict(groups_only)
        self.param_groups = [
            self.fill_group({name: _plain(value) for name, value in group.items()}) for group in self.param_groups
        ]
        for key, state in state_dict["state"].items():
            if key in by_id:
                p = by_id[key]
                self.state[p] = {name: self._own(p, name, value) for name, value in state.items()}

    def check_state(self, p: Tensor, group: Group, state: Mapping[str, Any]) -> None:
        """ValueError where a saved state is not one of this optimizer for a parameter like `p` in its saved group."""
        own = self.init_state(p, group)
        if set(state) != set(own):
            raise ValueError(f"state_dict: a state has {sorted(state)}; must have {sorted(own)}")
        for name, value in state.items():
            if isinstance(own[name], Tensor) and tuple(torch.as_tensor(value).shape) != tuple(own[name].shape):
                raise ValueError(
                    f"state_dict: {name} has shape {list(value.shape)} for a parameter of shape {list(p.shape)}; "
                    f"must be {list(own[name].shape)}"
                )

    def _group_of(self, p: Tensor) -> Group:
        return next(group for group in self.param_groups if any(p is one for one in group["params"]))

    def _own(self, p: Tensor, name: str, value: Any) -> Any:
        if name == "step":
            return torch.as_tensor(value, dtype=torch.float32).detach().to("cpu", copy=True)
        if not isinstance(value, Tensor):
            return value
        # Laid out as the parameter is, whatever the saved one was: the fused versions step both as they lie in memory.
        like = (
            torch.empty_like(p, dtype=value.dtype)
            if value.shape == p.shape
            else torch.empty_like(value, device=p.device)
        )
        return like.copy_(value)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Copies and pickles: groups written by an older version get today's defaults."""
        super().__setstate__(state)
        self.param_groups = [self.fill_group(group) for group in self.param_groups]


def _plain(value: Any) -> Any:
    """torch's optimizers may keep a rate as a tensor; here it is a number, so that nothing shares it."""
    return value.item() if isinstance(value, Tensor) and value.numel() == 1 else value


def state_dtype(p: Tensor) -> torch.dtype:
    """The dtype of a parameter's moments: its own, but fp32 for the half types."""
    return p.dtype if p.dtype in (torch.float32, torch.float64) else torch.float32


def zeros(p: Tensor) -> Tensor:
    """A moment of zeros, laid out in memory as the parameter is."""
    return torch.zeros_like(p, dtype=state_dtype(p), memory_format=torch.preserve_format)


def same_layout(first: Tensor, *others: Tensor) -> bool:
    """Whether tensors lie alike in memory, so that they may be stepped as flat arrays. One of them must be a moment.

    A moment of `zeros` has no gaps, so tensors with its strides have none either.
    """
    strides = first.stride()
    for tensor in others:  # noqa: SIM110 (a generator takes twice the time, at every parameter of every step)
        if tensor.stride() != strides:
            return False
    return True


def state_bytes(optimizer: torch.optim.Optimizer) -> int:
    """Bytes that the state of a torch optimizer holds: every tensor, tensors inside tensor subclasses included.

    Shared storage counts once; a step counter counts too.
    """
    found: dict[int, int] = {}

    def note(value: Any) -> None:
        if isinstance(value, Tensor):
            names = getattr(value, "__tensor_flatten__", None)
            if names is not None and type(value) is not Tensor:
                for name in names()[0]:
                    note(getattr(value, name))
                return
            storage = value.untyped_storage()
            found[storage.data_ptr()] = storage.nbytes()
        elif isinstance(value, Mapping):
            for one in value.values():
                note(one)
        elif isinstance(value, (list, tuple)):
            for one in value:
                note(one)

    for state in optimizer.state.values():
        note(state)
    return sum(found.values())
