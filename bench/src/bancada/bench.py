"""What a benchmark item does: a race over one case (the sweep's way) or one contender alone (the plain way)."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, NoReturn, TypeVar

import pytest
import torch

from bancada import ceilings, cells, rows, stats
from bancada.accuracy import changed_inputs
from bancada.clock import Clock, clock_for
from bancada.heartbeat import Heartbeat
from bancada.race import Race
from bancada.rows import PARTS, ROWS
from bancada.screen import RAISED, Entrant, Failed, Question, ask, check, failure, restore, screen
from bancada.settings import Job, JobCase, Settings
from bancada.stability import own_drift, unstable
from bancada.suite import AnySuite, Case, Contender, Device, KernelSuite, Work
from bancada.telemetry import Log

S = TypeVar("S", bound=AnySuite)
SMALL_FLOPS = 1e7  # below this, waking a second thread costs more than it brings and adds noise


def threads_for(suite: AnySuite, case: Case, device: Device) -> int:
    """Threads for a case: one for small operations on a CPU, else all that the device was given."""
    return 1 if device.type == "cpu" and suite.work(case).flops < SMALL_FLOPS else device.threads


@dataclass
class Parts:
    """Seconds by part of the work (oracle, screen, race), so that the harness's own cost can be told."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextlib.contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Counts what happens inside."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    def append(self, path: Path) -> None:
        """Adds the parts to a file of lines, and starts again from nothing."""
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(self.seconds) + "\n")
        self.seconds = {}


class Worker:
    """A child process's hold on its job: the run folder, the clock, and which cells are done."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.clock: Clock = clock_for(job.device)
        self.heart = Heartbeat(job.run_dir)
        self.parts = Parts()
        self.rows_path = job.run_dir / ROWS
        self.matmul_ceiling, self.copy_ceiling = dict(job.matmul_ceiling), dict(job.copy_ceiling)
        self.done = rows.cells(rows.read(self.rows_path).rows)

    def write(self, found: list[rows.Row]) -> None:
        """Appends rows together."""
        rows.append(self.rows_path, found)

    def raise_ceilings(self, dtype: str) -> None:
        """Measures a dtype's ceilings once more and keeps the higher figures, with rows that say so."""
        again = ceilings.measure(self.job.device, (dtype,), seconds=2.0)
        pairs = (("matmul", self.matmul_ceiling, again.matmul), ("copy", self.copy_ceiling, again.copy))
        for name, known, found in pairs:
            if found[dtype] > known.get(dtype, 0.0):
                known[dtype] = found[dtype]
                self.write([cells.ceiling(name, dtype, "during", found[dtype], self.job.device, self.run)])

    def waiting(self, suite: AnySuite, case: Case, planned: JobCase) -> list[str]:
        """The planned contenders that have no row yet; skips the item where all have one."""
        found = [name for name in planned.contenders if (suite.id, case.id, name) not in self.done]
        if not found:
            pytest.skip("every cell of this case is measured already")
        return found

    @contextlib.contextmanager
    def at(self, threads: int) -> Iterator[None]:
        """A case's work on so many threads; afterwards its parts are told, and everything is as between cases."""
        torch.set_num_threads(threads)
        try:
            yield
        finally:
            self.parts.append(self.job.run_dir / PARTS)
            torch.set_num_threads(self.job.device.threads)
            self.heart.beat("between cases", self.job.settings.call_limit_s)

    def timed(self, case: Case, samples: stats.Floats, loops: int, work: Work) -> tuple[rows.Row, str]:
        """Time, rates and shares of the ceilings as fields, and why they cannot be; empty where they can."""
        dtype = ceilings.dtype_of(case)

        def told() -> rows.Row:
            matmul = ceilings.reachable(self.matmul_ceiling, dtype)
            copy = ceilings.reachable(self.copy_ceiling, dtype)
            return cells.timing(samples, loops, work, matmul, copy, self.job.device)

        fields = told()
        if cells.impossible(fields):
            # A busy moment may have made the ceiling low: it is measured again before anyone is blamed.
            for counted in ceilings.counted(dtype):
                self.raise_ceilings(counted)
            fields = told()
        return fields, cells.impossible(fields)

    @property
    def run(self) -> str:
        """The run's name."""
        return str(self.job.stamp["run"])


