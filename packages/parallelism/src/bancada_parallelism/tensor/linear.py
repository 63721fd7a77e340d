"""Column- and row-parallel linear layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from bancada_parallelism._check import check_divides
from bancada_parallelism.layout import Layout
from bancada_parallelism.tensor.functions import copy_to_ranks, reduce_from_ranks


def _shard(tensor: Tensor, dim: int, layout: Layout) -> nn.Parameter:
    return nn.Parameter(tensor.detach().chunk(layout.size("tensor"), dim)[layout.rank("tensor")].clone())


class ColumnParallelLinear(nn.Module):
    """Y_r = X A_r^T + b_r: a rank has out/n rows of the weight [out, in], and computes out/n of the features.

    Args:
        linear: the whole layer, the same on every rank; a shard of it is copied.
        layout: the ranks along its `tensor` axis share the layer.
        copied: the input went through `copy_to_ranks` already: layers that share one (q, k and v) then share the
            all-reduce of its gradient too.

    The input [..., in] is whole on every rank, the output [..., out/n] is this rank's. Backward sums the input's
    gradient over the ranks (one all-reduce).

    Raises:
        ValueError: the number of output features does not divide by the tensor ranks.

    Paper: Shoeybi et al., Megatron-LM, arXiv 1909.08053.
    """

    CUT: ClassVar[Mapping[str, int]] = {"weight": 0, "bias": 0}

    def __init__(self, linear: nn.Linear, layout: Layout, *, copied: bool = False) -> None:
        super().__init__()
        check_divides("out_features", linear.out_features, layout.size("tensor"), "the tensor ranks")
        self._group = layout.group("tensor")
        self._copied = copied
        self.weight = _shard(linear.weight, 0, layout)
        self.bias = None if linear.bias is None else _shard(linear.bias, 0, layout)

    def forward(self, x: Tensor) -> Tensor:
        """This rank's features."""
        return nn.functional.linear(x if self._copied else copy_to_ranks(x, self._group), self.weight, self.bias)


class RowParallelLinear(nn.Module):
    """Y = sum_r X_r A_r^T + b: a rank has in/n columns of the weight [out, in], and takes in/n of the features.

    Args:
        linear, layout: as for `ColumnParallelLinear`.

    The input [..., in/n] is what a column-parallel layer left, the output [..., out] is whole on every rank (one
    all-reduce). The bias is whole on every rank and is added once.

    Raises:
        ValueError: the number of input features does not divide by the tensor ranks.

    Paper: Shoeybi et al., Megatron-LM, arXiv 1909.08053.
    """

    CUT: ClassVar[Mapping[str, int]] = {"weight": 1}

    def __init__(self, linear: nn.Linear, layout: Layout) -> None:
        super().__init__()
        check_divides("in_features", linear.in_features, layout.size("tensor"), "the tensor ranks")
        self._group = layout.group("tensor")
        self.weight = _shard(linear.weight, 1, layout)
        self.bias = None if linear.bias is None else nn.Parameter(torch.clone(linear.bias.detach()))

    def forward(self, x: Tensor) -> Tensor:
        """The whole output."""
        whole = reduce_from_ranks(nn.functional.linear(x, self.weight), self._group)
        return whole if self.bias is None else whole + self.bias
