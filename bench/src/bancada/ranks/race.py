"""The race between ranks: a barrier before each sample, and the slowest rank counts.

Every rank goes through the same shuffled order, which follows from the seed, and times its own samples. After the
planned rounds the samples are put together, the largest of all ranks for each, and rank 0 decides for everybody
whether the race goes on; before each round, it says whether there is time for it. pytest-benchmark cannot time this:
its samples are one process's.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from bancada import stats
from bancada.looks import Looks
from bancada.race import set_loops
from bancada.ranks.control import Control
from bancada.ranks.declare import RankRun, RanksContender
from bancada.settings import Settings

Beat = Callable[[str, float, str], None]


@dataclass
class Entrant:
    """A contender that has passed, ready to race: `estimate_s` is the slowest rank's, the same on all."""

    contender: RanksContender
    run: RankRun
    estimate_s: float
    facts: dict[str, str | int | float | bool]
    loops: int = 1
    samples: list[float] = field(default_factory=list)


class Race:
    """The state of one race on one rank; `run` races and leaves each entrant's `samples` (seconds a step).

    Args:
        entrants: in the same order on all ranks.
        control: the ranks' talk among themselves.
        synchronise: waits until the device is done.
        settings: rounds, seed, sample length.
        budget_s: time for the race.
        beat: `beat(step, limit_s, contender)`.
    """

    def __init__(
        self,
        entrants: Sequence[Entrant],
        control: Control,
        synchronise: Callable[[], None],
        settings: Settings,
        budget_s: float,
        beat: Beat,
    ) -> None:
        self.entrants = list(entrants)
        self.rounds = 0
        self._control, self._synchronise, self._settings, self._beat = control, synchronise, settings, beat
        self._random = random.Random(settings.seed)
        deadline = time.perf_counter() + budget_s
        set_loops(self.entrants, settings.sample_s)
        self._goal = settings.affordable(budget_s, sum(one.estimate_s * one.loops for one in self.entrants))
        self._looks = Looks(self._goal, settings.most_rounds, deadline)

    def run(self) -> None:
        """Races to the end; every rank leaves with the same samples."""
        collecting = gc.isenabled()
        gc.collect()
        gc.disable()
        try:
            while self.rounds < self._goal:
                self._leg()
                self._goal = self._control.decide(self._looks.next_goal(self.rounds, self.comparisons))  # rank 0's
        finally:
            if collecting:
                gc.enable()

    def _leg(self) -> None:
        """The rounds up to the goal, or as many as rank 0 has time for; then the slowest rank's times."""
        order: list[int] = []
        seconds: list[float] = []
        while self.rounds < self._goal:
            if self.rounds >= self._settings.least_rounds and self._control.decide(self._looks.late):
                break
            self.rounds += 1
            places = list(range(len(self.entrants)))
            self._random.shuffle(places)
            order += places
            seconds += [self._sample(self.entrants[place]) for place in places]
        self._beat("race, times put together", self._settings.call_limit_s, "")
        for place, slowest in zip(order, self._control.slowest(seconds), strict=True):
            entrant = self.entrants[place]
            entrant.samples.append(max(slowest, 1e-9) / entrant.loops)

    def _sample(self, entrant: Entrant) -> float:
        limit = max(self._settings.update_limit_s, 20 * entrant.estimate_s * entrant.loops)
        self._beat("race", limit, entrant.contender.id)
        step = entrant.run.step
        self._control.barrier()
        start = time.perf_counter()
        for _ in range(entrant.loops):
            step()
        self._synchronise()
        return time.perf_counter() - start

    def times(self) -> stats.Floats:
        """Seconds a step, [entrants, rounds]: the slowest rank's."""
        return np.array([entrant.samples for entrant in self.entrants], dtype=np.float64)

    def comparisons(self, confidence: float | None = None) -> list[stats.Comparison]:
        """Every pair, by the slowest rank's times; as sure as the last look was, where not told."""
        names = [entrant.contender.id for entrant in self.entrants]
        return stats.compare(self.times(), names, confidence or self._looks.confidence) if names else []
