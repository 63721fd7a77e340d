"""What a benchmark item does with a training suite: all contenders of a case (the sweep's way), or one alone."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from bancada import cells, rows
from bancada.bench import CaseItem, declined, threads_for
from bancada.clock import clock_for
from bancada.screen import Failed, available, failure
from bancada.settings import Settings
from bancada.suite import Case, Device, Work
from bancada.training import outcomes
from bancada.training.declare import Task, TrainingContender, TrainingSuite
from bancada.training.points import points
from bancada.training.run import Bench, Run, blamed, collect, fresh_compilation, seed_all, settled
from bancada.training.train import Curve, train
from bancada.training.tune import Tuned, tune

_RATES = ("flops", "bytes", "flops_per_s", "bytes_per_s", "compute_share", "bandwidth_share")


@dataclass
class TrainingItem(CaseItem[TrainingSuite]):
    """One case: all its contenders tuned, then trained from every seed.

    All models of a case are held at once while a seed is trained. Every step that ends is a row, and what has a row
    is not done again by a run that is gone on with.
    """

    threads: int = field(init=False, default=0)

    def run(self, benchmark: Any) -> None:
        """Tunes and trains every contender that has no row yet; every one of them has a row afterwards."""
        worker, case = self.worker, self.case
        waiting = worker.waiting(self.suite, case, self.planned)
        self.threads = threads_for(self.suite, case, worker.job.device)
        with worker.at(self.threads), settled():
            self._measure([self.suite.contender(name) for name in waiting])

    def _measure(self, contenders: list[TrainingContender]) -> None:
        worker, case = self.worker, self.case
        had = [row for row in rows.read(worker.rows_path).rows if self._mine(row)]
        here = [contender for contender in contenders if self._runs_here(contender)]
        bench = Bench(worker.job.device, worker.clock, worker.job.settings, self._beat)
        with worker.parts.part("tuning"):
            tuned = self._tune(here, bench, [row for row in had if row["kind"] == "trial"])
        curves: dict[str, list[rows.Row]] = {
            name: [row for row in had if row["kind"] == "curve" and row["contender"] == name and row["status"] == "ok"]
            for name in tuned
        }
        with worker.parts.part("training"):
            first, seeds = bench.settings.seed + 1, self.planned.seeds or bench.settings.seeds
            for seed in range(first, first + seeds):
                missing = [name for name in curves if seed not in {row["seed"] for row in curves[name]}]
                if missing:
                    self._seed(seed, {name: tuned[name] for name in missing}, curves, bench)
        whole = {name: sorted(found, key=lambda row: int(row["seed"])) for name, found in curves.items()}
        self._finish(case, whole, tuned)

    def _mine(self, row: rows.Row) -> bool:
        """Whether a row is one of this case that an earlier start of the run has left."""
        return row["kind"] in ("trial", "curve") and (row["suite"], row["case"]) == (self.suite.id, self.case.id)

    def _beat(self, step: str, contender: str, limit_s: float) -> None:
        self.worker.heart.beat(step, limit_s, self.suite.id, self.case.id, contender)

    def _runs_here(self, contender: TrainingContender) -> bool:
        """Whether a contender is available; its row is written where it is not."""
        self._beat("availability", contender.id, self.worker.job.settings.compile_limit_s)
        try:
            with blamed("supports"):
                available(contender, self.case, self.worker.job.device)
        except Failed as failed:
            self.worker.write([self._cell(contender, failed.status, failed.reason)])
            return False
        return True

    def _tune(self, contenders: list[TrainingContender], bench: Bench, done: list[rows.Row]) -> dict[str, Tuned]:
        """The best point of each contender that has one; the others' rows are written."""
        tuned: dict[str, Tuned] = {}
        made: list[Task] = []

        def task() -> Task:
            if not made:
                made.append(self._task(bench.settings.seed, contenders))
            return made[0]

        def keep(fields: rows.Row) -> None:
            self.worker.write([self._row("trial", fields)])

        for contender in contenders:
            try:
                tuned[contender.id] = tune(self.suite, self.case, contender, task, bench, done, keep)
            except Failed as failed:
                self.worker.write([self._cell(contender, failed.status, failed.reason)])
        collect()
        return tuned

    def _task(self, seed: int, contenders: list[TrainingContender]) -> Task:
        """The task of a seed. Where it cannot be made, every contender that has no row gets one, and the item ends."""
        self._beat(f"task (seed {seed})", "", self.worker.job.settings.oracle_limit_s)
        try:
            return self.suite.task(self.case, self.worker.job.device.torch_device, seed)
        except Exception as error:
            self._lost(contenders, error)
            raise

    def _lost(self, contenders: list[TrainingContender], error: Exception) -> None:
        """Rows for contenders whose task could not be made."""
        why = failure(error)
        done = rows.cells(rows.read(self.worker.rows_path).rows)
        self.worker.write(
            [
                self._cell(contender, why.status, f"the task could not be made: {why.reason}")
                for contender in contenders
                if (self.suite.id, self.case.id, contender.id) not in done
            ]
        )

    def _seed(self, seed: int, tuned: Mapping[str, Tuned], curves: dict[str, list[rows.Row]], bench: Bench) -> None:
        """Trains contenders from one seed and keeps their curves together; who fails is out of `curves`."""
        contenders = [self.suite.contender(name) for name in tuned]
        task = self._task(seed, contenders)
        self._beat(f"evaluation of the task's own model (seed {seed})", "", bench.settings.oracle_limit_s)
        try:
            seed_all(seed)
            start = {name: float(value) for name, value in task.evaluate(task.model(), "held_out").items()}
        except Exception as error:
            self._lost(contenders, error)
            raise
        fresh_compilation(any(contender.compiles for contender in contenders))
        # The first seed's second update tells the memory; a run that is gone on with finds it in that seed's rows.
        watch = not any(curves.values())
        runs = [Run(one, task, tuned[one.id].hyper, seed, bench, f"seed {seed}", watch) for one in contenders]

        def lost(curve: Curve) -> None:
            assert curve.failed is not None
            del curves[curve.run.id]
            cell = self._cell(curve.run.contender, curve.failed.status, curve.failed.reason)
            self.worker.write([self._row("curve", curve.fields()), cell])

        found = [self._row("curve", curve.fields()) for curve in train(self.suite, self.case, runs, start, lost)]
        collect()
        self.worker.write(found)
        for row in found:
            curves[row["contender"]].append(row)

    def _finish(self, case: Case, curves: Mapping[str, list[rows.Row]], tuned: Mapping[str, Tuned]) -> None:
        """Writes the cells, the pairs of times and the contrasts of outcomes, together."""
        job, target = self.worker.job, self.suite.target(case)
        self._beat("outcomes", "", job.settings.oracle_limit_s)
        found: list[rows.Row] = []
        sound: dict[str, list[rows.Row]] = {}
        for name, mine in curves.items():
            facts = outcomes.facts(mine, self.suite.metrics, target, tuned[name])
            times, reason = self._times(mine)
            found.append(self._cell(self.suite.contender(name), "incorrect" if reason else "ok", reason, facts | times))
            if not reason:
                sound[name] = mine
        found += [cells.pair(self.suite.id, case.id, job.device, self.worker.run, one) for one in outcomes.pairs(sound)]
        found += [self._row("contrast", fields) for fields in outcomes.contrasts(sound, self.suite.metrics, target)]
        self.worker.write(found)

    def _times(self, curves: list[rows.Row]) -> tuple[rows.Row, str]:
        """Time and rates of an update, and what is wrong with them: an update that was not made is too fast.

        Who trains a part of its parameters does less than the suite's work, but at least the forward third of it:
        that third is held against the ceilings, and no rates are told.
        """
        work = self.suite.work(self.case)
        partial = outcomes.trains_a_part(curves)
        if partial:
            work = Work(work.flops / 3, work.bytes / 3)
        fields, reason = self.worker.timed(self.case, outcomes.samples(curves), 1, work)
        return {name: value for name, value in fields.items() if not (partial and name in _RATES)}, reason

    def _row(self, kind: str, fields: rows.Row) -> rows.Row:
        place = {"suite": self.suite.id, "case": self.case.id, "device": self.worker.job.device.type}
        return cells.common(kind, self.worker.run) | place | fields

    def _cell(
        self, contender: TrainingContender, status: str, reason: str, facts: Mapping[str, object] | None = None
    ) -> rows.Row:
        job = self.worker.job
        return cells.cell(
            self.suite, self.case, contender, job.device, job.stamped(self.planned), status, reason, self.threads, facts
        )


