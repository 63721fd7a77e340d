"""Clocks for pytest-benchmark's `timer=`: any callable whose readings support `-` and give seconds."""

from __future__ import annotations

import time
from typing import Any, Protocol

import torch

from bancada.suite import Device


class Clock(Protocol):
    """Reads, synchronises and cools a device."""

    def __call__(self) -> Any:
        """A reading; the difference of two is seconds."""

    def synchronise(self) -> None:
        """Waits until all work on the device is done."""

    def flush(self) -> None:
        """Clears the last cache, outside any timed window."""


class CpuClock:
    """`perf_counter`; calls on a CPU return when the work is done."""

    def __call__(self) -> float:
        """Seconds since some start."""
        return time.perf_counter()

    def synchronise(self) -> None:
        """Nothing to wait for."""

    def flush(self) -> None:
        """Nothing: short calls are warmed instead, see the race."""


IDLE_SYNCHRONISE_S = 50e-6  # asking an idle device takes less than this


class CudaReading:
    """A recorded CUDA event; the later minus the earlier gives seconds on the device.

    Work left on other streams after the last event has passed is waited for and counted: a call that
    leaves its work on a stream of its own would otherwise seem to take no time.
    """

    def __init__(self) -> None:
        self.event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        self.event.record()

    def __sub__(self, earlier: CudaReading) -> float:
        self.event.synchronize()
        passed = time.perf_counter()
        torch.cuda.synchronize()
        elsewhere = time.perf_counter() - passed
        on_stream = float(earlier.event.elapsed_time(self.event)) * 1e-3
        return on_stream + (elsewhere if elsewhere > IDLE_SYNCHRONISE_S else 0.0)


class CudaClock:
    """CUDA events on the current stream. `flush` overwrites twice the second-level cache."""

    def __init__(self) -> None:
        size = getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 64 * 1024**2)
        self._scratch = torch.empty(2 * int(size), dtype=torch.uint8, device="cuda")

    def __call__(self) -> CudaReading:
        """An event on the current stream."""
        return CudaReading()

    def synchronise(self) -> None:
        """Waits for every stream."""
        torch.cuda.synchronize()

    def flush(self) -> None:
        """Overwrites the second-level cache."""
        self._scratch.zero_()


def clock_for(device: Device) -> Clock:
    """The clock of a device."""
    return CudaClock() if device.type == "cuda" else CpuClock()
