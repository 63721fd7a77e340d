"""Clock, temperature, slowdowns and energy: read where they can be, left out where not."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from bancada import rows, screen, telemetry
from bancada.clock import CpuClock
from bancada.settings import Settings
from bancada.suite import Device


class NVMLError(Exception):
    """As pynvml's."""


def fake_nvml(clocks: list[int], reasons: int | None = 0, energy: bool = True, heat: bool = True) -> Any:
    """As much of pynvml as is used: a clock that goes through `clocks`, 250 mJ used at each reading."""
    left, used = iter(clocks), iter(range(0, 10**6, 250))

    def refuse(*_: object) -> int:
        raise NVMLError("Not Supported")

    return SimpleNamespace(
        NVMLError=NVMLError,
        NVML_CLOCK_SM=1,
        NVML_TEMPERATURE_GPU=0,
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByUUID=lambda uuid: uuid,
        nvmlDeviceGetClockInfo=lambda handle, which: next({1: left}[which]),
        nvmlDeviceGetTemperature=(lambda handle, which: {0: 61}[which]) if heat else refuse,
        nvmlDeviceGetCurrentClocksThrottleReasons=(lambda handle: reasons) if reasons is not None else refuse,
        nvmlDeviceGetTotalEnergyConsumption=(lambda handle: next(used)) if energy else refuse,
    )


def test_clocks_are_kept_with_the_samples_of_a_race() -> None:
    """nvbench 206: clocks drop in a run (case 5)."""
    log = telemetry.Log(telemetry.Nvml(fake_nvml([1980, 1980, 1410], reasons=0x04 | 0x01), "u"))
    for _ in range(3):
        log.note()
    found = log.fields()
    assert (found["clock_mhz"], found["clock_low_mhz"], found["clock_high_mhz"]) == (1980, 1410, 1980)
    assert found["clocks_mhz"] == [1980, 1980, 1410] and found["temperature_c"] == 61
    assert found["slowed_by"] == "power cap in 100% of rounds", "an idle GPU is not slowed down"
    assert telemetry.Log(telemetry.Nothing()).fields() == {}


def test_energy_a_call_is_the_counters_difference_over_the_calls() -> None:
    calls = []
    asked = telemetry.Nvml(fake_nvml([]), "u")
    found = telemetry.energy_per_call(lambda: calls.append(1), CpuClock(), asked, seconds=1.0, call_s=0.1)
    assert len(calls) == 10 and found == pytest.approx(0.250 / 10)


def test_slow_calls_are_not_repeated_for_long() -> None:
    calls = []

    def call() -> None:
        calls.append(1)
        time.sleep(0.02)

    asked = telemetry.Nvml(fake_nvml([]), "u")
    telemetry.energy_per_call(call, CpuClock(), asked, seconds=0.01, call_s=1e-6)
    assert len(calls) == telemetry.FEWEST_CALLS


def test_what_is_not_told_is_left_out() -> None:
    silent = telemetry.Nvml(fake_nvml([1000], energy=False), "u")
    assert silent.energy_j() is None
    for asked in (silent, telemetry.Nothing(), telemetry.Rapl(Path("/nowhere"))):
        assert telemetry.energy_per_call(lambda: pytest.fail("called"), CpuClock(), asked, 1.0, 0.1) is None


def test_each_thing_that_a_gpu_refuses_to_tell_costs_itself_alone() -> None:
    """No reading of the slowdowns is not the same as no slowdown."""
    whole = {"clock_mhz", "clock_low_mhz", "clock_high_mhz", "clocks_mhz", "temperature_c", "slowed_by"}

    def told(nvml: Any) -> set[str]:
        log = telemetry.Log(telemetry.Nvml(nvml, "u"))
        log.note()
        return set(log.fields())

    assert told(fake_nvml([1000])) == whole
    assert told(fake_nvml([1000], reasons=None)) == whole - {"slowed_by"}
    assert told(fake_nvml([1000], heat=False)) == whole - {"temperature_c"}
    old = fake_nvml([1000], heat=False)
    del old.nvmlDeviceGetClockInfo  # a library without this call
    assert told(old) == {"slowed_by"}


