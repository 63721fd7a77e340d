"""A fresh process for each contender and block of rounds: turns, verdicts of the blocks, failures, going on."""

from __future__ import annotations

import dataclasses
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from _planted import sound
from test_faults import command, environment, only_run

from bancada import cells, isolate, rows
from bancada.parent import left
from bancada.rows import PARTS, ROWS
from bancada.settings import Job, Settings
from bancada.suite import Device, Work
from bancada.sweep import Planned

Times = Callable[[str, int], float]


class Processes:
    """In place of the parent: each run of a job is a process that takes `times(contender, run)` a call."""

    def __init__(
        self,
        times: Times,
        fails: tuple[str, int] = ("", 0),
        killed_at: int = 0,
        facts: Callable[[int], dict[str, Any]] = lambda number: {},
        status: str = "crashed",
    ) -> None:
        self.status = status
        self.times, self.fails, self.killed_at, self.facts = times, fails, killed_at, facts
        self.runs: list[tuple[str, Job]] = []

    def run(self, job: Job, planned: Sequence[Planned]) -> None:
        ((one, name),) = left(job, planned) or [(planned[0], "")]
        if not name:
            return
        if len(self.runs) + 1 == self.killed_at:
            raise KeyboardInterrupt
        self.runs.append((name, job))
        number = sum(who == name for who, _ in self.runs)
        failed = (name, number) == self.fails
        status, reason = (self.status, "died of SIGSEGV") if failed else ("ok", "")
        samples = np.full(job.settings.rounds, self.times(name, number))
        facts: dict[str, Any] = cells.timing(samples, 3, Work(1e6, 1e6), None, None, job.device)
        facts |= {"first_call_s": 0.1 * number, "peak_bytes": 1000 + number, "error_max": 1e-6}
        facts |= self.facts(number)
        contender, stamp = one.suite.contender(name), job.stamped(one)
        facts = {} if status == "crashed" else facts
        row = cells.cell(one.suite, one.case, contender, job.device, stamp, status, reason, 1, facts)
        rows.append(job.run_dir / ROWS, [row])
        (job.run_dir / PARTS).write_text('{"race": 0.5}\n')


def planned_and_job(folder: Path, cpu: Device, blocks: int = 8) -> tuple[Planned, Job]:
    (suite,) = sound()
    one = Planned(suite, suite.case(), tuple(contender.id for contender in suite.contenders), 5.0)
    stamp = {"run": "r", "driver": "", "commit": "c", "versions": "v"}
    return one, Job(folder, (one.job(),), cpu, Settings(isolate="process", blocks=blocks), stamp)


def found_of(folder: Path, kind: str) -> list[rows.Row]:
    read = rows.read(folder / ROWS)
    assert not read.problems
    return [row for row in read.rows if row["kind"] == kind]


def luck(name: str, number: int) -> float:
    """One speed for all; a process is faster or slower by some 3%, for as long as it lives."""
    seed = [number, *name.encode()]
    return 1e-3 * float(np.exp(np.random.default_rng(seed).normal(0, 0.03)))


def test_contenders_take_turns_in_shuffled_order_each_in_a_process_of_its_own(tmp_path: Path, cpu: Device) -> None:
    one, job = planned_and_job(tmp_path, cpu)
    processes = Processes(luck)
    isolate.run(processes, job, [one])
    names = [name for name, _ in processes.runs]
    turns = [tuple(names[start : start + 2]) for start in range(0, len(names), 2)]
    assert len(turns) == 8 and all(sorted(turn) == sorted(one.contenders) for turn in turns) and len(set(turns)) == 2
    assert len({of_block.run_dir for _, of_block in processes.runs}) == 16
    assert {of_block.settings.most_rounds for _, of_block in processes.runs} == {Settings().block_rounds}
    assert {of_block.settings.rounds for _, of_block in processes.runs} == {Settings().block_rounds}
    for name, of_block in processes.runs:
        (case,) = of_block.cases
        assert case.contenders == (name,) and case.budget_s == 5.0 / 8


def test_the_seed_shuffles_the_turns_and_the_ceilings_are_those_of_their_kind(tmp_path: Path, cpu: Device) -> None:
    orders = []
    for seed in (0, 1):
        (tmp_path / str(seed)).mkdir()
        one, job = planned_and_job(tmp_path / str(seed), cpu)
        settings = dataclasses.replace(job.settings, seed=seed)
        job = dataclasses.replace(job, settings=settings, matmul_ceiling={"fp32": 1e12}, copy_ceiling={"fp32": 1e6})
        isolate.run(processes := Processes(luck), job, [one])
        orders.append([name for name, _ in processes.runs])
        cell = found_of(job.run_dir, "cell")[0]
        assert cell["compute_share"] == pytest.approx(one.suite.work(one.case).flops / cell["time_s"] / 1e12)
    assert orders[0] != orders[1]


