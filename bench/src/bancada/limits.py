"""A ceiling on a child's memory, so that a contender that asks for too much gets an error and not the whole machine."""

from __future__ import annotations

from bancada.machine import available_bytes
from bancada.suite import Device

SHARE = 0.9


def apply(device: Device) -> None:
    """Limits this process's private memory to most of what is free now. CPU only: CUDA maps far more than it uses."""
    if device.type != "cpu":
        return
    try:
        import resource
    except ImportError:  # Windows: the system's own limit has to do
        return
    if free := available_bytes():
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        limit = int(free * SHARE)
        resource.setrlimit(resource.RLIMIT_DATA, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))
