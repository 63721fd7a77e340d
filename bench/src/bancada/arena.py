"""The inputs that all contenders of a case share.

Two copies of the same tensors lie differently in physical memory and so in the caches: identical contenders with
copies of their own differed by up to 5%, for as long as a race lasted. On the same memory they differ by noise alone.
Sharing needs a guard: who writes to the inputs is told at once, by torch's version counters, and the inputs are put
right before the next contender runs.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from bancada.suite import Tensors


class Arena:
    """Shared inputs with their right values.

    Args:
        inputs: the right values; they are copied.
        private: names of inputs that a call may change: every contender gets its own.
    """

    def __init__(self, inputs: Tensors, private: tuple[str, ...] = ()) -> None:
        self._right = inputs
        self._private = private
        self._shared = {name: tensor.detach().clone() for name, tensor in inputs.items() if name not in private}
        self._versions = self._now()

    def lend(self, values: Tensors) -> dict[str, torch.Tensor]:
        """Writes `values` over the shared inputs, and hands out these and a contender's own private ones."""
        self.write(self._shared, values)
        shared = {name: tensor.detach() for name, tensor in self._shared.items()}
        return shared | {name: values[name].detach().clone() for name in self._private}

    def write(self, targets: Mapping[str, torch.Tensor], values: Tensors) -> None:
        """Writes values in place, as no contender could: the version counters start anew."""
        with torch.no_grad():
            for name, target in targets.items():
                target.copy_(values[name])
        self._versions = self._now()

    def touched(self) -> list[str]:
        """Names of shared inputs that were written to since they were last written here; puts them right."""
        now = self._now()
        changed = [name for name, version in now.items() if version != self._versions[name]]
        if changed:
            self.write(self._shared, self._right)
        return changed

    def _now(self) -> dict[str, int]:
        return {name: tensor._version for name, tensor in self._shared.items()}
