"""Transfer by freezing: the head alone, or the upper layers, are trained."""

from __future__ import annotations

from torch import nn

from bancada_peft._check import check_count
from bancada_peft.summary import TrainableSummary, trainable_summary
from bancada_peft.targets import select


def train_only(model: nn.Module, modules: str | tuple[str, ...]) -> TrainableSummary:
    """Freezes everything but the named modules (a head: `train_only(model, ("classifier",))`).

    Frozen tensors keep no gradient: one that they had is dropped, so that an optimizer cannot apply it.

    Args:
        modules: names or an expression, as targets are named; a module's parameters are trained wherever else they
            are used too (tied weights).

    Raises:
        ValueError: a name that matches nothing, or modules without parameters; the model is then as it was.
    """
    chosen = select(model, modules, "modules")
    trained = {id(parameter) for module in chosen.values() for parameter in module.parameters()}
    if not trained:
        raise ValueError(f"modules={modules!r}: {', '.join(chosen)} has no parameters")
    for parameter in model.parameters():
        parameter.requires_grad_(id(parameter) in trained and parameter.is_floating_point())
        if not parameter.requires_grad:
            parameter.grad = None
    return trainable_summary(model)


def train_upper_layers(model: nn.Module, count: int, also: tuple[str, ...] = ()) -> TrainableSummary:
    """Freezes everything but the last `count` layers, and the modules named by `also` (the head).

    Args:
        count: at least 1 and at most the number of layers, which are those of the model's longest `nn.ModuleList`.
        also: names of further modules to train.

    Raises:
        ValueError: a count outside its range, a model without layers, a name that matches nothing.
    """
    check_count("count", count)
    lists = [(path, module) for path, module in model.named_modules() if isinstance(module, nn.ModuleList)]
    path, layers = max(lists, key=lambda found: len(found[1]), default=("", nn.ModuleList()))
    if count > len(layers):
        raise ValueError(f"count={count}: the model has {len(layers)} layers" + (f", in {path!r}" if path else ""))
    upper = tuple(f"{path}.{index}" for index in range(len(layers) - count, len(layers)))
    return train_only(model, upper + tuple(also))
