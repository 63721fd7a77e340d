"""One case on one rank: each contender alone first, then the race; rank 0 writes the rows.

All ranks do the same in the same order. What is decided (whether an answer is right, whether a race goes on) is
decided on rank 0 and told to all. An exception is caught nowhere here: a rank that goes on after one is out of step
with the others, so it ends the pool, and its row is written by the parent.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from bancada import accuracy, cells, rows
from bancada.clock import Clock
from bancada.machine import cores
from bancada.ranks import memory
from bancada.ranks.communications import Communications, seen_by_profiler
from bancada.ranks.control import Control
from bancada.ranks.declare import RankRun, Ranks, RanksContender, RanksSuite
from bancada.ranks.race import Entrant, Race
from bancada.settings import Job, JobCase
from bancada.stability import own_drift, unstable
from bancada.suite import Case, Device, Tensors

Facts = dict[str, Any]
WARM_UP_S = 1.0
LEAST_WARM_UPS = 2
MOST_COUNTS = 4


@dataclass
class Place:
    """What a rank works with: its job, where it stands, and how it speaks to the others and to the parent."""

    job: Job
    ranks: Ranks
    control: Control
    clock: Clock
    threads: int
    beat: Callable[..., None]  # Speaker.beat
    write: Callable[[list[rows.Row]], None]  # on rank 0; nothing elsewhere
    part: Callable[[str], Any]  # Parts.part


class RankedCase:
    """A case with the contenders of one pool that have no row yet."""

    def __init__(self, place: Place, suite: RanksSuite, planned: JobCase) -> None:
        self._place, self._suite, self._planned = place, suite, planned
        self._case: Case = suite.case(**planned.axes)
        self._inputs: Tensors = {}
        self._answer: Tensors = {}

    def run(self) -> None:
        """Screens and races the contenders; each of them has its row afterwards."""
        place = self._place
        self._ask()
        with place.part("screen"):
            screened = [self._screen(self._suite.contender(name)) for name in self._planned.contenders]
        entrants = [entrant for entrant in screened if entrant]
        if entrants:
            race = Race(
                entrants, place.control, place.clock.synchronise, place.job.settings, self._planned.budget_s, self._beat
            )
            with place.part("race"):
                race.run()
            self._finish(race)

    def _beat(self, step: str, limit_s: float, contender: str = "") -> None:
        self._place.beat(step, limit_s, self._suite.id, self._case.id, contender)

    def _ask(self) -> None:
        """Inputs on every rank, the answer on rank 0; the others wait for it."""
        place, settings = self._place, self._place.job.settings
        self._beat("oracle", settings.oracle_limit_s)
        with place.part("oracle"):
            self._inputs = self._suite.inputs(self._case, str(place.ranks.device), settings.seed)
            if place.ranks.rank == 0:
                self._answer = self._suite.oracle(self._case, self._inputs)
            place.control.barrier()

    def _screen(self, contender: RanksContender) -> Entrant | None:
        """The contender ready to race, or None with its row written."""
        place, settings = self._place, self._place.job.settings
        facts: Facts = {}
        self._beat("build", settings.compile_limit_s, contender.id)
        place.control.barrier()
        torch.manual_seed(settings.seed)
        lent = {name: tensor.detach().clone() for name, tensor in self._inputs.items()}
        start = time.perf_counter()
        run = contender.build(self._case, lent, place.ranks)
        facts["build_s"] = time.perf_counter() - start
        self._beat("first call", settings.compile_limit_s, contender.id)
        facts["first_call_s"] = self._timed(run.step)
        wrong = self._check(contender, run, facts, self._suite.checked_steps - 1)
        facts |= self._state(contender, run)
        if not wrong:
            self._beat("reset", settings.update_limit_s, contender.id)
            run.reset()
            facts |= self._count(contender, run)
            wrong = self._as_expected(contender, facts)
        if wrong:
            self._drop(contender, run, wrong, facts)
            return None
        self._beat("memory", settings.update_limit_s, contender.id)
        facts |= memory.peaks(run.step, self._device, place.control)
        return Entrant(contender, run, self._warm_up(contender, run), facts)

    @property
    def _device(self) -> Device:
        return self._place.job.device

    def _timed(self, step: Callable[[], None]) -> float:
        """Seconds of one step behind a barrier, on the slowest rank."""
        place = self._place
        place.control.barrier()
        start = time.perf_counter()
        step()
        place.clock.synchronise()
        (slowest,) = place.control.slowest([time.perf_counter() - start])
        return slowest

    def _check(self, contender: RanksContender, run: RankRun, facts: Facts, steps: int) -> str:
        """Takes steps and judges what they leave, on rank 0; what is wrong, on every rank."""
        settings = self._place.job.settings
        for _ in range(steps):
            self._beat("check", settings.update_limit_s, contender.id)
            run.step()
        self._beat("outputs", settings.update_limit_s, contender.id)
        outputs = run.outputs()
        wrong = ""
        if self._place.ranks.rank == 0:
            found, wrong = judge(outputs, self._answer, self._suite.tolerance(self._case))
            facts |= found
        return self._place.control.decide(wrong)

    def _state(self, contender: RanksContender, run: RankRun) -> Facts:
        """`measure.bytes.KIND` of the fullest rank."""
        self._beat("state", self._place.job.settings.update_limit_s, contender.id)
        found = memory.fullest(self._place.control.all(dict(run.state_bytes())))
        return {f"measure.bytes.{kind}": size for kind, size in found.items()}

    def _count(self, contender: RanksContender, run: RankRun) -> Facts:
        """Collectives of a settled step on the busiest rank, and of all ranks together."""
        place, limit = self._place, self._place.job.settings.update_limit_s
        earlier: list[dict[str, int]] = []
        for _ in range(MOST_COUNTS):  # DDP, for one, settles its buckets in its second step
            self._beat("communications", limit, contender.id)
            place.control.barrier()
            with Communications() as counted:
                run.step()
            by_rank = place.control.all(counted.figures())
            if by_rank == earlier:
                break
            earlier = by_rank
        facts: Facts = {f"measure.{name}": value for name, value in memory.fullest(by_rank).items()}
        facts["measure.comm.all_ranks.bytes"] = sum(figures["comm.bytes"] for figures in by_rank)
        self._beat("communications, profiled", limit, contender.id)
        unseen = max(place.control.all(seen_by_profiler(run.step) - sum(counted.calls.values())))
        if unseen > 0:
            facts["note.communications"] = f"not counted: {unseen} collectives of a step, called inside an operator"
        return facts

    def _as_expected(self, contender: RanksContender, facts: Facts) -> str:
        """What differs from the suite's formulas, told on every rank; empty where nothing does."""
        wrong: list[str] = []
        if self._place.ranks.rank == 0:
            expected = self._suite.expected(self._case, contender.id) or {}
            for name, right in expected.items():
                if (found := facts.get(f"measure.{name}", 0)) != right:
                    wrong.append(f"{name} is {found}, by formula {right}")
        return self._place.control.decide("; ".join(wrong))

    def _warm_up(self, contender: RanksContender, run: RankRun) -> float:
        """Seconds of the quickest of some steps; how many follows from the first, the same on every rank."""
        limit = self._place.job.settings.update_limit_s
        self._beat("warm-up", limit, contender.id)
        first = self._timed(run.step)
        more = min(10, max(LEAST_WARM_UPS, int(WARM_UP_S / max(first, 1e-9))))
        found = [first]
        for _ in range(more):
            self._beat("warm-up", limit, contender.id)
            found.append(self._timed(run.step))
        return min(found)

    def _drop(self, contender: RanksContender, run: RankRun, wrong: str, facts: Facts) -> None:
        """Writes the row of who is out, and closes its run."""
        self._close(contender, run)
        if self._place.ranks.rank == 0:
            self._place.write([self._cell(contender, "incorrect", wrong, facts)])

    def _close(self, contender: RanksContender, run: RankRun) -> None:
        self._beat("close", self._place.job.settings.update_limit_s, contender.id)
        run.close()

    def _finish(self, race: Race) -> None:
        """Judges every entrant once more, from its reset on; then rank 0 writes the rows together."""
        found: list[rows.Row] = []
        invalid: set[str] = set()
        times = race.times()
        for entrant, samples, shaky in zip(race.entrants, times, unstable(times), strict=True):
            contender = entrant.contender
            self._beat("after the race", self._place.job.settings.update_limit_s, contender.id)
            entrant.run.reset()
            wrong = self._check(contender, entrant.run, {}, self._suite.checked_steps)
            self._close(contender, entrant.run)
            status, reason = ("unstable", shaky) if shaky else ("ok", "")
            if wrong:
                status, reason = "incorrect", f"after the race: {wrong}"
            if status != "ok":
                invalid.add(contender.id)
            work = self._suite.work(self._case)
            facts = entrant.facts | cells.timing(samples, entrant.loops, work, None, None, self._device)
            if (drift := own_drift(samples)) is not None:
                facts["drift_share"] = drift
            found.append(self._cell(contender, status, reason, facts))
        if self._place.ranks.rank == 0:
            pairs = [one for one in race.comparisons() if not {one.a, one.b} & invalid]
            run = str(self._place.job.stamp["run"])
            found += [cells.pair(self._suite.id, self._case.id, self._device, run, one) for one in pairs]
            self._place.write(found)

    def _cell(self, contender: RanksContender, status: str, reason: str, facts: Mapping[str, Any]) -> rows.Row:
        job, threads = self._place.job, self._place.threads
        facts = {**facts, **note(self._device, self._place.ranks.world_size)}
        return cells.cell(
            self._suite, self._case, contender, self._device, job.stamped(self._planned), status, reason, threads, facts
        )


