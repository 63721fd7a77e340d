"""The parent's hold on the process that launches ranks, and on the ranks."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from bancada.parent import POLL_S, kill


class Launcher:
    """`bancada.ranks.launch` in a session of its own, with all that it starts.

    Args:
        root: its working folder.
        environment: its variables, and so the ranks'.
        log: what it and the ranks print.
    """

    def __init__(self, root: Path, environment: Mapping[str, str], log: Path) -> None:
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "bancada.ranks.launch"],
                cwd=root,
                env=dict(environment),
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )

    @property
    def code(self) -> int | None:
        """Its exit status, or None while it lives."""
        return self._process.poll()

    def start(self, ranks: int, job: Path, over: Path) -> None:
        """Asks for a pool; how it ended will stand in `over`."""
        assert self._process.stdin is not None
        line = json.dumps({"ranks": ranks, "job": str(job), "over": str(over)}) + "\n"
        with contextlib.suppress(BrokenPipeError):  # it is dead: its code tells
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()

    def end(self, pids: Iterable[int], patience_s: float) -> bool:
        """Kills ranks and waits until they are gone; whether they are."""
        mine = [pid for pid in pids if self._started(pid)]
        for pid in mine:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return gone(mine, patience_s)

    def _started(self, pid: int) -> bool:
        """Whether a process is of this launcher's group: a dead rank's number may be another's by now."""
        try:
            return os.getpgid(pid) == self._process.pid
        except ProcessLookupError:
            return False

    def close(self) -> None:
        """Kills it and everything it started."""
        with contextlib.suppress(BrokenPipeError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        kill(self._process)


def alive(pid: int) -> bool:
    """Whether a process lives: one that is dead but not yet taken note of by its parent does not."""
    try:
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return False
    except (OSError, IndexError):
        pass  # a system that tells in no such file
    try:
        os.kill(pid, 0)
    except OSError as error:
        return isinstance(error, PermissionError)
    return True


def gone(pids: Iterable[int], patience_s: float) -> bool:
    """Waits until none of some processes lives; whether that came about."""
    left, deadline = list(pids), time.monotonic() + patience_s
    while (left := [pid for pid in left if alive(pid)]) and time.monotonic() < deadline:
        time.sleep(POLL_S / 2)
    return not left