def package(folder: Path, number: int, energy: int, name: str = "package") -> Path:
    zone = folder / f"intel-rapl:{number}"
    zone.mkdir(exist_ok=True)
    (zone / "name").write_text(f"{name}-{number}\n")
    (zone / "max_energy_range_uj").write_text("1000000\n")
    (zone / "energy_uj").write_text(f"{energy}\n")
    return zone


def test_the_counters_of_all_packages_are_added_and_may_wrap(tmp_path: Path) -> None:
    package(tmp_path, 0, 900_000)
    package(tmp_path, 1, 100_000)
    package(tmp_path, 2, 5, name="psys")
    asked = telemetry.Rapl(tmp_path)
    assert asked.energy_j() == 0.0
    package(tmp_path, 0, 50_000)
    package(tmp_path, 1, 400_000)
    assert asked.energy_j() == pytest.approx(0.15 + 0.30)
    package(tmp_path, 1, 500_000)
    assert asked.energy_j() == pytest.approx(0.15 + 0.30 + 0.10), "each reading goes on from the one before"


def test_a_package_that_cannot_be_read_for_once_leaves_out_that_reading_alone(tmp_path: Path) -> None:
    package(tmp_path, 0, 100_000)
    gone = package(tmp_path, 1, 100_000)
    asked = telemetry.Rapl(tmp_path)
    assert asked.energy_j() == 0.0
    for text in (None, "", "none", "-5"):
        (gone / "energy_uj").unlink(missing_ok=True)
        if text is not None:
            (gone / "energy_uj").write_text(text)
        assert asked.energy_j() is None
    (gone / "energy_uj").unlink()
    (gone / "energy_uj").mkdir()
    assert asked.energy_j() is None
    (gone / "energy_uj").rmdir()
    package(tmp_path, 0, 300_000)
    package(tmp_path, 1, 200_000)
    assert asked.energy_j() == pytest.approx(0.3)


@pytest.mark.parametrize("told", ["0\n", "", "much", "50000"])
def test_a_counter_that_goes_back_and_tells_no_range_that_explains_it_gives_no_energy(
    tmp_path: Path, told: str
) -> None:
    """Another package's joules must not hide that this one's are not known."""
    reset = package(tmp_path, 0, 900_000)
    package(tmp_path, 1, 0)
    (reset / "max_energy_range_uj").write_text(told)
    asked = telemetry.Rapl(tmp_path)
    assert asked.energy_j() == 0.0
    package(tmp_path, 1, 990_000)
    (reset / "energy_uj").write_text("100000")
    assert asked.energy_j() is None
    (reset / "energy_uj").write_text("150000")
    assert asked.energy_j() == pytest.approx(0.05), "counted again from where it went on"


def test_a_counter_that_stands_still_gives_no_energy_and_ends_are_waited_for(tmp_path: Path) -> None:
    package(tmp_path, 0, 5)
    said: list[str] = []

    class Clock(CpuClock):
        def synchronise(self) -> None:
            said.append("wait")

    def call() -> None:
        said.append("call")

    assert telemetry.energy_per_call(call, Clock(), telemetry.Rapl(tmp_path), 1e-9, 0.0) is None
    assert said == ["wait", "call", "call", "call", "wait"]


@pytest.mark.parametrize("read", [[1.0, None, 2.0], [1.0, 1.0, None]])
def test_a_device_that_falls_silent_gives_no_energy(read: list[float | None], monkeypatch: pytest.MonkeyPatch) -> None:
    asked, left = telemetry.Nothing(), iter(read)
    monkeypatch.setattr(asked, "energy_j", lambda: next(left))
    assert telemetry.energy_per_call(lambda: None, CpuClock(), asked, 1e-9, 1.0) is None


