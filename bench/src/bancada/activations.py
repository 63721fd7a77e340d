"""Bytes that autograd holds for backward, followed while they come and go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks


class HeldActivations(saved_tensors_hooks):
    """The most bytes that were saved at once while it is entered, each storage once.

    Args:
        others: tensors whose storages do not count: parameters and inputs.

    Attributes:
        most: bytes at the peak so far.
    """

    def __init__(self, others: Iterable[Tensor]) -> None:
        self._left_out = {tensor.untyped_storage().data_ptr() for tensor in others}
        self._users: Counter[int] = Counter()
        self._held = self.most = 0
        super().__init__(self._pack, lambda saved: saved.tensor)

    def _pack(self, tensor: Tensor) -> _Saved:
        storage = tensor.untyped_storage()
        place, size = storage.data_ptr(), storage.nbytes()
        if place in self._left_out:
            size = 0
        if not self._users[place]:
            self._held += size
            self.most = max(self.most, self._held)
        self._users[place] += 1
        return _Saved(tensor, self, place, size)

    def _free(self, place: int, size: int) -> None:
        self._users[place] -= 1
        if not self._users[place]:
            self._held -= size


class _Saved:
    """A saved tensor, until autograd lets go of it."""

    def __init__(self, tensor: Tensor, owner: HeldActivations, place: int, size: int) -> None:
        self.tensor, self._owner, self._place, self._size = tensor, owner, place, size

    def __del__(self) -> None:
        self._owner._free(self._place, self._size)
