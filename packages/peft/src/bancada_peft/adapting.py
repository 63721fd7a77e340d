"""Named adapters on a model: put on, switched, disabled, taken off. A refused call leaves the model as it was."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from torch import nn

from bancada_peft._check import check_name
from bancada_peft.layers import AdaptedModule, Adapter, attach, detach
from bancada_peft.methods import Method
from bancada_peft.saved import SavedModule, shared_outside
from bancada_peft.summary import TrainableSummary, trainable_summary
from bancada_peft.targets import select

_RECORD = "_bancada_peft"


@dataclass
class Record:
    """What a model remembers: the settings of its adapters, and which parameters could be trained before."""

    methods: dict[str, Method] = field(default_factory=dict)
    active: str | None = None
    merged: str | None = None
    requires_grad: dict[str, bool] = field(default_factory=dict)


def adapt(model: nn.Module, method: Method, name: str = "default") -> TrainableSummary:
    """Freezes a model and puts a named, active adapter on it, in place.

    Args:
        model: any module; its layers stay the same objects under the same names.
        method: the settings, such as `Lora(target_modules=("q_proj", "v_proj"), r=8)`.
        name: under which the adapter is switched to, saved and deleted.

    Returns:
        how many parameters are now trained, of how many.

    Raises:
        ValueError: a name taken or not allowed, a target that matches nothing or cannot have such an adapter, a module
            to save whose weights are tied, an adapter merged. The model is then as it was.
    """
    return install(model, method, name, prepare(model, method, name))


def prepare(model: nn.Module, method: Method, name: str) -> dict[str, Adapter]:
    """The adapters that `adapt` would put on, by path; nothing is attached."""
    check_name(name)
    if not isinstance(method, Method):
        raise ValueError(f"method={method!r}: must be the settings of a method, such as Lora(...)")
    record = record_of(model)
    if name in record.methods:
        raise ValueError(f"name={name!r}: the model has such an adapter; its adapters are {_names(record)}")
    _refuse_merged(record, "adapt")
    if not record.methods and (others := adapted_modules(model)):
        raise ValueError(f"model: {next(iter(others))!r} has an adapter that was put on another part or a whole of it")
    saved = select(model, method.modules_to_save, "modules_to_save") if method.modules_to_save else {}
    for path, module in saved.items():
        if tied := shared_outside(model, module):
            raise ValueError(f"modules_to_save: {path!r} shares weights with {', '.join(tied)}: a copy unties them")
    targets = method.targets(model)
    for path in targets:
        if inside := [outer for outer in saved if path == outer or path.startswith(f"{outer}.")]:
            raise ValueError(f"target_modules: {path!r} lies in {inside[0]!r}, of which modules_to_save makes a copy")
    found: dict[str, Adapter] = {path: method.build(path, module) for path, module in targets.items()}
    return found | {path: SavedModule(module) for path, module in saved.items()}


def install(model: nn.Module, method: Method, name: str, adapters: Mapping[str, Adapter]) -> TrainableSummary:
    """Attaches prepared adapters and makes them the active one."""
    record, modules = record_of(model), dict(model.named_modules())
    flags = {path: parameter.requires_grad for path, parameter in model.named_parameters()}
    try:
        for path, adapter in adapters.items():
            attach(modules[path], name, adapter)
    except BaseException:
        for module in modules.values():
            detach(module, name)
        raise
    if not record.methods:
        record.requires_grad = flags
        model.__dict__[_RECORD] = record
    record.methods[name] = method
    use_adapter(model, name)
    return trainable_summary(model)


def use_adapter(model: nn.Module, name: str | None) -> None:
    """Makes one adapter active, and it alone trainable; None: the plain model, nothing trainable.

    Raises:
        ValueError: no such adapter, or one is merged.
    """
    record = _known(model, name)
    _refuse_merged(record, "switch")
    record.active = name
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    for module in adapted_modules(model).values():
        module.active = name if name is not None and name in module.adapters else None
        if module.active is not None:
            for parameter in module.adapters[module.active].parameters():
                parameter.requires_grad_(parameter.is_floating_point())


@contextmanager
def disabled(model: nn.Module) -> Iterator[nn.Module]:
    """Inside `with`, the model is the plain one, to the bit; afterwards the adapter that was active is so again."""
    record = _known(model, None)
    _refuse_merged(record, "disable")
    before = {module: module.active for module in adapted_modules(model).values()}
    try:
        for module in before:
            module.active = None
        yield model
    finally:
        for module, active in before.items():
            module.active = active


def delete_adapter(model: nn.Module, name: str) -> None:
    """Takes an adapter off; with the last one the model is what it was, and so is what of it could be trained.

    Raises:
        ValueError: no such adapter, or it is merged.
    """
    record = _known(model, name)
    _refuse_merged(record, "delete")
    for module in adapted_modules(model).values():
        detach(module, name)
    del record.methods[name]
    if record.active == name:
        record.active = None
    if not record.methods:
        for path, parameter in model.named_parameters():
            parameter.requires_grad_(record.requires_grad.get(path, parameter.requires_grad))
        del model.__dict__[_RECORD]


def adapters_of(model: nn.Module) -> dict[str, Method]:
    """The settings of a model's adapters by name; empty where it has none."""
    return dict(record_of(model).methods)


def active_adapter(model: nn.Module) -> str | None:
    """The name of the active adapter, or None."""
    return record_of(model).active


def adapted_modules(model: nn.Module) -> dict[str, AdaptedModule]:
    """The layers that carry adapters, by path."""
    return {path: module for path, module in model.named_modules() if isinstance(module, AdaptedModule)}


def record_of(model: nn.Module) -> Record:
    """What a model remembers, or an empty record that it does not hold yet."""
    record = model.__dict__.get(_RECORD)
    return record if isinstance(record, Record) else Record()


def _known(model: nn.Module, name: str | None) -> Record:
    record = record_of(model)
    if not record.methods:
        raise ValueError("model: has no adapter; adapt() puts one on")
    if name is not None and name not in record.methods:
        raise ValueError(f"name={name!r}: the model's adapters are {_names(record)}")
    return record


def _refuse_merged(record: Record, verb: str) -> None:
    if record.merged is not None:
        raise ValueError(f"cannot {verb}: adapter {record.merged!r} is merged into the weights; unmerge() first")


def _names(record: Record) -> str:
    return ", ".join(sorted(record.methods)) or "none"