def test_a_verdict_is_that_of_the_blocks_medians(tmp_path: Path, cpu: Device) -> None:
    one, job = planned_and_job(tmp_path, cpu)
    isolate.run(Processes(lambda name, number: luck(name, number) * (1 + (name == "honest-b"))), job, [one])
    (pair,) = found_of(tmp_path, "pair")
    assert (pair["a"], pair["verdict"], pair["rounds"]) == ("honest-a", "faster", 8)
    assert pair["low"] < pair["ratio"] < pair["high"] < 0.6
    cell = found_of(tmp_path, "cell")[0]
    assert cell["isolate"] == "process" and cell["block_rounds"] == Settings().block_rounds
    assert cell["samples"] == pytest.approx([luck("honest-a", number) for number in range(1, 9)], rel=1e-4)
    assert cell["first_call_s"] == pytest.approx(0.45) and cell["peak_bytes"] == 1008
    assert "--isolate process" in cell["command"]
    assert not (tmp_path / isolate.BLOCKS).exists()


def test_the_luck_of_a_process_makes_no_winner(tmp_path: Path, cpu: Device) -> None:
    verdicts = []
    for seed in range(20):
        folder = tmp_path / str(seed)
        folder.mkdir()
        one, job = planned_and_job(folder, cpu)
        isolate.run(Processes(lambda name, number, seed=seed: luck(name, 100 * seed + number)), job, [one])
        verdicts.append(found_of(folder, "pair")[0]["verdict"])
    assert verdicts.count("too close to call") >= 19


def test_a_failure_in_a_block_costs_that_contender_alone(tmp_path: Path, cpu: Device) -> None:
    one, job = planned_and_job(tmp_path, cpu)
    processes = Processes(luck, fails=("honest-a", 3))
    isolate.run(processes, job, [one])
    status = {row["contender"]: (row["status"], row["reason"]) for row in found_of(tmp_path, "cell")}
    assert status == {"honest-a": ("crashed", "in block 3: died of SIGSEGV"), "honest-b": ("ok", "")}
    assert [name for name, _ in processes.runs].count("honest-a") == 3 and found_of(tmp_path, "pair") == []


@pytest.mark.parametrize("status", ["incorrect", "unstable"])
def test_a_block_that_fails_is_told_by_its_own_figures(tmp_path: Path, cpu: Device, status: str) -> None:
    """A crash has no time, a wrong answer its own error, an unstable block its own time."""
    one, job = planned_and_job(tmp_path, cpu, blocks=3)
    facts: Callable[[int], dict[str, Any]] = lambda number: {"error_max": 1e-6 * number, "time_s": 1.0 * number}  # noqa: E731
    isolate.run(Processes(luck, fails=("honest-a", 2), status=status, facts=facts), job, [one])
    cell = next(row for row in found_of(tmp_path, "cell") if row["contender"] == "honest-a")
    assert (cell["status"], cell["reason"], cell["threads"]) == (status, "in block 2: died of SIGSEGV", 1)
    assert (cell["error_max"], cell["time_s"]) == (2e-6, 2.0) and "isolate" not in cell


def test_a_crash_in_a_later_block_has_no_time(tmp_path: Path, cpu: Device) -> None:
    one, job = planned_and_job(tmp_path, cpu, blocks=3)
    isolate.run(Processes(luck, fails=("honest-a", 2)), job, [one])
    crashed = next(row for row in found_of(tmp_path, "cell") if row["contender"] == "honest-a")
    assert "time_s" not in crashed and "samples" not in crashed


def test_what_an_interrupted_run_had_measured_is_not_measured_again(tmp_path: Path, cpu: Device) -> None:
    one, job = planned_and_job(tmp_path, cpu)
    first = Processes(luck, killed_at=8)
    with pytest.raises(KeyboardInterrupt):
        isolate.run(first, job, [one])
    assert not (tmp_path / ROWS).exists()
    assert (tmp_path / PARTS).read_text().splitlines() == ['{"race": 0.5}'] * 7
    second = Processes(luck)
    isolate.run(second, job, [one])
    assert len((tmp_path / PARTS).read_text().splitlines()) == 16, "a block's seconds are counted once"
    assert len(first.runs) == 7 and len(second.runs) == 16 - 7
    third = Processes(luck)
    isolate.run(third, job, [one])
    assert third.runs == [] and len(found_of(tmp_path, "cell")) == 2


