"""The `.current` file: what a child process is doing, so that its parent knows whom a hang or a crash belongs to."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path

NAME = ".current"
_SIZE = 1024


@dataclass(frozen=True)
class Current:
    """The contender a child is busy with (empty between contenders), the step, since when and for how long at most."""

    suite: str = ""
    case: str = ""
    contender: str = ""
    step: str = "start"
    since: float = 0.0
    limit_s: float = 300.0

    @property
    def overdue(self) -> bool:
        """Whether the step has taken longer than its limit."""
        return time.monotonic() - self.since > self.limit_s


class Heartbeat:
    """Writes the `.current` file of a run folder. A write takes some microseconds, outside timed windows."""

    def __init__(self, run_dir: Path) -> None:
        self._descriptor = os.open(run_dir / NAME, os.O_RDWR | os.O_CREAT, 0o644)
        self._size = _SIZE

    def beat(self, step: str, limit_s: float, suite: str = "", case: str = "", contender: str = "") -> None:
        """Says what begins now and how long it may take."""
        record = Current(suite, case, contender, step, time.monotonic(), limit_s)
        text = json.dumps(asdict(record)).encode()
        self._size = max(self._size, len(text))  # one write over all of the one before: nothing of that is left
        os.pwrite(self._descriptor, text.ljust(self._size), 0)

    def close(self) -> None:
        """Closes the file."""
        os.close(self._descriptor)


def read(run_dir: Path) -> Current | None:
    """What the child wrote last; None before its first word."""
    try:
        return Current(**json.loads((run_dir / NAME).read_bytes()))
    except (OSError, ValueError, TypeError):
        return None
