"""A pool of gloo ranks that many tests share: starting ranks costs seconds, a job some milliseconds.

The parent holds the store, so no port can be taken by another process and a dead rank takes nothing along.
"""

from __future__ import annotations

import datetime
import multiprocessing
import os
import pickle
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import Any

import torch
import torch.distributed as dist

JOB_S = 150.0  # a machine may be stopped for a while
PRELOADED = ["torch", "torch.distributed.device_mesh", "torch._dynamo", "bancada_parallelism"]
"""Imported once, by the server that ranks are forked from, which computes nothing: an import takes seconds a rank.
An optimizer's first step imports dynamo."""


class RankError(Exception):
    pass


def _rank(rank: int, ranks: int, port: int, timeout_s: float, pipe: Connection) -> None:
    """A rank's life: join the group, then do what comes through the pipe."""
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    store = dist.TCPStore("127.0.0.1", port, ranks, is_master=False, timeout=datetime.timedelta(seconds=60))
    timeout = datetime.timedelta(seconds=timeout_s)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks, timeout=timeout)
    pipe.send_bytes(pickle.dumps(("ok", None)))
    while True:
        try:
            job, args, kwargs = pickle.loads(pipe.recv_bytes())
        except EOFError:
            os._exit(0)
        try:
            torch.manual_seed(0)
            answer = ("ok", job(*args, **kwargs))
        except Exception as error:
            text = "".join(traceback.format_exception(error))
            answer = ("error", (type(error).__name__, str(error), text))
        pipe.send_bytes(pickle.dumps(answer))


class Pool:
    def __init__(self, ranks: int, timeout_s: float = JOB_S) -> None:
        self.ranks, self._timeout_s = ranks, timeout_s
        self.processes: list[Any] = []

    def _start(self) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)
        self._store = dist.TCPStore("127.0.0.1", 0, None, is_master=True, wait_for_workers=False)
        self._pipes = []
        for rank in range(self.ranks):
            ours, theirs = context.Pipe()
            arguments = (rank, self.ranks, self._store.port, self._timeout_s, theirs)
            process = context.Process(target=_rank, args=arguments, daemon=True)
            process.start()
            theirs.close()
            self.processes.append(process)
            self._pipes.append(ours)
        started = self._collect(JOB_S)
        if any(state != "ok" for state, _ in started):
            self.close()
            raise RankError(f"the ranks did not start: {started}")

    def _collect(self, limit_s: float) -> list[tuple[str, Any]]:
        """Every rank's answer: (`ok`, value), (`error`, ...), (`dead`, exit code) or (`silent`, None)."""
        answers: dict[int, tuple[str, Any]] = {}
        deadline = time.monotonic() + limit_s
        while len(answers) < self.ranks and (left := deadline - time.monotonic()) > 0:
            open_pipes = {pipe: rank for rank, pipe in enumerate(self._pipes) if rank not in answers}
            for pipe in wait(list(open_pipes), left):
                rank = open_pipes[pipe]  # type: ignore[index]
                try:
                    answers[rank] = pickle.loads(self._pipes[rank].recv_bytes())
                except (EOFError, ConnectionError):
                    self.processes[rank].join(5)
                    answers[rank] = ("dead", self.processes[rank].exitcode)
        return [answers.get(rank, ("silent", None)) for rank in range(self.ranks)]

    def outcomes(self, job: Callable[..., Any], *args: Any, limit_s: float = JOB_S, **kwargs: Any) -> list[Any]:
        """How `job` ended on each rank; the pool is closed unless it ended well on all, or was refused by all."""
        if not self.processes:
            self._start()
        for pipe in self._pipes:
            pipe.send_bytes(pickle.dumps((job, args, kwargs)))
        answers = self._collect(limit_s)
        refused = all(state == "error" and value[0] == "ValueError" for state, value in answers)
        if not refused and any(state != "ok" for state, _ in answers):
            self.close()
        return answers

    def run(self, job: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Any]:
        """What `job` returned, by rank."""
        answers = self.outcomes(job, *args, **kwargs)
        for rank, (state, value) in enumerate(answers):
            if state != "ok":
                told = value[2] if state == "error" else value
                others = [s for s, _ in answers]
                raise RankError(f"rank {rank}: {state}: {told}\n(all ranks: {others})")
        return [value for _, value in answers]

    def close(self) -> None:
        """Ends every rank; none is left."""
        for pipe in getattr(self, "_pipes", []):
            pipe.close()
        for process in self.processes:
            process.join(0.5)
            if process.is_alive():
                process.kill()
            process.join()
        self.processes, self._pipes = [], []
        self._store = None


def relative(found: torch.Tensor, right: torch.Tensor) -> float:
    """||x - ref|| / ||ref||, or ||x|| where the reference is 0."""
    error, scale = (found.double() - right.double()).norm(), right.double().norm()
    return float(error / scale) if scale else float(error)


LIMIT = {torch.float64: 1e-12, torch.float32: 2e-5}


def check_same(found: dict[str, torch.Tensor], right: dict[str, torch.Tensor], limit: float, what: str) -> None:
    assert found.keys() == right.keys(), f"{what}: {found.keys() ^ right.keys()}"
    for name, tensor in found.items():
        assert tensor.shape == right[name].shape, f"{what} {name}: {tensor.shape} for {right[name].shape}"
        error = relative(tensor, right[name])
        assert error <= limit, f"{what} {name}: {error:.3g} > {limit}"
