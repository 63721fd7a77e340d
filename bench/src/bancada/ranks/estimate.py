"""A guess of how long suites of ranks take."""

from __future__ import annotations

from collections.abc import Sequence

from bancada.ranks.declare import RanksSuite
from bancada.settings import Settings
from bancada.suite import Device
from bancada.sweep import Planned

POOL_START_S, RANK_START_S = 6.0, 2.0  # imports, most of it; ranks that share cores import one after the other
STEP_OVERHEAD_S = 0.01  # a barrier, and collectives over the loopback device
BUILD_S = 0.5
COUNTED_STEPS = 4  # communications twice, memory, first warm-up
EFFICIENCY = 0.35  # of the matrix-product ceiling


def estimate_s(planned: Planned, settings: Settings, flops_per_s: float, device: Device) -> float:
    """A rough guess of a case's seconds, its pools' starts apart: all ranks together work at a share of the ceiling."""
    suite: RanksSuite = planned.suite  # type: ignore[assignment]
    step = suite.work(planned.case).flops / max(flops_per_s * EFFICIENCY, 1.0) + STEP_OVERHEAD_S
    able = _able(planned, device)
    round_s = max(len(able), 1) * max(step, settings.sample_s)
    rounds = max(settings.least_rounds, min(settings.rounds, int(planned.budget_s / round_s)))
    steps = 2 * suite.checked_steps + COUNTED_STEPS + min(10, max(2, int(1 / step)))
    return rounds * round_s + len(able) * (steps * step + BUILD_S) + suite.checked_steps * step


def start_s(planned: Sequence[Planned], device: Device) -> float:
    """Seconds for starting every pool that some cases take, each once."""
    pools = {
        (one.case.number("world_size"), one.suite.contender(name).pool)
        for one in planned
        if isinstance(one.suite, RanksSuite)
        for name in _able(one, device)
    }
    return sum(POOL_START_S + RANK_START_S * ranks for ranks, _ in pools)


def _able(planned: Planned, device: Device) -> list[str]:
    return [name for name in planned.contenders if planned.suite.contender(name).supports(planned.case, device) is None]