@dataclass
class PlainTrainingItem:
    """One contender at one case, its updates timed as an ordinary pytest-benchmark test."""

    suite: TrainingSuite
    case: Case
    contender: TrainingContender
    device: Device
    settings: Settings

    @property
    def id(self) -> str:
        """The item's name."""
        return f"{self.suite.id}:{self.case.id}:{self.contender.id}"

    def run(self, benchmark: Any) -> None:
        """Times updates at the middle of the search space; skips with the reason where it cannot run here."""
        torch.set_num_threads(threads_for(self.suite, self.case, self.device))
        hyper = points(self.contender.space, 1)[0]
        try:
            with blamed("task"):
                available(self.contender, self.case, self.device)
                task = self.suite.task(self.case, self.device.torch_device, self.settings.seed)
            bench = Bench(self.device, clock_for(self.device), self.settings, lambda step, contender, limit_s: None)
            run = Run(self.contender, task, hyper, self.settings.seed, bench, "plain")
            run.build(self.case)
            for _ in range(2):
                run.update()
        except Failed as failed:
            declined(failed)
        benchmark.group = f"{self.suite.id} {self.case.id}"
        benchmark.extra_info.update({f"hyper.{name}": value for name, value in hyper.items()} | run.facts)
        rounds = self.settings.affordable(self.settings.budget_s, run.samples()[0])
        numbers = itertools.count(run.updates)
        setup: Callable[[], Any] = lambda: ((task.batch(next(numbers)),), {})  # noqa: E731
        benchmark.pedantic(run.learner.update, setup=setup, rounds=rounds, iterations=1)
