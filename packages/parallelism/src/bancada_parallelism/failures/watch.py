"""A watch over training steps: when one rank raises, dies or hangs, the others' error names it and its step.

A collective that fails says `connection closed by peer` or `timed out`, and no more. Each rank therefore writes into
the process group's store at which step it is and how a step ended; who is left without an answer reads there who
raised, or who says nothing at all.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store

from bancada_parallelism._check import check_count, check_number


class RankFailure(RuntimeError):
    """Another rank failed; `ranks` are those to blame, `step` is where this rank noticed."""

    def __init__(self, message: str, ranks: tuple[int, ...], step: int) -> None:
        super().__init__(message)
        self.ranks = ranks
        self.step = step


class RankWatch:
    """Watches the steps of this rank and of the others through a store that all share.

    Args:
        store: any torch.distributed store that outlives each single rank (torchrun's, or one of the parent process).
        rank, ranks: this rank, and how many there are.
        grace: seconds to wait for the others' own words after a collective failed.

    A failure is noticed when a collective fails, so the process group's timeout bounds how long that takes.
    """

    def __init__(self, store: Store, rank: int, ranks: int, *, grace: float = 2.0) -> None:
        self._store = PrefixStore("bancada-watch", store)
        self._ranks = check_count("ranks", ranks)
        if check_count("rank", rank, 0) >= ranks:
            raise ValueError(f"rank={rank}: must be below ranks={ranks}")
        self._rank = rank
        self._grace = check_number("grace", grace, 0)

    @contextmanager
    def step(self, number: int) -> Iterator[None]:
        """Around one training step.

        Raises:
            RankFailure: a collective failed inside, because of another rank; this rank's own errors pass unchanged.
        """
        self._say(number, "runs")
        try:
            yield
        except Exception as error:
            if not _is_communication(error):
                self._say(number, "raised", f"{type(error).__name__}: {error}")
                raise
            self._say(number, "was left waiting")
            raise self._blame(number) from error

    def _say(self, step: int, state: str, error: str = "") -> None:
        self._store.set(f"rank{self._rank}", json.dumps({"step": step, "state": state, "error": error}))

    def _heard(self) -> dict[int, dict[str, Any]]:
        """The last word of every other rank that said anything."""
        others = [rank for rank in range(self._ranks) if rank != self._rank]
        said = [rank for rank in others if self._store.check([f"rank{rank}"])]
        return {rank: json.loads(self._store.get(f"rank{rank}")) for rank in said}

    def _blame(self, step: int) -> RankFailure:
        deadline = time.monotonic() + self._grace
        while True:
            words = self._heard()
            raised = tuple(rank for rank, word in words.items() if word["state"] == "raised")
            silent = tuple(
                rank
                for rank in range(self._ranks)
                if rank != self._rank and (rank not in words or words[rank]["state"] == "runs")
            )
            if raised or not silent or time.monotonic() >= deadline:
                break
            time.sleep(0.05)
        if raised:
            what = "; ".join(f"rank {r} raised at step {words[r]['step']}: {words[r]['error']}" for r in raised)
            return RankFailure(f"step {step} of rank {self._rank} failed: {what}", raised, step)
        if silent:
            last = {r: f"its last step was {words[r]['step']}" if r in words else "it began no step" for r in silent}
            what = "; ".join(f"rank {r} does not answer ({last[r]}): killed or hanging" for r in silent)
            return RankFailure(f"step {step} of rank {self._rank} failed: {what}", silent, step)
        return RankFailure(f"step {step} of rank {self._rank} failed: every rank waits for another", (), step)


def _is_communication(error: BaseException) -> bool:
    """Whether a collective failed, here or at the root of the error."""
    cause: BaseException | None = error
    while cause is not None:
        words = str(cause).lower()
        if isinstance(cause, dist.DistError) or (
            isinstance(cause, RuntimeError) and any(word in words for word in ("gloo", "nccl", "connection closed"))
        ):
            return True
        cause = cause.__cause__
    return False
