"""ZeRO stage 3: parameters sharded too; a unit's are whole only while it computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from bancada_parallelism._calls import all_gather_flat
from bancada_parallelism.layout import Layout
from bancada_parallelism.zero.adamw import AdamWConfig
from bancada_parallelism.zero.base import nbytes
from bancada_parallelism.zero.bytes import ModelState
from bancada_parallelism.zero.sharded import ShardedGradients


class ZeroStage3(ShardedGradients):
    """Every module in `units`, and what is in none of them, is gathered for its forward and again for its backward.

    A rank holds 16P/N bytes in fp32 between steps, and sends 3(N-1)/N P elements a step. Outside of its unit's forward
    and backward a parameter is an empty tensor; `full_state` has the whole values. Every rank must run the same units
    in the same order. `p.grad` is None after `finish`, but where `no_sync` keeps it.

    Args:
        module, layout, config: as at stage 1.
        units: modules inside `module` that are called as a whole (a Transformer's blocks), none inside another.

    Raises:
        ValueError: as at stage 1; a unit that is no part of the module or lies in another; a parameter in two units
            (tied weights must be in the same one, or in none).

    Paper: Rajbhandari et al., ZeRO, arXiv 1910.02054.
    """

    stage = 3

    def __init__(
        self,
        module: nn.Module,
        layout: Layout,
        config: AdamWConfig | None = None,
        *,
        units: Sequence[nn.Module] = (),
    ) -> None:
        modules, groups = _divide(module, units)
        super().__init__(module, layout, groups)
        self.config = config or self.config
        self._full, self._parameters = [], []
        self._whole = [True] * len(self.units)
        self._reduced: set[int] = set()
        for number, unit in enumerate(self.units):
            flat = unit.flatten(unit.named)
            self._parameters.append(unit.own(flat).clone())
            self._full.append(flat)
            self._release(number)
            for parameter in unit.named.values():
                parameter.register_post_accumulate_grad_hook(self._gradient_hook(number))  # type: ignore[no-untyped-call]
            modules[number].register_forward_pre_hook(self._before_forward(number))
            modules[number].register_forward_hook(self._after_forward(number), always_call=True)

    def parameter_shards(self) -> list[Tensor]:
        """This rank's shards."""
        return self._parameters

    def zero_grad(self) -> None:
        """Sets the shards to zeros, and forgets whole gradients left by `no_sync`."""
        torch._foreach_zero_(self._shards)
        for unit in self.units:
            for parameter in unit.named.values():
                parameter.grad = None
        self._finished = False

    def state_bytes(self) -> ModelState:
        """Bytes of model state that this rank holds now, counted from its tensors."""
        whole = sum(flat.untyped_storage().nbytes() for flat in self._full)
        kept = [p.grad for unit in self.units for p in unit.named.values() if p.grad is not None]
        gradients = nbytes(self._shards) + nbytes(kept)
        return ModelState(nbytes(self._parameters) + whole, gradients, self._optimizer_bytes())

    # Whole and sharded

    def _make_whole(self, number: int) -> None:
        if self._whole[number]:
            return
        unit, flat = self.units[number], self._full[number]
        # The same storage is filled again, so that what autograd saved of a parameter in forward is right in backward.
        flat.untyped_storage().resize_(flat.numel() * flat.element_size())
        all_gather_flat(flat, self._parameters[number], self._group)
        for name, view in unit.views(flat).items():
            unit.named[name].data = view
        self._whole[number] = True

    def _release(self, number: int) -> None:
        for parameter in self.units[number].named.values():
            parameter.data = parameter.data.new_empty(0)  # reading a freed storage would end the process
        self._full[number].untyped_storage().resize_(0)
        self._whole[number] = False

    def _before_forward(self, number: int) -> Callable[..., None]:
        def gather(module: nn.Module, args: Any) -> None:
            self._make_whole(number)

        return gather

    def _after_forward(self, number: int) -> Callable[..., None]:
        def release(module: nn.Module, args: Any, output: Any) -> None:
            if torch._C._current_graph_task_id() != -1:
                return  # a checkpoint computes the unit again inside backward, which goes on with its parameters
            self._release(number)
            for tensor in _tensors(output):
                if tensor.requires_grad:
                    tensor.register_hook(lambda gradient: self._make_whole(number))  # type: ignore[no-untyped-call]

        return release

    def _gradient_hook(self, number: int) -> Callable[[Tensor], None]:
        def ready(parameter: Tensor) -> None:
            if self._sync and (self._finished or number in self._reduced):
                raise RuntimeError("backward ran again before zero_grad(): wrap all but a step's last in no_sync()")
            self._ready[number].add(parameter)
            if len(self._ready[number]) == len(self.units[number].named):
                self._ready[number].clear()
                if self._sync:
                    self._reduce(number)
                self._release(number)

        return ready

    def _reduce(self, number: int) -> None:
        self._start_reduction(number)
        self._reduced.add(number)

    def _reduce_rest(self) -> None:
        for number in range(len(self.units)):
            if number not in self._reduced:
                self._reduce(number)
            if self._whole[number]:
                self._release(number)
            self._ready[number].clear()
        self._wait()
        self._reduced.clear()

    def _spread(self) -> None:
        """Nothing: the next forward gathers."""


def _divide(module: nn.Module, units: Sequence[nn.Module]) -> tuple[list[nn.Module], list[dict[str, nn.Parameter]]]:
    """The modules to hook and the trainable parameters of each: the units', then the rest, which is the root's."""
    names = {id(inner): name for name, inner in module.named_modules()}
    for unit in units:
        if id(unit) not in names or unit is module:
            raise ValueError(f"units: {type(unit).__name__} is no module inside {type(module).__name__}")
    paths = [names[id(unit)] for unit in units]
    for path in paths:
        inside = [other for other in paths if other.startswith(f"{path}.")]
        if inside or paths.count(path) > 1:
            raise ValueError(f"units: {path} holds {', '.join(inside) or 'itself twice'}; units must not overlap")
    owners: dict[nn.Parameter, tuple[str, int]] = {}
    groups: list[dict[str, nn.Parameter]] = [{} for _ in range(len(paths) + 1)]
    for name, parameter in module.named_parameters(remove_duplicate=False):
        if not parameter.requires_grad:
            continue
        owner = next((i for i, path in enumerate(paths) if name.startswith(f"{path}.")), len(paths))
        first, before = owners.setdefault(parameter, (name, owner))
        if before != owner:
            raise ValueError(f"units: {first} and {name} are one parameter in two units: tied weights must share one")
        if first == name:
            groups[owner][name] = parameter
    kept = [(inner, group) for inner, group in zip([*units, module], groups, strict=True) if group]
    return [inner for inner, _ in kept], [group for _, group in kept]


def _tensors(value: Any) -> Iterator[Tensor]:
    """The tensors of a module's output: alone, or in tuples, lists, dicts and dict-like outputs."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
