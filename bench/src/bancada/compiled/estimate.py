"""A guess of how long compile suites take."""

from __future__ import annotations

from bancada.settings import Settings
from bancada.suite import Device
from bancada.sweep import Planned, able_on

COMPILE_S = 4.0  # as long as nothing is in the cache


def estimate_s(planned: Planned, settings: Settings, flops_per_s: float, device: Device) -> float:
    """A rough guess of a case's seconds: as if nothing had been compiled before."""
    return COMPILE_S * len(able_on(planned, device))
