"""What all quantised weights share, and the linear layer that computes with one.

A format is a dataclass of tensors and settings that can give back any rows of its matrix; the layer needs no more.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from bancada_compression._check import FLOATS

BLOCK_NUMBERS = 1 << 18
"""Weights that are dequantised at a time: a megabyte in float32, so that a block is multiplied while in the cache."""


@dataclass(frozen=True, eq=False)
class QuantizedWeight:
    """A matrix [out, in] in a quantised format: tensors (fields that are tensors) and settings (the others)."""

    format: ClassVar[str]
    shape: tuple[int, int]

    def dequantize_rows(self, first: int, last: int, dtype: torch.dtype) -> Tensor:
        """Rows first to last - 1 of the matrix."""
        raise NotImplementedError

    def dequantize(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """The whole matrix [out, in]."""
        return self.dequantize_rows(0, self.shape[0], dtype)

    def tensors(self) -> dict[str, Tensor]:
        """Everything stored, by name."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Tensor)}

    def settings(self) -> dict[str, Any]:
        """What one must know beside the tensors to read them: format, shape, bits, group, order of packing."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        plain = {name: value for name, value in values.items() if not isinstance(value, Tensor)}
        return {**plain, "format": self.format, "shape": list(self.shape)}

    def with_tensors(self, tensors: dict[str, Tensor]) -> Self:
        """The same settings over other tensors (moved, or loaded)."""
        return dataclasses.replace(self, **tensors)  # type: ignore[arg-type]

    @property
    def nbytes(self) -> int:
        """Bytes of all stored tensors: codes, scales, zero-points."""
        return sum(tensor.nbytes for tensor in self.tensors().values())


class Format(Protocol):
    """How to quantise: settings, and the layer they make of a weight [out, in] and a bias."""

    @property
    def name(self) -> str:
        """What a report calls the format."""

    def layer(self, weight: Tensor, bias: nn.Parameter | None = None) -> QuantizedLinear:
        """A layer with the quantised weight."""


class QuantizedLinear(nn.Module):
    """y = x W^T + b with W quantised: dequantised block by block, in the dtype of x, never held whole.

    The weight is a constant; gradients flow to x (computed from W dequantised once more) and to the bias. The tensors
    of the weight are buffers, and a cast of the module (`.half()`, `.to(torch.bfloat16)`) moves but never rounds them.
    The settings are stored with them, so that a state dict of other bits, group or order is refused.

    Args:
        weight: the quantised weight.
        bias: [out], or None.
    """

    bias: nn.Parameter | None

    def __init__(self, weight: QuantizedWeight, bias: nn.Parameter | None = None) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.shape
        if bias is not None and tuple(bias.shape) != (self.out_features,):
            raise ValueError(f"bias: shape {list(bias.shape)}; must be [out] = [{self.out_features}]")
        self._format = weight
        for name, tensor in weight.tensors().items():
            self.register_buffer(name, tensor)
        self._format = weight.with_tensors({})
        self.register_parameter("bias", bias)

    @property
    def quantized(self) -> QuantizedWeight:
        """The quantised weight, over this layer's buffers."""
        buffers = {name: tensor for name, tensor in self._buffers.items() if tensor is not None}
        return self._format.with_tensors(buffers)

    @property
    def weight(self) -> Tensor:
        """The dequantised weight [out, in], made anew at each access, in the dtype of the bias (float32 without)."""
        return self.quantized.dequantize(torch.float32 if self.bias is None else self.bias.dtype)

    def forward(self, x: Tensor) -> Tensor:
        """X W^T + b for x [..., in]; ValueError for another width or a dtype that is not floating."""
        if x.dim() == 0 or x.shape[-1] != self.in_features or x.dtype not in FLOATS:
            raise ValueError(f"x: {x.dtype} {list(x.shape)}; must be floating [..., in] with in = {self.in_features}")
        if torch.is_autocast_enabled(x.device.type):
            x = x.to(torch.get_autocast_dtype(x.device.type))
        with torch.autocast(x.device.type, enabled=False):
            out: Tensor = _Product.apply(x, self.quantized, self.product)  # type: ignore[no-untyped-call]
            return out if self.bias is None else out + self.bias.to(out.dtype)

    @staticmethod
    def product(x: Tensor, weight: QuantizedWeight) -> Tensor:
        """X W^T without a gradient; formats with a faster way have a layer that overrides it."""
        if x.shape[:-1].numel() == 0 or weight.shape[0] <= _rows_a_block(weight):
            return F.linear(x, weight.dequantize(x.dtype))
        out = x.new_empty(*x.shape[:-1], weight.shape[0])
        for first, last in blocks(weight):
            out[..., first:last] = F.linear(x, weight.dequantize_rows(first, last, x.dtype))
        return out

    def get_extra_state(self) -> Tensor:
        """The settings as JSON in a uint8 tensor, which every file format for tensors can hold."""
        return torch.tensor(list(json.dumps(self._format.settings(), sort_keys=True).encode()), dtype=torch.uint8)

    def set_extra_state(self, state: Tensor) -> None:
        """ValueError unless the loaded settings are this layer's."""
        found, own = json.loads(bytes(state.tolist())), self._format.settings()
        if found != own:
            raise ValueError(f"state: quantised as {found}; this layer is {own}")

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        before = dict(self._buffers)
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, old in before.items():
            new = self._buffers[name]
            if old is not None and new is not None and new.dtype != old.dtype:
                self._buffers[name] = old.to(new.device)
        return self

    def extra_repr(self) -> str:
        """What `print(model)` shows of a layer."""
        settings = ", ".join(f"{name}={value}" for name, value in self._format.settings().items() if name != "shape")
        return f"in_features={self.in_features}, out_features={self.out_features}, {settings}"


class _Product(torch.autograd.Function):
    """X W^T, whose gradient dX = dY W takes W from its quantised form again instead of keeping it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: QuantizedWeight, product: Callable[..., Tensor]) -> Tensor:
        ctx.weight, ctx.dtype = weight, x.dtype
        return product(x, weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None, None]:
        weight = ctx.weight
        summing = torch.promote_types(grad.dtype, torch.float32)
        dx = torch.zeros(*grad.shape[:-1], weight.shape[1], dtype=summing, device=grad.device)
        for first, last in blocks(weight):
            dx += grad[..., first:last] @ weight.dequantize_rows(first, last, grad.dtype)
        return dx.to(ctx.dtype), None, None


def _rows_a_block(weight: QuantizedWeight) -> int:
    return max(1, BLOCK_NUMBERS // weight.shape[1])


def blocks(weight: QuantizedWeight) -> Iterator[tuple[int, int]]:
    """The rows, first and after the last, that are multiplied at a time."""
    rows = _rows_a_block(weight)
    for first in range(0, weight.shape[0], rows):
        yield first, min(first + rows, weight.shape[0])
