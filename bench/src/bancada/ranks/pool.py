"""The parent's side of suites of ranks: pools under torchrun, one for each number of ranks and kind of pool.

A pool measures case after case. Whatever one rank does (it raises, dies, hangs) ends the whole pool and costs the
contender at work its row; a new pool goes on with the rest. No process is left behind: ranks die with the server they
were forked from, it dies with the launcher, and the launcher with the sweep.
"""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bancada.heartbeat import Current
from bancada.parent import MOST_IDLE_STARTS, POLL_S, START_LIMIT_S, End, cache_dir, job_environment, left
from bancada.parent import write_lost as write
from bancada.ranks import blame, extensions
from bancada.ranks.declare import RanksSuite
from bancada.ranks.launcher import Launcher, alive
from bancada.ranks.words import FOLDER, Listener
from bancada.ranks.worker import threads_for
from bancada.screen import Failed, available
from bancada.settings import Job, JobCase
from bancada.suite import Device
from bancada.sweep import Planned

JOB = "job.json"
EXTENSIONS = "torch_extensions"
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
        self.root, self.log, self.tick = root, log, tick
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
        with extensions.in_use(cache_dir() / EXTENSIONS), contextlib.closing(_Kind(self, job, key)) as kind:
            while (before := _of(job, planned, key)) and idle < MOST_IDLE_STARTS:
                end = kind.pool(_job(job, before))
                reason = end.reason
                if end.at is not None and end.status:
                    at = (end.at.suite, end.at.case, end.at.contender)
                    mine = [
                        (one, name) for one, name in _of(job, planned, key) if (one.suite.id, one.case.id) == at[:2]
                    ]
                    write(job, [(one, name) for one, name in mine if not at[2] or name == at[2]], end.status, reason)
                idle = idle + 1 if len(_of(job, planned, key)) == len(before) else 0
        lost = f"the ranks ended without a row for this cell; their output is in {self.log.name}"
        write(job, _of(job, planned, key), "crashed", reason or lost)


class _Kind:
    """Pools of one kind, one after the other, from one launcher as long as it lives."""

    def __init__(self, pools: Pools, job: Job, key: Key) -> None:
        self._pools, self._ranks = pools, key[0]
        self._environment = environment(job, self._ranks)
        self._launcher: Launcher | None = None

    def pool(self, job: Job) -> End:
        """One pool, from its start to its end; none of its ranks is left."""
        folder = job.run_dir / FOLDER
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        job.write(folder / JOB)
        listener = Listener(job.run_dir, self._ranks)
        began = time.monotonic()
        if self._launcher is None:
            self._launcher = Launcher(self._pools.root, self._environment, self._pools.log)
        self._launcher.start(self._ranks, folder / JOB, listener.exits)
        self._pools.starts += 1
        end = self._watch(self._launcher, listener, began)
        ended = self._launcher.end(listener.pids().values(), FAREWELL_S)
        deadline = time.monotonic() + FAREWELL_S
        while ended and listener.exit_codes() is None and time.monotonic() < deadline:
            time.sleep(POLL_S / 2)
        if self._launcher.code is not None or listener.exit_codes() is None:
            self.close()
        return end

    def _watch(self, launcher: Launcher, listener: Listener, began: float) -> End:
        started, first_gone, failed_at = False, list[int](), 0.0
        while True:
            over = listener.exit_codes() is not None or launcher.code is not None
            now = time.monotonic()
            found = {rank: listener.current(rank) for rank in range(listener.ranks)}
            currents = {rank: current for rank, current in found.items() if current}
            dead = [rank for rank, pid in listener.pids().items() if not (alive(pid) or done(found[rank]))]
            first_gone = first_gone or dead
            if len(currents) == listener.ranks and not started:
                started = True
                self._pools.start_s += max(0.0, now - began)
            self._pools.tick(currents.get(0))
            if over:
                return blame.ended(listener, first_gone, launcher.code)
            if not started and now - began > START_LIMIT_S:
                return End("timeout", f"the ranks did not start within {START_LIMIT_S:.0f} s", None)
            if first_gone or listener.failures():
                failed_at = failed_at or now
                if now - failed_at > FAREWELL_S:
                    return blame.ended(listener, first_gone, launcher.code)
            elif any(current.overdue for current in currents.values()):
                return blame.hanging(currents, listener.ask(), listener.ranks)
            time.sleep(POLL_S)

    def close(self) -> None:
        """Ends the launcher and all that it started."""
        if self._launcher is not None:
            self._launcher.close()
        self._launcher = None


def done(current: Current | None) -> bool:
    """Whether a rank has come to its end by itself."""
    return current is not None and current.step == "done"


def environment(job: Job, ranks: int) -> dict[str, str]:
    """A pool's environment: the threads are shared out among the ranks, which talk over the loopback device."""
    threads = str(threads_for(job.device.threads, ranks))
    own = {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
    if job.device.type == "cpu":
        own |= {"DS_ACCELERATOR": "cpu"} | ({"GLOO_SOCKET_IFNAME": "lo"} if sys.platform.startswith("linux") else {})
    return job_environment(job) | own | {extensions.VARIABLE: str(cache_dir() / EXTENSIONS)}


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
