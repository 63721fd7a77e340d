"""The measured ceilings, and what is judged by them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from bancada import ceilings, cells
from bancada.clock import Clock, clock_for
from bancada.suite import Device, Work


def test_a_half_type_may_be_computed_in_fp32() -> None:
    """On a CPU without matrix units for it, bf16 computed in fp32 was 44 times the bf16 product's speed: no cheat."""
    known = {"fp32": 100.0, "bf16": 2.0, "fp64": 50.0}
    assert ceilings.reachable(known, "bf16") == 100.0
    assert ceilings.reachable(known, "fp32") == 100.0
    assert ceilings.reachable(known, "fp64") == 50.0
    assert ceilings.reachable(known, "fp16") == 100.0
    assert ceilings.reachable({}, "fp32") is None


@pytest.mark.parametrize(("share", "wrong"), [(0.9, False), (1.15, False), (1.16, True), (40.0, True)])
def test_more_than_115_percent_of_a_ceiling_is_wrong(share: float, wrong: bool, cpu: Device) -> None:
    """torchtitan 341, flashinfer 1638: wrong FLOPs gave more than 100% of peak (case 6)."""
    assert bool(cells.impossible({"compute_share": share})) is wrong
    assert bool(cells.impossible({"bandwidth_share": share})) is wrong


def test_bandwidth_is_judged_only_where_the_data_exceed_the_last_cache_four_times(cpu: Device) -> None:
    import numpy as np

    from bancada.machine import last_cache_bytes

    small = cells.timing(np.ones(5), 1, Work(1.0, 3.0 * last_cache_bytes()), 1e12, 1e12, cpu)
    large = cells.timing(np.ones(5), 1, Work(1.0, 5.0 * last_cache_bytes()), 1e12, 1e12, cpu)
    assert "bandwidth_share" not in small and large["bandwidth_share"] == pytest.approx(large["bytes_per_s"] / 1e12)


@pytest.mark.parametrize("seconds", [(0.5, 0.25), (0.25, 0.5)])
def test_the_memory_ceiling_is_what_the_faster_of_two_patterns_reaches(
    seconds: tuple[float, float], cpu: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fused AdamW, which writes in place, reached 125% of what a copy reached, and was called wrong."""
    taken, written = iter(seconds), []

    def best(call: Callable[[], torch.Tensor], clock: Clock, seconds: float) -> float:
        written.append(call())
        return next(taken)

    monkeypatch.setattr(ceilings, "_best", best)
    found = ceilings._copy("fp32", cpu, clock_for(cpu), 1.0)
    assert found == 2 * 4 * written[0].numel() / 0.25
    assert len(written) == 2 and written[0] is written[1]


def test_ceilings_are_measured_in_their_own_process(cpu: Device) -> None:
    import os

    found = ceilings.in_a_process_of_its_own(cpu, ("fp32",), dict(os.environ))
    assert found.matmul["fp32"] > 1e8 and found.copy["fp32"] > 1e8
