"""What the ranks of a pool leave in files for their parent: where they are, how they failed, and their last words.

Every rank has a folder of its own, `.ranks/rankN` in the run's folder: `.current` (the heartbeat, as every measuring
process has one), `pid`, `failed.json` (what it raised, and where), `ask` (a pipe) and `word.json`: when the parent
rings the pipe, a thread that slept until then writes how many collectives the rank has called and where its main
thread stands. That tells who hangs from who waits for him, and costs nothing while nobody asks.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bancada import heartbeat
from bancada.heartbeat import Current, Heartbeat

FOLDER = ".ranks"
_PID, _FAILED, _ASK, _WORD, _EXITS = "pid", "failed.json", "ask", "word.json", "exits.json"
_WAITING = ("torch/distributed/", "torch/autograd/graph.py", "bancada/ranks/control.py")
_SIGNS = ("gloo", "nccl", "connection closed", "connection reset", "broken pipe", "timed out waiting", "socket")


@dataclass(frozen=True)
class Failure:
    """An exception that ended a rank: its typed status, its text, and whether it is only another's failure seen."""

    status: str
    text: str
    communication: bool


@dataclass(frozen=True)
class Word:
    """What a rank says when it is asked: collectives called so far, and where its main thread stands."""

    collectives: int
    where: str
    waits: bool


def folder(run_dir: Path, rank: int) -> Path:
    """The folder of a rank's files."""
    return run_dir / FOLDER / f"rank{rank}"


class Speaker:
    """A rank's side: heartbeat, and the thread that answers."""

    def __init__(self, run_dir: Path, rank: int) -> None:
        self._folder = folder(run_dir, rank)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._heart = Heartbeat(self._folder)
        self._main = threading.get_ident()
        _write(self._folder / _PID, os.getpid())
        with contextlib.suppress(FileExistsError):
            os.mkfifo(self._folder / _ASK)
        threading.Thread(target=self._answer, daemon=True).start()

    def beat(self, step: str, limit_s: float, suite: str = "", case: str = "", contender: str = "") -> None:
        """Says what begins now and how long it may take."""
        self._heart.beat(step, limit_s, suite, case, contender)

    def failed(self, failure: Failure) -> None:
        """Leaves word of what ends this rank."""
        _write(self._folder / _FAILED, asdict(failure))

    def _answer(self) -> None:
        pipe = os.open(self._folder / _ASK, os.O_RDWR)  # opened for both, it does not wait for the other end
        while os.read(pipe, 1):
            where, waits = _stand(self._main)
            _write(self._folder / _WORD, asdict(Word(_collectives(), where, waits)))


class Listener:
    """The parent's side: what the ranks of a pool have left."""

    def __init__(self, run_dir: Path, ranks: int) -> None:
        self._folder, self.ranks = run_dir / FOLDER, ranks
        self._folders = [folder(run_dir, rank) for rank in range(ranks)]

    @property
    def exits(self) -> Path:
        """Where the launcher writes with which code a rank ended."""
        return self._folder / _EXITS

    def current(self, rank: int) -> Current | None:
        """What a rank wrote last."""
        return heartbeat.read(self._folders[rank])

    def failures(self) -> dict[int, Failure]:
        """Ranks that raised."""
        return {rank: Failure(**raw) for rank, raw in self._read(_FAILED)}

    def pids(self) -> dict[int, int]:
        """The process of every rank that has begun."""
        return dict(self._read(_PID))

    def exit_codes(self) -> dict[int, int] | None:
        """With which codes ranks failed (less than 0: by a signal); None before the launcher says that all is over."""
        found = _load(self.exits)
        return {int(rank): int(code) for rank, code in found.items()} if isinstance(found, dict) else None

    def ask(self, patience_s: float = 3.0) -> dict[int, Word]:
        """Every rank's word; one that holds the interpreter fast gives none."""
        for place in self._folders:
            with contextlib.suppress(OSError):
                pipe = os.open(place / _ASK, os.O_WRONLY | os.O_NONBLOCK)
                os.write(pipe, b"?")
                os.close(pipe)
        deadline = time.monotonic() + patience_s
        while len(found := list(self._read(_WORD))) < self.ranks and time.monotonic() < deadline:
            time.sleep(0.05)
        return {rank: Word(**raw) for rank, raw in found}

    def _read(self, name: str) -> Iterator[tuple[int, Any]]:
        for rank, place in enumerate(self._folders):
            if (found := _load(place / name)) is not None:
                yield rank, found


def is_communication(error: BaseException) -> bool:
    """Whether an exception is a collective that failed, here or at its root: another rank's doing."""
    import torch.distributed as dist

    cause: BaseException | None = error
    while cause is not None:
        text = str(cause).lower()
        if isinstance(cause, dist.DistError):
            return True
        if isinstance(cause, (RuntimeError, ConnectionError)) and any(sign in text for sign in _SIGNS):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def _stand(thread: int) -> tuple[str, bool]:
    """Where a thread stands, as file:line in function, and whether it waits in a collective there."""
    frame = sys._current_frames().get(thread)
    if frame is None:
        return "", False
    inner = traceback.extract_stack(frame)
    waits = any(part in inner[-1].filename.replace(os.sep, "/") for part in _WAITING)
    own = [one for one in inner if "/torch/" not in one.filename.replace(os.sep, "/")] or list(inner)
    return f"{Path(own[-1].filename).name}:{own[-1].lineno} in {own[-1].name}", waits


def _collectives() -> int:
    """Collectives that this rank has called so far, in all its groups."""
    dist = sys.modules.get("torch.distributed")  # not imported here: who hangs may hold the lock of imports
    if dist is None or not dist.is_initialized():
        return 0
    groups = list(dist.distributed_c10d._world.pg_map)
    return sum(int(group._get_sequence_number_for_group()) for group in groups)


def _write(path: Path, value: object) -> None:
    """Whole or not at all: a reader never sees half a file."""
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    beside.write_text(json.dumps(value), encoding="utf-8")
    os.replace(beside, path)


def _load(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
