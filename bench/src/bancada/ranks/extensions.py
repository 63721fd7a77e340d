"""A folder of our own for the extensions that libraries compile at first use, without locks of the dead.

torch marks a build with a file named `lock`; killed half-way it stays, and every later build waits for ever. Who holds
a lock of the system on the folder, which a process gives back however it ends, knows that nobody builds and removes it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

VARIABLE = "TORCH_EXTENSIONS_DIR"


@contextlib.contextmanager
def in_use(folder: Path) -> Iterator[None]:
    """Uses the folder; removes what locks are left in it where nobody else does."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        import fcntl
    except ImportError:  # Windows: no such locks, so nothing is removed there
        yield
        return
    with (folder / ".in-use").open("w") as held:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for lock in folder.rglob("lock"):
                lock.unlink(missing_ok=True)
        fcntl.flock(held, fcntl.LOCK_SH)
        yield
