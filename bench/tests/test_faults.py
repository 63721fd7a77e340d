"""The frame end to end, with child processes: planted faults, a kill in mid-sweep, and going on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from _planted import FIVE

from bancada import rows

SWEEP = """
[settings]
rounds = 6
most_rounds = 6
budget_s = 2.0
sample_s = 0.002
call_limit_s = {limit}
compile_limit_s = {limit}
[[suite]]
id = "{suite}"
axes = {{ repeat = {repeats} }}
"""
LIMIT_S = 15.0  # far above what an honest call takes, also on a busy machine
pytestmark = pytest.mark.timeout(280)


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parent), "OMP_NUM_THREADS": "1"}


def command(folder: Path, suite: str, planted: str, repeats: list[int], limit: float = 60.0) -> list[str]:
    path = folder / "planted.toml"
    path.write_text(SWEEP.format(limit=limit, suite=suite, repeats=repeats))
    options = ["--suites-from", f"_planted:{planted}", "--device", "cpu", "--threads", "1", "--no-aa", "--no-report"]
    return [sys.executable, "-m", "bancada", "sweep", str(path), *options, "--out", str(folder / "runs")]


def only_run(folder: Path) -> Path:
    (run,) = (folder / "runs").iterdir()
    return run


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """One sweep over every planted fault; its run folder and what it printed."""
    folder = tmp_path_factory.mktemp("faults")
    done = subprocess.run(
        command(folder, "planted.faults", "faulty", [0], limit=LIMIT_S),
        env=environment(), capture_output=True, text=True, timeout=270, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return only_run(folder), done.stdout


EXPECTED = {
    "honest-a": "ok",
    "honest-b": "ok",
    "zeros": "incorrect",
    "cached": "incorrect",
    "cunningly-cached": "incorrect",
    "in-place": "incorrect",
    "late-in-place": "incorrect",
    "behind-torchs-back": "incorrect",
    "not-a-number": "incorrect",
    "nameless": "incorrect",
    "imports-nothing": "unsupported",
    "not-installed": "unsupported",
    "not-here": "unsupported",
    "raises": "crashed",
    "asks-for-too-much": "out_of_memory",
    "segfaults": "crashed",
    "is-killed": "out_of_memory",
    "leaves": "crashed",
    "hangs": "timeout",
    "hangs-in-the-race": "timeout",
    "leaves-in-the-race": "crashed",
    "nothing-in-the-race": "incorrect",
}


def cells(run: Path) -> dict[str, rows.Row]:
    found = rows.read(run / "rows.jsonl")
    assert not found.problems
    return {row["contender"]: row for row in found.rows if row["kind"] == "cell"}


@pytest.mark.parametrize(("contender", "status"), EXPECTED.items())
def test_each_planted_fault_costs_its_own_row_alone(contender: str, status: str, faults: tuple[Path, str]) -> None:
    """optimum-benchmark 78, HeCBench 77: a failure in mid-sweep lost all (case 11); cccl 507 (case 13)."""
    row = cells(faults[0])[contender]
    assert row["status"] == status, row["reason"]
    assert (status == "ok") == (row["reason"] == "")


def test_every_planned_cell_has_exactly_one_row(faults: tuple[Path, str]) -> None:
    run = faults[0]
    (planned,) = json.loads((run / "plan.json").read_text())["cells"]
    measured = [row["contender"] for row in rows.read(run / "rows.jsonl").rows if row["kind"] == "cell"]
    assert sorted(measured) == sorted(planned["contenders"]) == sorted(EXPECTED)


def test_reasons_say_what_happened(faults: tuple[Path, str]) -> None:
    reasons = {name: row["reason"] for name, row in cells(faults[0]).items()}
    assert "SIGSEGV" in reasons["segfaults"] and "'first call'" in reasons["segfaults"]
    assert f"longer than {LIMIT_S:.0f} s" in reasons["hangs"] and "'race'" in reasons["hangs-in-the-race"]
    assert "exit status 0" in reasons["leaves"]
    assert "ceiling" in reasons["cunningly-cached"]


def test_only_sound_results_are_compared(faults: tuple[Path, str]) -> None:
    pairs = [row for row in rows.read(faults[0] / "rows.jsonl").rows if row["kind"] == "pair"]
    assert [(row["a"], row["b"]) for row in pairs] == [("honest-a", "honest-b")]


def test_a_row_carries_what_a_reader_needs(faults: tuple[Path, str]) -> None:
    """pytest-benchmark 255: identity is the device, not its clock (case 17)."""
    row = cells(faults[0])["honest-a"]
    assert "torch=" in row["versions"] and row["device_name"] and row["commit"] and row["threads"] == 1
    assert row["time_low_s"] <= row["time_s"] <= row["time_high_s"] and len(row["samples"]) == row["rounds"] == 6
    assert row["flops_per_s"] > 0 and 0 < row["compute_share"] <= 1.15
    assert "MHz" not in json.dumps(row)


def test_the_verdicts_and_counts_are_printed(faults: tuple[Path, str]) -> None:
    assert "Cells: " in faults[1] and "2 ok" in faults[1] and "rows.jsonl" in faults[1]


def test_no_process_is_left(faults: tuple[Path, str]) -> None:
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(faults[0]) not in listed


@pytest.mark.slow
def test_five_faults_in_twenty_cells_leave_fifteen_valid_rows_and_five_typed_ones(tmp_path: Path) -> None:
    """tritonbench 873, HeCBench 77: one failure ended the run; here memory, a crash, a hang, an import, an answer."""
    line = command(tmp_path, "planted.five", "five", list(range(5)), limit=LIMIT_S)
    done = subprocess.run(line, env=environment(), capture_output=True, text=True, timeout=270, check=False)
    assert done.returncode == 0, done.stderr
    found = rows.read(only_run(tmp_path) / "rows.jsonl")
    status = {(row["contender"], row["axis.repeat"]): row["status"] for row in found.rows if row["kind"] == "cell"}
    told = {"asks-for-too-much": "out_of_memory", "segfaults": "crashed", "hangs": "timeout",
            "imports-nothing": "unsupported", "zeros": "incorrect"}  # fmt: skip
    assert len(status) == 20 and not found.problems
    assert {at: said for at, said in status.items() if said != "ok"} == {at: told[fault] for at, fault in FIVE.items()}
    valid = [row for row in found.rows if row["kind"] == "cell" and row["status"] == "ok"]
    assert len(valid) == 15 and all(row["time_s"] > 0 and row["rounds"] == 6 for row in valid)
    pairs = [(row["case"], row["a"], row["b"]) for row in found.rows if row["kind"] == "pair"]
    assert len(pairs) == len(set(pairs)) == 5 * 3, "the three sound contenders of each case are compared"
    assert "15 ok" in done.stdout


def test_a_sweep_killed_with_9_goes_on_and_measures_no_cell_twice(tmp_path: Path) -> None:
    """Case 11: done cells are skipped."""
    line = command(tmp_path, "planted.sound", "sound", list(range(6)))
    first = subprocess.Popen(
        line, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    end = time.monotonic() + 90
    while time.monotonic() < end and not any(tmp_path.glob("runs/*/rows.jsonl")):
        time.sleep(0.05)
    path = only_run(tmp_path) / "rows.jsonl"
    while time.monotonic() < end and len(_cells_of(path)) < 4:
        time.sleep(0.02)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    before = _cells_of(path)
    assert 4 <= len(before) < 12, "the kill came too late to be worth anything"
    done = subprocess.run(line, env=environment(), capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    assert "Going on with the interrupted run" in done.stdout
    after = _cells_of(path)
    assert after[: len(before)] == before
    keys = [(row["case"], row["contender"]) for row in after]
    assert len(keys) == len(set(keys)) == 12
    heads = [row for row in rows.read(path).rows if row["kind"] in ("run", "end")]
    assert [row["kind"] for row in heads] == ["run", "end"]


def _cells_of(path: Path) -> list[rows.Row]:
    return [row for row in rows.read(path).rows if row["kind"] == "cell"]
