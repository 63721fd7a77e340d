"""A unit: parameters that are flattened, padded and sharded together."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn


class Unit:
    """Named parameters as one flat tensor of `ranks` equal shards; the last ones end in zeros.

    Raises:
        ValueError: parameters of several dtypes or devices, or of a dtype other than fp32 and fp64.
    """

    def __init__(self, named: Mapping[str, nn.Parameter], ranks: int, rank: int) -> None:
        self.named = dict(named)
        kinds = {(p.dtype, p.device) for p in self.named.values()}
        if len(kinds) != 1:
            found = ", ".join(sorted(map(str, kinds)))
            raise ValueError(f"unit of {', '.join(self.named)}: {found}; must be one dtype and device")
        ((self.dtype, self.device),) = kinds
        if self.dtype not in (torch.float32, torch.float64):
            raise ValueError(f"unit of {', '.join(self.named)}: dtype {self.dtype}; allowed are fp32 and fp64")
        self.shapes = {name: p.shape for name, p in self.named.items()}
        self.numel = sum(p.numel() for p in self.named.values())
        self.shard_numel = -(-self.numel // ranks)
        self.padded = self.shard_numel * ranks
        self._first = rank * self.shard_numel

    def flatten(self, tensors: Mapping[str, Tensor | None]) -> Tensor:
        """One padded flat tensor of tensors by name; zeros stand for None."""
        flat = torch.zeros(self.padded, dtype=self.dtype, device=self.device)
        for name, view in self.views(flat).items():
            tensor = tensors[name]
            if tensor is not None:
                view.copy_(tensor.detach())
        return flat

    def views(self, flat: Tensor) -> dict[str, Tensor]:
        """The tensors inside a flat one, by name."""
        sizes = [shape.numel() for shape in self.shapes.values()]
        pieces = torch.split(flat[: self.numel], sizes)
        return {name: piece.view(shape) for (name, shape), piece in zip(self.shapes.items(), pieces, strict=True)}

    def own(self, flat: Tensor) -> Tensor:
        """This rank's shard of a flat tensor."""
        return flat[self._first : self._first + self.shard_numel]

    def pieces(self, shard: Tensor) -> dict[str, Tensor]:
        """What this rank's shard holds of each tensor, by name; of the padding nothing."""
        found: dict[str, Tensor] = {}
        start = -self._first
        for name, shape in self.shapes.items():
            end = start + shape.numel()
            if end > 0 and start < self.shard_numel:
                found[name] = shard[max(start, 0) : end]
            start = end
        return found

    def gradients(self) -> dict[str, Tensor | None]:
        """What autograd left at the parameters."""
        return {name: p.grad for name, p in self.named.items()}
