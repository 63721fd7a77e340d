"""The race: paired rounds inside one `benchmark.pedantic` call.

`setup` hands the next contender of a shuffled round to `target`; pytest-benchmark times one sample of it;
the samples, in order, are dealt back to the contenders. After the planned rounds the race goes on, from look to
look, while a comparison is undecided and the budget lasts.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from bancada import stats
from bancada.arena import Arena
from bancada.clock import Clock, CpuClock
from bancada.looks import Looks
from bancada.screen import RAISED, Entrant, Failed, failure, wrote
from bancada.settings import Settings
from bancada.suite import Tensors

ALIKE = 1.3  # neighbours in speed that share a loop count


class Paced(Protocol):
    """Whoever's work is repeated in a sample: seconds of one call, and how often a sample repeats it."""

    estimate_s: float
    loops: int


def set_loops(entrants: Sequence[Paced], sample_s: float) -> None:
    """Chooses how often each entrant's call is looped in a sample of about `sample_s` seconds.

    Contenders of about the same speed get the same count. Were it each one's own, a disturbed estimate would
    give one of two equal contenders shorter samples than the other, and a short sample slips through
    between two interruptions of a busy machine: equal contenders then differed by up to 2x.
    """
    quickest = previous = 0.0
    for entrant in sorted(entrants, key=lambda entrant: entrant.estimate_s):
        if not previous or entrant.estimate_s > ALIKE * previous:
            quickest = entrant.estimate_s
        previous = entrant.estimate_s
        entrant.loops = max(1, round(sample_s / quickest))


class Race:
    """The state of one race; `run` races and leaves `times` (seconds a call, [entrants, rounds]).

    An entrant that raises, or writes to the shared inputs, is out, with its failure in `failures`; the others go on.
    `note` is called before each round, outside any timed window.
    """

    def __init__(
        self,
        entrants: list[Entrant],
        clock: Clock,
        settings: Settings,
        budget_s: float,
        beat: Callable[[str, str, float], None],
        arena: Arena | None = None,
        note: Callable[[], None] = lambda: None,
    ) -> None:
        self.entrants = list(entrants)
        self.failures: dict[str, Failed] = {}
        self.last: dict[str, Tensors] = {}
        self._clock, self._settings, self._beat, self._arena = clock, settings, beat, arena or Arena({})
        self._latest, self._note = "", note
        self._warm = isinstance(clock, CpuClock)
        self._random = random.Random(settings.seed)
        deadline = time.perf_counter() + budget_s
        set_loops(self.entrants, settings.sample_s)
        self._goal = settings.affordable(budget_s, sum(entrant.estimate_s * entrant.loops for entrant in entrants))
        self._looks = Looks(self._goal, settings.most_rounds, deadline)
        self._order: list[str] = []
        self._queue: list[Entrant] = []
        self._rounds = 0
        self._over = False
        self._data: list[float] = []

    def run(self, benchmark: Any) -> None:
        """Races, through pytest-benchmark's `benchmark` fixture."""
        self._benchmark = benchmark
        most = self._settings.most_rounds * len(self.entrants)
        benchmark.pedantic(self._target, setup=self._setup, rounds=max(1, most), iterations=1)
        self._data = list(benchmark.stats.stats.data)
        self._guard()

    def _setup(self) -> tuple[tuple[Entrant | None], dict[str, Any]]:
        self._guard()
        if not self._queue and not self._over:
            self._next_round()
        if self._over:
            return (None,), {}
        entrant = self._queue.pop()
        self._order.append(entrant.contender.id)
        self._latest = entrant.contender.id
        limit = max(self._settings.call_limit_s, 20 * entrant.estimate_s * entrant.loops)
        self._beat("race", entrant.contender.id, limit)
        self._cool_or_warm(entrant)
        return (entrant,), {}

    def _guard(self) -> None:
        """Holds whoever ran last to account for what happened to the shared inputs."""
        if self._latest and (names := self._arena.touched()):
            self.failures[self._latest] = wrote(names)
        self._latest = ""

    def _cool_or_warm(self, entrant: Entrant) -> None:
        """Puts the caches into a state that is the same for all, outside the timed window.

        On a GPU the second-level cache is flushed (times are cold). On a CPU a short call is made once, untimed:
        what the contender before left in the caches must not count against this one (times are warm).
        """
        self._clock.flush()
        if self._warm and entrant.loops > 1:
            try:
                entrant.run()
            except RAISED as error:
                self.failures[entrant.contender.id] = failure(error)

    def _target(self, entrant: Entrant | None) -> None:
        if entrant is None or entrant.contender.id in self.failures:  # it failed as it was warmed
            return
        run, result = entrant.run, None
        try:
            for _ in range(entrant.loops):
                result = run()
        except RAISED as error:  # whatever one contender does costs its own row alone
            self.failures[entrant.contender.id] = failure(error)
        if result is not None:
            self.last[entrant.contender.id] = result

    def _next_round(self) -> None:
        self.entrants = [entrant for entrant in self.entrants if entrant.contender.id not in self.failures]
        due = self._rounds >= self._goal or (self._rounds >= self._settings.least_rounds and self._looks.late)
        if not self.entrants or (due and not self._goes_on()):
            self._over = True
            return
        # All at once, and not each before its owner runs again: that would hand every contender its own old memory for
        # the whole race, and where an answer lies can be worth 5% of its time.
        self.last.clear()
        self._note()
        self._queue = list(self.entrants)
        self._random.shuffle(self._queue)
        self._rounds += 1

    def _goes_on(self) -> bool:
        """Whether to race on, with the goal set if so."""
        self._data = list(self._benchmark.stats.stats.data)
        self._goal = self._looks.next_goal(self._rounds, self.comparisons)
        return self._goal > self._rounds

    @property
    def names(self) -> list[str]:
        """Those who ran to the end."""
        return [entrant.contender.id for entrant in self.entrants if entrant.contender.id not in self.failures]

    def times(self) -> stats.Floats:
        """Seconds a call, [entrants, rounds]; column i holds the samples of round i."""
        loops = {entrant.contender.id: entrant.loops for entrant in self.entrants}
        dealt: dict[str, list[float]] = {name: [] for name in self.names}
        for name, seconds in zip(self._order, self._data, strict=False):
            if name in dealt:
                dealt[name].append(max(seconds, 1e-9) / loops[name])
        rounds = min((len(samples) for samples in dealt.values()), default=0)
        return np.array([samples[:rounds] for samples in dealt.values()], dtype=np.float64)

    def comparisons(self, confidence: float | None = None) -> list[stats.Comparison]:
        """Every pair of those who ran to the end; as sure as the last look was, where not told."""
        names = self.names
        return stats.compare(self.times(), names, confidence or self._looks.confidence) if names else []