def test_blocks_of_an_interrupted_case_outlive_families_that_have_none(tmp_path: Path, cpu: Device) -> None:
    one, job = planned_and_job(tmp_path, cpu)
    with pytest.raises(KeyboardInterrupt):
        isolate.run(Processes(luck, killed_at=8), job, [one])
    isolate.run(Processes(luck), job, [])
    second = Processes(luck)
    isolate.run(second, job, [one])
    assert len(second.runs) == 16 - 7


def test_what_the_device_said_of_itself_is_that_of_all_blocks(tmp_path: Path, cpu: Device) -> None:
    one, job = planned_and_job(tmp_path, cpu, blocks=3)
    slow = {1: "nothing", 2: "power cap in 50% of rounds", 3: "nothing"}

    def facts(number: int) -> dict[str, Any]:
        clocks = {"clock_mhz": 100 * number, "clock_low_mhz": 10 * number, "clock_high_mhz": 1000 * number}
        state = {"temperature_c": 50 + number, "slowed_by": slow[number], "clocks_mhz": [1]}
        rest = dict.fromkeys(("build_s", "first_call_s", "energy_j", "warm_s", "host_s"), 1.0 * number**2)
        words = {"error.a": 0.5, "measure.b": 1, "note.c": "d", "host_peak_bytes": number}
        return clocks | state | {"drift_share": 0.5} | rest | words

    isolate.run(Processes(luck, facts=facts), job, [one])
    cell = found_of(tmp_path, "cell")[0]
    assert (cell["clock_mhz"], cell["clock_low_mhz"], cell["clock_high_mhz"]) == (200, 10, 3000)
    assert cell["temperature_c"] == 53 and cell["slowed_by"] == "block 2: power cap in 50% of rounds"
    assert "clocks_mhz" not in cell and "drift_share" not in cell
    assert {cell[name] for name in ("build_s", "first_call_s", "energy_j", "warm_s", "host_s")} == {4.0}
    assert (cell["error.a"], cell["measure.b"], cell["note.c"], cell["host_peak_bytes"]) == (0.5, 1, "d", 3)
    assert (cell["loops"], cell["rounds"], cell["block_rounds"], cell["threads"]) == (3, 3, Settings().block_rounds, 1)


def test_what_some_blocks_alone_said_is_said_of_no_cell(tmp_path: Path, cpu: Device) -> None:
    one, job = planned_and_job(tmp_path, cpu, blocks=3)
    facts: Callable[[int], dict[str, Any]] = (  # noqa: E731
        lambda number: {"slowed_by": "nothing", "clock_mhz": 9.0, "energy_j": 1.0} if number < 3 else {}
    )
    isolate.run(Processes(luck, facts=facts), job, [one])
    assert not {"slowed_by", "clock_mhz", "energy_j"} & set(found_of(tmp_path, "cell")[0])
    again = tmp_path / "again"
    again.mkdir()
    one, job = planned_and_job(again, cpu, blocks=3)
    isolate.run(Processes(luck, facts=lambda number: {"slowed_by": "nothing"}), job, [one])
    assert found_of(again, "cell")[0]["slowed_by"] == "nothing"


def test_settings_are_checked() -> None:
    with pytest.raises(ValueError, match="isolate='thread': allowed are none, process"):
        Settings(isolate="thread")
    with pytest.raises(ValueError, match="blocks=1"):
        Settings(isolate="process", blocks=1)
    assert isolate.block_settings(dataclasses.replace(Settings(), least_rounds=20)).least_rounds == 10


@pytest.mark.slow
@pytest.mark.timeout(280)
def test_a_sweep_with_a_process_for_each_block(tmp_path: Path) -> None:
    line = [*command(tmp_path, "planted.sound", "sound", [0]), "--isolate", "process", "--setting", "blocks=2"]
    done = subprocess.run(line, env=environment(), capture_output=True, text=True, timeout=270, check=False)
    assert done.returncode == 0, done.stderr
    measured = found_of(only_run(tmp_path), "cell")
    assert [row["status"] for row in measured] == ["ok", "ok"]
    assert all(row["rounds"] == len(row["samples"]) == 2 and row["isolate"] == "process" for row in measured)
    assert [row["rounds"] for row in found_of(only_run(tmp_path), "pair")] == [2]
    (end,) = found_of(only_run(tmp_path), "end")
    assert end["part.race_s"] > 0 and end["part.start_s"] > 4 * 0.5
