"""A guess of how long suites of ranks take."""

from __future__ import annotations

from bancada.ranks.declare import RanksSuite
from bancada.settings import Settings
from bancada.suite import Device
from bancada.sweep import Planned, able_on, call_s

POOL_START_S = 5.0  # mostly imports
STEP_OVERHEAD_S = 0.01  # a barrier, and collectives over the loopback device
BUILD_S = 0.5
COUNTED_STEPS = 5  # communications two or three times, memory, first warm-up


def estimate_s(planned: Planned, settings: Settings, flops_per_s: float, device: Device) -> float:
    """A rough guess of a case's seconds, as if its pools were its own: all ranks together reach a share of the peak."""
    suite: RanksSuite = planned.suite  # type: ignore[assignment]
    step, able = call_s(planned, flops_per_s) + STEP_OVERHEAD_S, able_on(planned, device)
    round_s = max(len(able), 1) * max(step, settings.sample_s)
    rounds = settings.affordable(planned.budget_s, round_s)
    steps = 2 * suite.checked_steps + COUNTED_STEPS + min(10, max(2, int(1 / step)))
    starts = POOL_START_S * len({suite.contender(name).pool for name in able})
    return starts + rounds * round_s + len(able) * (steps * step + BUILD_S) + suite.checked_steps * step
