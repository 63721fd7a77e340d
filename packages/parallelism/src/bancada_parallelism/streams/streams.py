"""Two streams of random numbers a rank: dropout is the same where an activation is, and differs elsewhere.

Shoeybi et al., Megatron-LM, arXiv 1909.08053, appendix B.2: dropout outside of a cut region must be the same on all
tensor ranks, or they go on with different activations; dropout inside of it must differ, as the features do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor

from bancada_parallelism._check import check_count
from bancada_parallelism.layout import Layout

KINDS = ("replicated", "cut")


class RandomStreams:
    """torch's random state, switched between two streams that are drawn from one seed.

    Args:
        seed: the same on every rank.
        layout: where this rank stands; on one process, `Layout()`.
        device: whose random state is switched, of type `cpu` or `cuda`.

    Raises:
        ValueError: `seed` is no whole number of at least 0.

    `replicated()` gives the same numbers on all tensor ranks, and other ones at each data rank and pipeline stage;
    `cut()` gives every rank its own. Around them the device's random state is as it was. Neither depends on how many
    ranks there are, so data rank 0 of any layout draws what one process draws::

        with streams.replicated():
            x = x + dropout(row_parallel(h))
        with streams.cut():
            h = dropout(column_parallel(x))
    """

    def __init__(self, seed: int, layout: Layout, *, device: torch.device | str = "cpu") -> None:
        check_count("seed", seed, 0)
        self._device = torch.device(device)
        place = f"pipeline {layout.rank('pipeline')} data {layout.rank('data')}"
        places = {"replicated": place, "cut": f"{place} tensor {layout.rank('tensor')}"}
        self._states = {kind: _started(f"{seed} {kind} {places[kind]}", self._device) for kind in KINDS}
        self._inside: set[str] = set()

    def replicated(self) -> AbstractContextManager[None]:
        """Around random operations on activations that the tensor ranks hold whole.

        Raises:
            RuntimeError: inside another `replicated()`: the same numbers would come twice.
        """
        return self._stream("replicated")

    def cut(self) -> AbstractContextManager[None]:
        """Around random operations on activations of which each tensor rank holds its own part; errors as above."""
        return self._stream("cut")

    def state(self) -> dict[str, Tensor]:
        """Both streams, to go on from; every rank has its own."""
        return {kind: state.clone() for kind, state in self._states.items()}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Goes on from a `state()` of this rank.

        Raises:
            ValueError: other streams than `replicated` and `cut`; nothing is changed then.
        """
        if set(state) != set(KINDS):
            raise ValueError(f"state: streams {sorted(state)}; must be {', '.join(KINDS)}")
        self._states = {kind: state[kind].clone() for kind in KINDS}

    def replayed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function`, whose second and later runs draw from the streams what its first run drew.

        `checkpoint(streams.replayed(block), x)`: backward runs the block again, with the same dropout, and the streams
        are then where they were. Wrap anew for every forward.
        """
        first: dict[str, Tensor] = {}

        def run(*args: Any, **kwargs: Any) -> Any:
            if not first:
                first.update(self.state())
                return function(*args, **kwargs)
            present = self.state()
            self.load_state(first)
            try:
                return function(*args, **kwargs)
            finally:
                self.load_state(present)

        return run

    @contextmanager
    def _stream(self, kind: str) -> Iterator[None]:
        if kind in self._inside:
            raise RuntimeError(f"{kind}() inside {kind}(): the same numbers would come twice")
        outside = _get(self._device)
        self._inside.add(kind)
        _set(self._states[kind], self._device)
        try:
            yield
        finally:
            self._states[kind] = _get(self._device)
            self._inside.discard(kind)
            _set(outside, self._device)


def _started(words: str, device: torch.device) -> Tensor:
    """The state of a generator whose seed is a digest: neighbouring seeds and ranks have nothing in common."""
    seed = int.from_bytes(hashlib.sha256(words.encode()).digest()[:8], "little") >> 1
    return torch.Generator(device).manual_seed(seed).get_state()


def _get(device: torch.device) -> Tensor:
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


def _set(state: Tensor, device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.set_rng_state(state, device)
    else:
        torch.set_rng_state(state)
