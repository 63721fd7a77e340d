"""Suites of ranks end to end, on two real ranks: a kill -9 of the parent, planted faults, counts known by hand."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from _counted import CONTENDERS, MIB, SLEEP_S
from _planted_ranks import DEADLY, SIZE
from _pools import LIMIT_S, cells, run

from bancada import rows
from bancada.ranks.launcher import alive
from bancada.ranks.words import Listener
from bancada.rows import ROWS

SUITES = ("_planted_ranks:faulty", "_counted:counted")
FOLDER = Path(__file__).parent
pytestmark = pytest.mark.timeout(280)


@dataclass(frozen=True)
class Measured:
    """A job that was killed with 9 on its way and gone on with: rows before and after, and the groups of its ranks."""

    before: list[rows.Row]
    rows: list[rows.Row]
    left_by_kill: list[int]
    left: list[int]

    def cell(self, contender: str) -> rows.Row:
        (found,) = [row for row in self.rows if row["kind"] == "cell" and row["contender"] == contender]
        return found


def members(group: int) -> list[int]:
    """Processes of a process group that live."""
    listed = subprocess.run(["ps", "-eo", "pid,pgid"], capture_output=True, text=True, check=True).stdout
    pairs = [line.split() for line in listed.splitlines()[1:]]
    return [int(pid) for pid, found in pairs if int(found) == group and alive(int(pid))]


def wait_for(what: object, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not what() and time.monotonic() < deadline:  # type: ignore[operator]
        time.sleep(0.05)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Measured]:
    folder = tmp_path_factory.mktemp("ranks")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(FOLDER))
        patch.setenv("PYTHONWARNINGS", "ignore")
        command = [sys.executable, str(FOLDER / "_pools.py"), str(folder), *SUITES]
        with (folder / "killed").open("wb") as log:
            parent = subprocess.Popen(command, stdout=log, stderr=log)
        listener = Listener(folder, 2)
        wait_for(lambda: len(cells(folder, written=False)) >= 5 and len(listener.pids()) == 2, 150.0)
        group = os.getpgid(listener.pids()[0])
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
        wait_for(lambda: not members(group), 15.0)
        left_by_kill, before = members(group), cells(folder)
        pools = run(folder, SUITES)
        assert pools.starts == len(DEADLY) + 2, (folder / "log").read_text()[-3000:]
        groups = {os.getpgid(pid) for pid in listener.pids().values() if alive(pid)}
        left = [pid for one in groups for pid in members(one)]
        yield Measured(before, rows.read(folder / ROWS).rows, left_by_kill, left)


def test_a_parent_killed_with_9_leaves_no_rank_and_nothing_is_measured_twice(measured: Measured) -> None:
    """Case 26: no orphan processes."""
    assert measured.left_by_kill == [] and measured.left == []
    assert 5 <= len(measured.before) < len(EXPECTED) + len(CONTENDERS), "the kill came too late to be worth anything"
    found = [row for row in measured.rows if row["kind"] == "cell"]
    assert found[: len(measured.before)] == measured.before
    keys = [(row["suite"], row["contender"]) for row in found]
    assert len(keys) == len(set(keys)) == len(EXPECTED) + len(CONTENDERS)


EXPECTED = {
    "honest-a": ("ok", ""),
    "honest-b": ("ok", ""),
    "elsewhere": ("ok", ""),
    "wrong": ("incorrect", "total is off by 0.001 of its norm, allowed is 1e-06"),
    "wrong-later": ("incorrect", "after the race: total is off by "),
    "wrong-bytes": ("incorrect", f"comm.all_reduce.bytes is {4 * SIZE}, by formula {4 * SIZE + 4}"),
    "chatty": ("incorrect", "comm.all_reduce.calls is 2, by formula 1; "),
    "not-here": ("unsupported", "needs a machine that is not this one"),
    "not-installed": ("unsupported", "no-such-distribution is not installed"),
    "raises": ("crashed", "rank 1, step 'race': KeyError: \"<script>"),
    "killed": ("out_of_memory", "rank 1, step 'race': was killed by the system (SIGKILL; "),
    "sleeps": ("timeout", f"rank 1, step 'race': takes longer than {LIMIT_S:.0f} s, at _planted_ranks.py:"),
}


@pytest.mark.parametrize(("contender", "status", "reason"), [(name, *told) for name, told in EXPECTED.items()])
def test_each_fault_costs_its_own_row_which_names_rank_and_step(
    contender: str, status: str, reason: str, measured: Measured
) -> None:
    """Case 26: a rank that raises, is killed or sleeps."""
    row = measured.cell(contender)
    assert row["status"] == status, row["reason"]
    assert row["reason"].startswith(reason) and bool(row["reason"]) == (status != "ok"), row["reason"]


def test_rows_of_ranks_tell_what_a_reader_needs(measured: Measured) -> None:
    row = measured.cell("honest-a")
    assert row["axis.world_size"] == 2 and row["threads"] == 1 and "not scaling" in row["note.ranks"]
    assert len(row["samples"]) == row["rounds"] == 6 and 0 < row["time_low_s"] <= row["time_s"] <= row["time_high_s"]
    assert row["error_rel"] <= 1e-6 and row["measure.bytes.total"] == 4 * SIZE + 8, "the fullest rank's bytes count"
    assert row["first_call_s"] > 0 and row["peak_bytes"] >= 4 * SIZE


def test_only_sound_contenders_of_one_pool_are_compared(measured: Measured) -> None:
    pairs = [row for row in measured.rows if row["kind"] == "pair" and row["suite"] == "planted.ranks"]
    assert [(row["a"], row["b"]) for row in pairs] == [("honest-a", "honest-b")]


@pytest.mark.parametrize("contender", CONTENDERS)
def test_collectives_are_counted_as_by_hand(contender: str, measured: Measured) -> None:
    """c10d's own, functional ones, DDP's reducer in C++, FSDP2, DTensor, pipelining's sends."""
    row, by_hand = measured.cell(contender), CONTENDERS[contender][1]
    assert row["status"] == "ok", row["reason"]
    found = {name.removeprefix("measure."): value for name, value in row.items() if name.startswith("measure.comm.")}
    assert {name: value for name, value in found.items() if name != "comm.all_ranks.bytes"} == by_hand
    assert found["comm.all_ranks.bytes"] == 2 * by_hand["comm.bytes"]
    assert ("note.communications" in row) == (contender == "hidden")


def test_what_hides_in_an_operator_is_told(measured: Measured) -> None:
    assert measured.cell("hidden")["note.communications"].startswith("not counted: 1 collectives")


def test_each_rank_has_its_own_peak_and_the_fullest_counts(measured: Measured) -> None:
    """optimum-benchmark: ranks pooled, memory summed (case 15)."""
    row = measured.cell("lopsided")
    assert (row["measure.rank0.peak_bytes"], row["measure.rank1.peak_bytes"]) == (MIB, 2 * MIB)
    assert row["peak_bytes"] == 2 * MIB


def test_the_slowest_rank_counts(measured: Measured) -> None:
    """torchcomms 3941: ranks not aligned, bandwidths added (case 14): a barrier, and the slowest rank of each step."""
    assert min(measured.cell("slow-on-one")["samples"]) >= SLEEP_S
