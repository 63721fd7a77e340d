"""Peak memory of one call, above what its inputs hold. Measured in a call of its own, never in a timed one."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from bancada.suite import Device


@dataclass(frozen=True)
class Peak:
    """Bytes above the state before the call.

    `allocated` is what torch's allocator held; `host` the process's high-water mark (None: the system does not tell).
    """

    allocated: int
    host: int | None


def peak(call: Callable[[], object], device: Device) -> Peak:
    """The peak memory of `call()`, its results included.

    On a CPU: the running peak of the torch profiler's memory events, which sees inside C++ operators.
    On a GPU: the allocator's peak.
    """
    return _cuda_peak(call) if device.type == "cuda" else _cpu_peak(call)


def _cuda_peak(call: Callable[[], object]) -> Peak:
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    result = call()
    torch.cuda.synchronize()
    most = torch.cuda.max_memory_allocated()
    del result
    return Peak(int(most - before), None)


def _cpu_peak(call: Callable[[], object]) -> Peak:
    resident = _reset_high_water()
    # Not torch.profiler.profile: that is this same profiler, and imports the compiler at its first use: seconds.
    with torch.autograd.profiler.profile(profile_memory=True) as profiler:
        result = call()
    high = _status("VmHWM")
    del result
    events = profiler.kineto_results.events()
    changes = sorted((event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]")
    running = most = 0
    for _, change in changes:
        running += change
        most = max(most, running)
    return Peak(most, None if resident is None or high is None else max(0, high - resident))


def _status(field: str) -> int | None:
    try:
        text = Path("/proc/self/status").read_text()
    except OSError:
        return None
    match = re.search(rf"^{field}:\s*(\d+) kB", text, re.MULTILINE)
    return int(match.group(1)) * 1024 if match else None


def _reset_high_water() -> int | None:
    """Sets the process's high-water mark to what it holds now; the resident bytes, or None where that can't be done."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return None
    return _status("VmRSS")