def test_energy_is_over_the_calls_that_were_made_where_they_took_longer_than_thought(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[int] = []
    monkeypatch.setattr(telemetry, "time", SimpleNamespace(perf_counter=lambda: 0.0078125 * len(calls)))
    asked = telemetry.Nvml(fake_nvml([]), "u")
    found = telemetry.energy_per_call(lambda: calls.append(1), CpuClock(), asked, seconds=0.015625, call_s=1e-5)
    assert len(calls) == 8 and found == pytest.approx(0.250 / 8), "four times as long as was asked for, and no longer"


def test_what_the_rounds_said_is_summed_up_over_those_that_said_something() -> None:
    asked = telemetry.Nothing()
    states = [
        telemetry.State(100.0, 50.0, ("power cap",)),
        telemetry.State(300.0, 70.0, ("power brake", "power cap")),
        telemetry.State(None, None, None),
        telemetry.State(110.0, 60.0, ()),
    ]
    found = telemetry.Log(asked, states).fields()
    assert (found["clock_mhz"], found["clocks_mhz"], found["temperature_c"]) == (110.0, [100.0, 300.0, 110.0], 70.0)
    assert found["slowed_by"] == "power cap in 67% of rounds; power brake in 33% of rounds"
    assert telemetry.Log(asked, states[3:]).fields()["slowed_by"] == "nothing"
    many = telemetry.Log(asked, [telemetry.State(1.0, None, None)] * (rows.MOST_SAMPLES + 1)).fields()
    assert len(many["clocks_mhz"]) == rows.MOST_SAMPLES


@pytest.mark.parametrize(
    ("bits", "said"),
    [
        (0x00, ()), (0x03, ()), (0x100, ()), (0x04, ("power cap",)), (0x08, ("hardware slowdown",)),
        (0x10, ("sync boost",)), (0x20, ("heat (software)",)), (0x40, ("heat (hardware)",)), (0x80, ("power brake",)),
        (0xFF, ("power cap", "hardware slowdown", "sync boost", "heat (software)", "heat (hardware)", "power brake")),
    ],
)  # fmt: skip
def test_each_bit_of_a_slowdown_has_its_words(bits: int, said: tuple[str, ...]) -> None:
    """The masks of nvml.h: 1 is an idle GPU, 2 clocks that an application set, 0x100 those of a display."""
    assert telemetry.Nvml(fake_nvml([1500], reasons=bits), "u").state().slowdowns == said


def test_a_gpu_is_asked_only_where_the_library_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    telemetry.probe.cache_clear()
    assert isinstance(telemetry.probe("cuda"), telemetry.Nothing)
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml([1500]))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: SimpleNamespace(uuid=("abc",)[index]))
    telemetry.probe.cache_clear()
    found = telemetry.probe("cuda")
    assert isinstance(found, telemetry.Nvml) and found._handle == "GPU-abc"
    assert isinstance(telemetry.probe("cpu"), telemetry.Rapl) and telemetry.probe("cuda") is found
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: 1 / 0)
    telemetry.probe.cache_clear()
    assert isinstance(telemetry.probe("cuda"), telemetry.Nothing)
    telemetry.probe.cache_clear()


def test_screening_tells_the_energy_where_it_can_and_the_row_takes_it(
    monkeypatch: pytest.MonkeyPatch, cpu: Device
) -> None:
    from _planted import sound

    monkeypatch.setattr(telemetry, "probe", lambda kind: telemetry.Nvml(fake_nvml([1500] * 9), "u"))
    suite = sound()[0]
    asked = screen.ask(suite, suite.case(), cpu, 0)
    settings = Settings(energy_s=0.01)
    passed = screen.screen(suite.contenders[0], asked, cpu, CpuClock(), settings, lambda step, limit: None)
    assert passed.facts["energy_j"] > 0
    log = telemetry.Log.of(cpu)
    log.note()
    fields: set[str] = {"energy_j", *log.fields()}
    assert fields <= set(rows.MEASURES)
