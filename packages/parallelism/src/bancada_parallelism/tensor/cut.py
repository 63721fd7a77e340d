"""Which parameters of a module are shards of a larger one, and along which dimension."""

from __future__ import annotations

from torch import nn

from bancada_parallelism._check import check_count


def cut_parameters(module: nn.Module) -> dict[nn.Parameter, int]:
    """The parameters that are cut over the tensor ranks, each with the dimension; every other one is whole on all.

    A layer says so by a class attribute `CUT`, as the cut layers of this package do: `CUT = {"weight": 0, "bias": 0}`.

    Raises:
        ValueError: a dimension in `CUT` is no whole number of at least 0.
    """
    found: dict[nn.Parameter, int] = {}
    for path, inner in module.named_modules():
        for name, dim in getattr(inner, "CUT", {}).items():
            parameter = getattr(inner, name)
            if parameter is not None:
                found[parameter] = check_count(f"{path}: CUT[{name!r}]", dim, 0)
    return found
