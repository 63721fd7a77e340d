"""The parent's side of suites of ranks: pools under torchrun, one for each number of ranks and kind of pool.

A pool measures case after case. Whatever one rank does (it raises, dies, hangs) ends the whole pool and costs the
contender at work its row; a new pool goes on with the rest. No process is left behind: ranks die with their launcher,
the launcher with the sweep, and what they started is ended with them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bancada.heartbeat import Current
from bancada.parent import MOST_IDLE_STARTS, POLL_S, START_LIMIT_S, End, cache_dir, job_environment, kill, left
from bancada.parent import write_lost as write
from bancada.ranks import blame, extensions
from bancada.ranks.declare import RanksSuite
from bancada.ranks.words import FOLDER, Listener
from bancada.ranks.worker import OPTION, threads_for
from bancada.screen import Failed, available
from bancada.settings import Job, JobCase
from bancada.suite import Device
from bancada.sweep import Planned

JOB = "job.json"
FAREWELL_S = 10.0  # how long a pool in which a rank has failed may take to end by itself
Cell = tuple[Planned, str]
Key = tuple[int, str]


class Pools:
    """Runs the suites of ranks of a job.

    Args:
        root: the working folder of the ranks.
        log: what the ranks print.
        tick: called with what rank 0 is doing, a few times a second.
    """

    def __init__(self, root: Path, log: Path, tick: Callable[[Current | None], None]) -> None:
        self._root, self._log, self._tick = root, log, tick
        self.start_s = 0.0
        self.starts = 0

    def run(self, job: Job, planned: Sequence[Planned]) -> None:
        """Measures every planned case of ranks; each cell has a row afterwards, whatever happens to the ranks."""
        mine = [one for one in planned if isinstance(one.suite, RanksSuite)]
        _refuse(job, mine)
        for key in dict.fromkeys(_key(one, name) for one, name in left(job, mine)):
            self._all_of(job, mine, key)

    def _all_of(self, job: Job, planned: Sequence[Planned], key: Key) -> None:
        """Every cell of one kind of pool, with as many pools as it takes."""
        idle, reason = 0, ""
        while (before := _of(job, planned, key)) and idle < MOST_IDLE_STARTS:
            end = self._pool(_job(job, before), key[0])
            reason = end.reason
            if end.at is not None and end.status:
                at = (end.at.suite, end.at.case, end.at.contender)
                mine = [(one, name) for one, name in _of(job, planned, key) if (one.suite.id, one.case.id) == at[:2]]
                guilty = [(one, name) for one, name in mine if not at[2] or name == at[2]]
                write(job, guilty, end.status, end.reason)
            idle = idle + 1 if len(_of(job, planned, key)) == len(before) else 0
        lost = f"the ranks ended without a row for this cell; their output is in {self._log.name}"
        write(job, _of(job, planned, key), "crashed", reason or lost)

    def _pool(self, job: Job, ranks: int) -> End:
        """One pool, from its start to its end."""
        folder = job.run_dir / FOLDER
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        job.write(folder / JOB)
        listener, own = Listener(job.run_dir, ranks), cache_dir() / "torch_extensions"
        command = [sys.executable, "-m", "bancada.ranks.launch", str(ranks), str(listener.exits), "--"]
        began = time.monotonic()
        self.starts += 1
        with extensions.in_use(own), self._log.open("ab") as log:
            process = subprocess.Popen(
                [*command, OPTION, str(folder / JOB)],
                cwd=self._root,
                env=environment(job, ranks) | {extensions.VARIABLE: str(own)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            try:
                return self._watch(process, listener, began)
            finally:
                _sweep_up(process, listener, str(folder / JOB))

    def _watch(self, process: subprocess.Popen[bytes], listener: Listener, began: float) -> End:
        started, gone, failed_at = False, list[int](), 0.0
        while True:
            code = process.poll()
            now = time.monotonic()
            found = {rank: listener.current(rank) for rank in range(listener.ranks)}
            currents = {rank: current for rank, current in found.items() if current}
            gone = gone or [rank for rank, pid in listener.pids().items() if not (_alive(pid) or _done(found[rank]))]
            if len(currents) == listener.ranks and not started:
                started = True
                self.start_s += max(0.0, now - began)
            self._tick(currents.get(0))
            if code is not None:
                return blame.ended(listener, gone, code)
            if not started and now - began > START_LIMIT_S:
                return End("timeout", f"the ranks did not start within {START_LIMIT_S:.0f} s", None)
            if gone or listener.failures():
                failed_at = failed_at or now
                if now - failed_at > FAREWELL_S:
                    return blame.ended(listener, gone, 1)
            elif any(current.overdue for current in currents.values()):
                return blame.hanging(currents, listener.ask(), listener.ranks)
            time.sleep(POLL_S)


def environment(job: Job, ranks: int) -> dict[str, str]:
    """A pool's environment: the threads are shared out among the ranks, which talk over the loopback device."""
    threads = str(threads_for(job.device.threads, ranks))
    own = {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
    if job.device.type == "cpu":
        own |= {"DS_ACCELERATOR": "cpu"} | ({"GLOO_SOCKET_IFNAME": "lo"} if sys.platform.startswith("linux") else {})
    return job_environment(job) | own


def too_few_devices(device: Device, ranks: int) -> str | None:
    """Why some ranks cannot each have a device here, or None."""
    if device.type == "cpu":
        return None
    import torch

    found = torch.cuda.device_count()
    return f"needs {ranks} GPUs, there are {found}" if found < ranks else None


def _key(planned: Planned, contender: str) -> Key:
    suite: RanksSuite = planned.suite  # type: ignore[assignment]
    return suite.world_size(planned.case), suite.contender(contender).pool


def _of(job: Job, planned: Sequence[Planned], key: Key) -> list[Cell]:
    """Cells of one kind of pool that have no row."""
    return [(one, name) for one, name in left(job, planned) if _key(one, name) == key]


def _job(job: Job, cells: Sequence[Cell]) -> Job:
    """The job of a pool: its cells, each case with its contenders' share of the case's time."""
    names: dict[str, tuple[Planned, list[str]]] = {}
    for one, name in cells:
        names.setdefault(f"{one.suite.id}:{one.case.id}", (one, []))[1].append(name)
    cases = tuple(
        JobCase(one.suite.id, dict(one.case.axes), tuple(mine), one.budget_s * len(mine) / len(one.contenders))
        for one, mine in names.values()
    )
    return dataclasses.replace(job, cases=cases)


def _refuse(job: Job, planned: Sequence[Planned]) -> None:
    """Writes the rows of cells that cannot run here, before any process is started for them."""
    for one, name in left(job, planned):
        try:
            available(one.suite.contender(name), one.case, job.device)
            if reason := too_few_devices(job.device, one.case.number("world_size")):
                raise Failed("unsupported", reason)
        except Failed as failed:
            write(job, [(one, name)], failed.status, failed.reason)


def _done(current: Current | None) -> bool:
    return current is not None and current.step == "done"


def _alive(pid: int) -> bool:
    try:
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return False  # dead, and not yet taken note of by its parent
    except (OSError, IndexError):
        pass  # a system that tells in no such file
    try:
        os.kill(pid, 0)
    except OSError as error:
        return isinstance(error, PermissionError)
    return True


def _sweep_up(process: subprocess.Popen[bytes], listener: Listener, mark: str) -> None:
    """Ends the launcher, the ranks and what they started; waits until they are gone."""
    groups = [pid for pid in listener.pids().values() if _ours(pid, mark)]
    kill(process)
    for pid in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)  # a rank leads a session of its own
    deadline = time.monotonic() + FAREWELL_S
    while any(_alive(pid) for pid in groups) and time.monotonic() < deadline:
        time.sleep(POLL_S / 2)


def _ours(pid: int, mark: str) -> bool:
    """Whether a process, or the group that a dead one led, is of this pool: its number may be another's by now."""
    try:
        return mark in Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return not Path("/proc").is_dir() or not Path(f"/proc/{pid}").exists()
