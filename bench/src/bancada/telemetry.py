"""What the device says of itself beside the times: clock, temperature, why it slowed down, energy.

A GPU is asked through NVML, where nvidia-ml-py is installed; a CPU's energy is read from its RAPL counters, where the
system lets them be read. What cannot be read is left out of the rows, never guessed.
"""

from __future__ import annotations

import contextlib
import functools
import statistics
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from bancada.clock import Clock
from bancada.rows import MOST_SAMPLES, Row
from bancada.suite import Device

POWERCAP = Path("/sys/class/powercap")
# nvml.h, nvmlClocksEventReasons: an idle GPU and clocks that somebody set are no slowdown of a race.
SLOWDOWNS = {
    0x04: "power cap", 0x08: "hardware slowdown", 0x10: "sync boost", 0x20: "heat (software)",
    0x40: "heat (hardware)", 0x80: "power brake",
}  # fmt: skip
UNSLOWED = "nothing"
FEWEST_CALLS = 3  # an energy counter steps some tens of times a second


@dataclass(frozen=True)
class State:
    """MHz of the multiprocessors, degrees Celsius, and why the clock is held down; None for what is not told."""

    clock_mhz: float | None
    temperature_c: float | None
    slowdowns: tuple[str, ...] | None


class Probe(Protocol):
    """A device that can be asked."""

    def state(self) -> State:
        """What it is doing now."""

    def energy_j(self) -> float | None:
        """Joules used up to now, from some start; None where that cannot be read."""


class Nothing:
    """A device that says nothing of itself."""

    def state(self) -> State:
        """Nothing is told."""
        return State(None, None, None)

    def energy_j(self) -> float | None:
        """None."""
        return None


class Nvml:
    """An NVIDIA GPU.

    Args:
        nvml: the module `pynvml`.
        uuid: of the GPU, as torch gives it (without `GPU-`).
    """

    def __init__(self, nvml: Any, uuid: str) -> None:
        self._nvml = nvml
        nvml.nvmlInit()
        self._handle = nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")

    def _ask(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except (self._nvml.NVMLError, AttributeError):
            return None  # this library, this GPU, this driver or this container does not tell

    def state(self) -> State:
        """Clock, temperature and slowdowns now."""
        nvml, handle = self._nvml, self._handle
        clock = self._ask(lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM))
        heat = self._ask(lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))
        bits = self._ask(lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
        told = None if bits is None else tuple(name for bit, name in SLOWDOWNS.items() if bits & bit)
        return State(None if clock is None else float(clock), None if heat is None else float(heat), told)

    def energy_j(self) -> float | None:
        """The whole board's, since its driver was loaded."""
        millijoules = self._ask(lambda: self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle))
        return None if millijoules is None else millijoules * 1e-3


class Rapl(Nothing):
    """The energy counters of all processor packages; each wraps around at a value it tells, which is put right."""

    def __init__(self, folder: Path = POWERCAP) -> None:
        zones = sorted(folder.glob("intel-rapl:*"))
        self._zones = [zone for zone in zones if _text(zone / "name").startswith("package")]
        self._wraps = [_number(zone / "max_energy_range_uj") or 0 for zone in self._zones]
        self._last: list[int] | None = None
        self._total = 0

    def energy_j(self) -> float | None:
        """Joules of all packages since the first reading; None where one cannot be read, or went back unexplained."""
        read = [_number(zone / "energy_uj") for zone in self._zones]
        now = [value for value in read if value is not None]
        if not now or len(now) < len(read):
            return None
        counters = zip(self._last or now, now, self._wraps, strict=True)
        steps = [new - old if new >= old else new - old + wrap for old, new, wrap in counters]
        self._last = now
        if min(steps) < 0:
            return None
        self._total += sum(steps)
        return self._total * 1e-6


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text.isdecimal() else None


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:  # root alone may read these on most systems
        return ""


@functools.cache
def probe(kind: str) -> Probe:
    """What to ask of a device of this kind, `cuda` or `cpu`."""
    if kind != "cuda":
        return Rapl()
    with contextlib.suppress(Exception):  # no nvidia-ml-py, no driver for it, no such GPU: nothing is told
        import pynvml
        import torch

        return Nvml(pynvml, str(torch.cuda.get_device_properties(0).uuid))
    return Nothing()


def energy_per_call(
    run: Callable[[], object], clock: Clock, asked: Probe, seconds: float, call_s: float
) -> float | None:
    """Joules a call of the whole device, idle share included, over about so many seconds of calls in a row.

    None where the device does not tell, or its counter did not move.
    """
    if asked.energy_j() is None:
        return None
    calls = max(FEWEST_CALLS, round(seconds / max(call_s, 1e-9)))
    clock.synchronise()
    before, deadline, done = asked.energy_j(), time.perf_counter() + 4 * seconds, 0
    while done < calls and (done < FEWEST_CALLS or time.perf_counter() < deadline):
        run()
        done += 1
    clock.synchronise()
    after = asked.energy_j()
    return (after - before) / done if before is not None and after is not None and after > before else None


@dataclass
class Log:
    """The device's states along a race, one a round."""

    asked: Probe
    states: list[State] = field(default_factory=list)

    @classmethod
    def of(cls, device: Device) -> Log:
        """For a race on this device."""
        return cls(probe(device.type))

    def note(self) -> None:
        """Asks now."""
        self.states.append(self.asked.state())

    def fields(self) -> Row:
        """As fields of a cell; what was not told is left out."""
        found: Row = {}
        if clocks := [state.clock_mhz for state in self.states if state.clock_mhz is not None]:
            ends = {"clock_low_mhz": min(clocks), "clock_high_mhz": max(clocks)}
            found |= {"clock_mhz": statistics.median(clocks), "clocks_mhz": clocks[:MOST_SAMPLES], **ends}
        if heats := [state.temperature_c for state in self.states if state.temperature_c is not None]:
            found["temperature_c"] = max(heats)
        if reasons := [state.slowdowns for state in self.states if state.slowdowns is not None]:
            told = Counter(name for names in reasons for name in names)
            slowed = "; ".join(f"{name} in {count / len(reasons):.0%} of rounds" for name, count in told.most_common())
            found["slowed_by"] = slowed or UNSLOWED
        return found
