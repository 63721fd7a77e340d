"""One sweep at a time in a run folder: two at once would measure everything twice, each disturbing the other."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # not on Windows; there two sweeps are told apart by the second they start in
    fcntl = None  # type: ignore[assignment]

NAME = ".lock"


@contextlib.contextmanager
def held(run_dir: Path) -> Iterator[None]:
    """Holds a run folder; the system lets go of it when the process ends, however it ends.

    Raises:
        ValueError: another sweep holds it.
    """
    with (run_dir / NAME).open("a") as file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ValueError(f"run {run_dir.name}: another sweep is at work in it") from None
        yield


def busy(run_dir: Path) -> bool:
    """Whether a sweep is at work in a run folder."""
    if not (run_dir / NAME).exists():
        return False
    try:
        with held(run_dir):
            return False
    except ValueError:
        return True
