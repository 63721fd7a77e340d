"""Which examples an update sees: by seed and update alone, so that every contender of a race sees the same."""

# ruff: noqa: F722  (axis names in jaxtyping strings are no Python expressions)
from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from jaxtyping import Int64


def stream_seed(*parts: int | str) -> int:
    """A seed for torch's generators from the given words and numbers; different ones give unrelated seeds."""
    digest = hashlib.sha256("/".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


class Order:
    """Batches without replacement: each epoch a new permutation, batches run on across the ends of epochs.

    Args:
        examples: how many there are.
        batch_size: examples an update.
        seed: of the permutations.

    Raises:
        ValueError: fewer than one example, or than one a batch.
    """

    def __init__(self, examples: int, batch_size: int, seed: int) -> None:
        if examples < 1:
            raise ValueError(f"examples is {examples}, it must be at least 1")
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}, it must be at least 1")
        self._examples, self._batch_size, self._seed = examples, batch_size, seed
        self._permutations: dict[int, Int64[Tensor, " examples"]] = {}

    def indices(self, update: int) -> Int64[Tensor, " batch"]:
        """The examples of an update (0-based), whatever was asked for before.

        Raises:
            ValueError: a negative update.
        """
        if update < 0:
            raise ValueError(f"update is {update}, it must be at least 0")
        places = torch.arange(update * self._batch_size, (update + 1) * self._batch_size)
        epochs = range(int(places[0]) // self._examples, int(places[-1]) // self._examples + 1)
        self._permutations = {epoch: self._permutation(epoch) for epoch in epochs}
        return torch.stack([self._permutations[p // self._examples][p % self._examples] for p in places.tolist()])

    def _permutation(self, epoch: int) -> Int64[Tensor, " examples"]:
        known = self._permutations.get(epoch)
        if known is not None:
            return known
        generator = torch.Generator().manual_seed(stream_seed("order", self._seed, epoch))
        return torch.randperm(self._examples, generator=generator)


def take(rows: Mapping[str, Tensor], indices: Int64[Tensor, " batch"], device: torch.device) -> dict[str, Tensor]:
    """The rows of those indices, on a device."""
    return {name: column[indices].to(device) for name, column in rows.items()}


def evenly(examples: int, at_most: int) -> Int64[Tensor, " chosen"]:
    """At most that many indices, spread evenly over all examples: what an evaluation of bounded length looks at."""
    count = min(examples, at_most)
    return torch.arange(count) * examples // count