@dataclass
class CaseItem(Generic[S]):
    """One case of a suite of any kind, for a worker to measure with all its contenders."""

    worker: Worker
    suite: S
    planned: JobCase

    @property
    def id(self) -> str:
        """The item's name."""
        return f"{self.suite.id}:{self.case.id}"

    @property
    def case(self) -> Case:
        """The case."""
        return self.suite.case(**self.planned.axes)


@dataclass
class RaceItem(CaseItem[KernelSuite]):
    """One case of a kernel suite: screened and raced."""

    def run(self, benchmark: Any) -> None:
        """Screens and races every contender that has no row yet; every one of them has a row afterwards."""
        worker, case = self.worker, self.case
        waiting = worker.waiting(self.suite, case, self.planned)
        threads = threads_for(self.suite, case, worker.job.device)
        with worker.at(threads):
            self._measure(benchmark, case, [self.suite.contender(name) for name in waiting], threads)

    def _measure(self, benchmark: Any, case: Case, contenders: list[Contender], threads: int) -> None:
        worker, settings = self.worker, self.worker.job.settings
        worker.heart.beat("oracle", settings.oracle_limit_s, self.suite.id, case.id)
        with worker.parts.part("oracle"):
            try:
                question = ask(self.suite, case, worker.job.device, settings.seed)
            except Exception as error:
                self._lost(case, contenders, threads, error)
                raise
        with worker.parts.part("screen"):
            entrants = [entrant for contender in contenders if (entrant := self._screen(contender, question, threads))]
        if not entrants:
            return
        log = Log.of(worker.job.device)
        budget_s, beat = self.planned.budget_s, self._beat(case)
        race = Race(entrants, worker.clock, settings, budget_s, beat, question.arena, log.note)
        with worker.parts.part("race"):
            race.run(benchmark)
        for entrant in entrants:
            entrant.facts |= log.fields()
        self._finish(race, question, entrants, threads)

    def _lost(self, case: Case, contenders: list[Contender], threads: int, error: Exception) -> None:
        """Rows for a case whose inputs or answer could not be made."""
        why = failure(error)
        reason = f"inputs or float64 answer could not be made: {why.reason}"
        status = "out_of_memory" if why.status == "out_of_memory" else "crashed"
        if not self.worker.job.identical:
            self.worker.write([self._cell(case, contender, threads, status, reason) for contender in contenders])

    def _cell(
        self,
        case: Case,
        contender: Contender,
        threads: int,
        status: str,
        reason: str,
        facts: dict[str, Any] | None = None,
    ) -> rows.Row:
        job = self.worker.job
        return cells.cell(
            self.suite, case, contender, job.device, job.stamped(self.planned), status, reason, threads, facts
        )

    def _beat(self, case: Case) -> Any:
        def beat(step: str, contender: str, limit_s: float) -> None:
            self.worker.heart.beat(step, limit_s, self.suite.id, case.id, contender)

        return beat

    def _screen(self, contender: Contender, question: Question, threads: int) -> Entrant | None:
        """The contender ready to race, or None with its row written."""
        worker, beat = self.worker, self._beat(question.case)
        try:
            return screen(
                contender,
                question,
                worker.job.device,
                worker.clock,
                worker.job.settings,
                lambda step, limit: beat(step, contender.id, limit),
            )
        except Failed as failed:
            if not worker.job.identical:
                worker.write([self._cell(question.case, contender, threads, failed.status, failed.reason)])
            return None

    def _finish(self, race: Race, question: Question, entrants: list[Entrant], threads: int) -> None:
        """Writes the rows of the race, together: the cells, the failures on the way, and every comparison."""
        job, case = self.worker.job, question.case
        if job.identical:
            self.worker.write(
                [cells.identical(self.suite.id, case.id, job.device, self.worker.run, race.comparisons())]
            )
            return
        times = race.times()
        measured, shaky = (dict(zip(race.names, told, strict=True)) for told in (times, unstable(times)))
        found: list[rows.Row] = []
        invalid: set[str] = set()
        # Somebody wrote to the shared inputs behind torch's back: then each is judged by a call of its own.
        disturbed = bool(changed_inputs(question.inputs, entrants[0].inputs, self.suite.mutates))
        for entrant in entrants:
            name = entrant.contender.id
            status, reason, facts = self._judged(entrant, race, question, measured, disturbed)
            if status == "ok" and shaky[name]:
                status, reason = "unstable", shaky[name]
            if status != "ok":
                invalid.add(name)
            found.append(self._cell(case, entrant.contender, threads, status, reason, facts))
        found += [
            cells.pair(self.suite.id, case.id, job.device, self.worker.run, comparison)
            for comparison in race.comparisons()
            if not {comparison.a, comparison.b} & invalid
        ]
        self.worker.write(found)

    def _judged(
        self, entrant: Entrant, race: Race, question: Question, measured: dict[str, Any], disturbed: bool
    ) -> tuple[str, str, dict[str, Any]]:
        """Status, reason and facts of one entrant after the race: its last timed answer is judged once more."""
        name = entrant.contender.id
        if name in race.failures:
            failed = race.failures[name]
            return failed.status, f"in the race: {failed.reason}", dict(entrant.facts)
        case = question.case
        times, reason = self.worker.timed(case, measured[name], entrant.loops, self.suite.work(case))
        facts = entrant.facts | times
        if (drift := own_drift(measured[name])) is not None:
            facts["drift_share"] = drift
        if reason:
            return "incorrect", reason, facts
        if name not in race.last:
            return "incorrect", "after the race: its last timed call gave no answer", facts
        try:
            if self.suite.stateful or disturbed:
                restore(entrant.run, entrant.inputs, question)
                check(entrant.run, entrant.inputs, question)
            else:
                check(lambda: race.last[name], entrant.inputs, question)
        except RAISED as error:
            failed = failure(error)
            return failed.status, f"after the race: {failed.reason}", facts
        return "ok", "", facts


