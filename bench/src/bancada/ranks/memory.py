"""Peak memory of a step, rank by rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from bancada import memory
from bancada.ranks.control import Control
from bancada.suite import Device

Fact = str | int | float | bool


def peaks(step: Callable[[], object], device: Device, control: Control) -> dict[str, Fact]:
    """Row fields: `measure.rankN.peak_bytes` above what each rank held before the step, and the fullest rank's.

    All ranks take the step together, each under its own profiler.
    """
    control.barrier()
    found = control.all(memory.peak(step, device))
    facts: dict[str, Fact] = {f"measure.rank{rank}.peak_bytes": one.allocated for rank, one in enumerate(found)}
    facts["peak_bytes"] = max(one.allocated for one in found)
    hosts = [one.host for one in found if one.host is not None]
    return facts | ({"host_peak_bytes": max(hosts)} if hosts else {})


def fullest(by_rank: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """The largest figure of any rank, name by name; a rank that lacks a name counts as 0 there."""
    names = dict.fromkeys(name for figures in by_rank for name in figures)
    return {name: max(figures.get(name, 0) for figures in by_rank) for name in names}
