"""When a race looks at its comparisons, and how sure it must be to stop there.

After its first rounds (those planned, or as many as its time pays for), and then at most twice more before the cap, a
race looks whether everything is decided. Each look is another chance for noise to seem a winner, so a look in between
takes intervals of 99.8%, and only the last one, at the cap or at the end of the time, takes 98% (the bounds of
Haybittle and Peto: what the looks in between spend is so little that the last interval need hardly be wider, and the
last look need not be known beforehand, which a race that may run out of time could not promise). All looks together
let an interval miss the truth in at most 2% + 3 x 0.2% of comparisons; a false verdict is rarer by far, as it must
also miss by the whole band.

`bancada trust` replays this rule over recorded races, see `traces`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from bancada.stats import CONFIDENCE, Comparison

LOOKS = 3  # how often a race looks again after its first look
IN_BETWEEN = 0.998


def further(rounds: int, first: int, most: int) -> int:
    """The rounds at the next look: a third of those between the first look and the cap more, up to the cap."""
    return min(most, rounds + max(1, math.ceil((most - first) / LOOKS)))


class Looks:
    """The looks of one race.

    Args:
        first: the rounds at the first look.
        most: the cap.
        deadline: the `perf_counter` reading after which no look is followed by another.

    `confidence` is that of the last look: what the race's verdicts are to be told at.
    """

    def __init__(self, first: int, most: int, deadline: float) -> None:
        self._first, self._most, self._deadline = first, most, deadline
        self.confidence = CONFIDENCE

    @property
    def late(self) -> bool:
        """Whether the time is up."""
        return time.perf_counter() > self._deadline

    def next_goal(self, rounds: int, comparisons: Callable[[float], list[Comparison]]) -> int:
        """The rounds to race to next; `rounds` where the race is over: all decided, or the cap or the time reached."""
        if rounds >= self._most or self.late:
            self.confidence = CONFIDENCE
            return rounds
        if all(one.decided for one in comparisons(IN_BETWEEN)):  # as it is where there is nobody to compare
            self.confidence = IN_BETWEEN
            return rounds
        return further(rounds, self._first, self._most)
