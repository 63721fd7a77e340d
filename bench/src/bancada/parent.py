"""The parent: starts child processes on jobs and watches them.

A child that dies or hangs costs the contender it was busy with its typed row; a new child goes on with
the rest. The parent computes nothing itself, so that nothing of it disturbs the measurements.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bancada import cells, heartbeat, rows
from bancada.heartbeat import Current
from bancada.limits import PARENT
from bancada.machine import memory_bytes
from bancada.rows import ROWS
from bancada.settings import Job
from bancada.sweep import Planned

POLL_S = 0.1
START_LIMIT_S = 300.0
MOST_IDLE_STARTS = 3
BUILT_IN = Path(__file__).parent / "benchmarks"
CACHE = "BANCADA_CACHE"


@dataclass(frozen=True)
class End:
    """How a child ended: `status` is empty where it came to its end by itself; `at` is what it was doing."""

    status: str
    reason: str
    at: Current | None


class Parent:
    """Runs jobs to their end, each with as many children as it takes.

    Args:
        root: the checkout, where the packages' benchmark files are.
        log: what the children print.
        tick: called with what the child is doing, a few times a second.
    """

    def __init__(self, root: Path, log: Path, tick: Callable[[Current | None], None]) -> None:
        self._root, self._log, self._tick = root, log, tick
        self.start_s = 0.0
        self.starts = 0

    def run(self, job: Job, planned: Sequence[Planned]) -> None:
        """Measures every planned case; each planned cell has a row afterwards, whatever happens to the children."""
        idle = 0
        while (before := left(job, planned)) and idle < MOST_IDLE_STARTS:
            end = self._child(job, planned[0].suite.family)
            if end.status:
                self._blame(job, planned, end)
            after = left(job, planned)
            if len(after) == len(before) and not end.status:
                break
            idle = idle + 1 if len(after) == len(before) else 0
        if not job.identical:
            reason = f"the measuring process ended without a row for this cell; its output is in {self._log.name}"
            write_lost(job, [(one, name) for one, name in left(job, planned)], "crashed", reason)

    def _child(self, job: Job, family: str) -> End:
        """One child, from its start to its end."""
        path = job.run_dir / ".job.json"
        job.write(path)
        with contextlib.suppress(FileNotFoundError):
            (job.run_dir / heartbeat.NAME).unlink()
        command = [
            sys.executable,
            "-m",
            "pytest",
            str(benchmarks_of(family, self._root)),
            "--bancada-job",
            str(path),
            *_PYTEST,
        ]
        began = time.monotonic()
        self.starts += 1
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                command,
                cwd=self._root,
                env=job_environment(job),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            try:
                return self._watch(process, job, began)
            finally:
                kill(process)

    def _watch(self, process: subprocess.Popen[bytes], job: Job, began: float) -> End:
        started = False
        while True:
            code = process.poll()
            current = heartbeat.read(job.run_dir)
            if current is not None and not started:
                started = True
                self.start_s += max(0.0, current.since - began)
            self._tick(current)
            if code is not None:
                return _ended(code, current)
            if current is None and time.monotonic() - began > START_LIMIT_S:
                return End("timeout", f"the measuring process did not start within {START_LIMIT_S:.0f} s", None)
            if current is not None and current.overdue:
                return End("timeout", f"step '{current.step}' took longer than {current.limit_s:.0f} s", current)
            time.sleep(POLL_S)

    def _blame(self, job: Job, planned: Sequence[Planned], end: End) -> None:
        """Writes the row of whom the end belongs to: the contender at work, or all of a case in preparation."""
        if job.identical or end.at is None:
            return
        waiting = left(job, planned)
        mine = [(one, name) for one, name in waiting if (one.suite.id, one.case.id) == (end.at.suite, end.at.case)]
        guilty = [(one, name) for one, name in mine if name == end.at.contender] if end.at.contender else mine
        write_lost(job, guilty, end.status, end.reason)


_PYTEST = (
    "-q", "--tb=short", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", "--import-mode=importlib",
    "-W", "default", "--benchmark-columns=median",
)  # fmt: skip


def benchmarks_of(family: str, root: Path) -> Path:
    """The benchmark folder of a family's package, or the harness's own where it has none."""
    own = root / "packages" / family / "benchmarks"
    return own if own.is_dir() else BUILT_IN


def job_environment(job: Job) -> dict[str, str]:
    """A child's environment: fixed threads, and inductor's cache in one place, kept between processes and runs."""
    threads = str(job.device.threads)
    fixed = {
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONFAULTHANDLER": "1",
    }
    environment = {**os.environ, **fixed, PARENT: str(os.getpid())}
    environment.pop("PYTEST_ADDOPTS", None)
    environment.pop("TRITON_INTERPRET", None)  # the interpreter is never timed
    environment.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache_dir() / "inductor"))
    environment.setdefault("TRITON_CACHE_DIR", str(cache_dir() / "triton"))
    return environment


def cache_dir() -> Path:
    """Where compiled code is kept: `$BANCADA_CACHE`, or `bancada` in the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(os.environ.get(CACHE) or Path(base) / "bancada")


def kill(process: subprocess.Popen[bytes]) -> None:
    """Ends a child and all it started; waits until it is gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _ended(code: int, current: Current | None) -> End:
    if current is not None and current.step == "done":
        return End("", "", current)
    status, what = exit_status(code)
    step = f" in step '{current.step}'" if current else " before its first step"
    return End(status, f"the process {what}{step}", current)


def exit_status(code: int) -> tuple[str, str]:
    """The typed status of a process that ended early, and what it did: killed, died of a signal, ended by itself."""
    if code >= 0:
        return "crashed", f"ended by itself with exit status {code}"
    if -code == signal.SIGKILL:
        return "out_of_memory", f"was killed by the system (SIGKILL; {memory_bytes() / 2**30:.0f} GiB of memory here)"
    named = {one.value: one.name for one in signal.Signals}
    return "crashed", f"died of {named.get(-code, f'signal {-code}')}"


def left(job: Job, planned: Sequence[Planned]) -> list[tuple[Planned, str]]:
    """Planned cells without a row (identical races: cases without theirs)."""
    found = rows.read(job.run_dir / ROWS).rows
    if job.identical:
        had = {(row["suite"], row["case"]) for row in found if row["kind"] == "aa"}
        return [(one, "") for one in planned if (one.suite.id, one.case.id) not in had]
    done = rows.cells(found)
    return [(one, name) for one in planned for name in one.contenders if (one.suite.id, one.case.id, name) not in done]


def write_lost(job: Job, lost: Sequence[tuple[Planned, str]], status: str, reason: str) -> None:
    """Writes the rows of cells that nobody will measure."""
    made = [
        cells.cell(one.suite, one.case, one.suite.contender(name), job.device, job.stamped(one), status, reason)
        for one, name in lost
    ]
    rows.append(job.run_dir / ROWS, made)