def note(device: Device, ranks: int) -> dict[str, str]:
    """What a row says of ranks that share a processor."""
    return {"note.ranks": f"{ranks} ranks share {cores()} cores: not scaling"} if device.type == "cpu" else {}


def judge(outputs: Tensors, answer: Tensors, tolerance: float) -> tuple[Facts, str]:
    """The errors of outputs as row fields, and what is wrong: per tensor ||x - ref|| / ||ref|| must be in tolerance."""
    if missing := sorted(set(answer) - set(outputs)):
        return {}, f"gives no {', '.join(missing)}"
    wrong: list[str] = []
    largest = relative = 0.0
    for name, right in answer.items():
        value = outputs[name].detach()
        if tuple(value.shape) != tuple(right.shape):
            wrong.append(f"{name} has shape {list(value.shape)}, right is {list(right.shape)}")
            continue
        one = accuracy.error(value, right.detach())
        largest, relative = max(largest, one.largest), max(relative, one.relative)
        if not one.relative <= tolerance:
            wrong.append(f"{name} is off by {one.relative:.3g} of its norm, allowed is {tolerance:.3g}")
    facts: Facts = {}
    if math.isfinite(largest) and math.isfinite(relative):
        facts = {"error_max": largest, "error_rel": relative}
        facts |= {"error_limit_share": relative / tolerance} if tolerance else {}
    shown = "; ".join(wrong[:3]) + (f"; and {len(wrong) - 3} more" if len(wrong) > 3 else "")
    return facts, shown