def declined(failed: Failed) -> NoReturn:
    """Ends a plain item whose contender cannot run: skipped where this is not the place, failed otherwise."""
    if failed.status == "unsupported":
        pytest.skip(failed.reason)
    pytest.fail(f"{failed.status}: {failed.reason}", pytrace=False)


@dataclass
class PlainItem:
    """One contender at one case, as an ordinary pytest-benchmark test."""

    suite: KernelSuite
    case: Case
    contender: Contender
    device: Device
    settings: Settings

    @property
    def id(self) -> str:
        """The item's name."""
        return f"{self.suite.id}:{self.case.id}:{self.contender.id}"

    def run(self, benchmark: Any) -> None:
        """Screens, then times; skips with the reason where the contender cannot run here."""
        torch.set_num_threads(threads_for(self.suite, self.case, self.device))
        clock = clock_for(self.device)
        question = ask(self.suite, self.case, self.device, self.settings.seed)
        try:
            entrant = screen(self.contender, question, self.device, clock, self.settings, lambda step, limit: None)
        except Failed as failed:
            declined(failed)
        benchmark.group = f"{self.suite.id} {self.case.id}"
        benchmark.extra_info.update(entrant.facts)
        rounds = self.settings.affordable(self.settings.budget_s, entrant.estimate_s * entrant.loops)
        benchmark.pedantic(entrant.run, rounds=rounds, iterations=entrant.loops)
