"""Whatever a contender of a training suite does costs its own row; a killed run is gone on with."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from multiprocessing import forkserver
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import _bench
import pytest
from _bench import cells, job, measure, of_kind, read, worker
from _regression import LR, Regression, altered, contender, faulty, momentum, sgd, slow, suite
from torch import Tensor

from bancada import heartbeat, rows
from bancada.suite import Case
from bancada.training import Learner, TrainingSuite
from bancada.training.item import TrainingItem

ENDS = ("segfaults", "hangs", "leaves")
EXPECTED = {
    "sgd": ("ok", ""),
    "momentum": ("ok", ""),
    "starts-trained": ("incorrect", "not the same start"),
    "imports-nothing": ("unsupported", "a_library_that_is_not_there"),
    "not-a-number": ("incorrect", "diverged at update 8 (seed 1)"),
    "skips-all": ("incorrect", "nothing was learnt"),
    "raises": ("crashed", "update 7 (seed 1): KeyError"),
    "asks-for-too-much": ("out_of_memory", "update 4 (seed 1)"),
    "spoils-batch": ("incorrect", "changed its batch in place at update 1: y"),
    "not-installed": ("unsupported", "no-such-distribution is not installed"),
    "not-here": ("unsupported", "needs a machine that is not this one"),
}


def survivable() -> TrainingSuite:
    """Everything planted that leaves the process alive."""
    (made,) = faulty()
    return made.with_contenders([one for one in made.contenders if one.id not in ENDS])


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> list[rows.Row]:
    return measure(tmp_path_factory.mktemp("faults"), survivable())


@pytest.mark.parametrize(("name", "said"), EXPECTED.items())
def test_each_planted_fault_costs_its_own_row_alone(name: str, said: tuple[str, str], faults: list[rows.Row]) -> None:
    row = cells(faults)[name]
    assert row["status"] == said[0] and said[1] in row["reason"], row["reason"]
    assert (row["status"] == "ok") == (row["reason"] == "")


def test_every_planned_contender_has_exactly_one_row(faults: list[rows.Row]) -> None:
    assert sorted(row["contender"] for row in of_kind(faults, "cell")) == sorted(EXPECTED)


def test_only_sound_contenders_are_compared(faults: list[rows.Row]) -> None:
    compared = {(row["a"], row["b"]) for row in faults if row["kind"] in ("pair", "contrast")}
    assert compared == {("sgd", "momentum")}


def test_a_run_that_diverged_keeps_its_curve_up_to_there(faults: list[rows.Row]) -> None:
    (row,) = [row for row in of_kind(faults, "curve") if row["contender"] == "not-a-number"]
    assert row["status"] == "incorrect" and row["updates"] == [5] and row["evaluated"] == [0, 5]


def test_a_point_that_diverges_is_the_worst_of_its_contender_and_not_its_end(tmp_path: Path) -> None:
    """The search space's upper end is too much for it; what is left is reported."""
    found = measure(tmp_path, suite("regression.steep", (contender("steep", sgd, {"lr": (0.1, 3e37)}),)), seeds=1)
    trials = {row["hyper.lr"]: row for row in of_kind(found, "trial")}
    assert trials[3e37]["status"] == "incorrect" and "diverged at update" in trials[3e37]["reason"]
    assert cells(found)["steep"]["status"] == "ok" and cells(found)["steep"]["hyper.lr"] == 0.1


def test_a_contender_with_no_trial_that_ends_is_out(tmp_path: Path) -> None:
    made = suite("regression.steep", (contender("steep", sgd, {"lr": (2e37, 3e37)}), contender("sgd", sgd)))
    found = measure(tmp_path, made, seeds=1)
    assert cells(found)["steep"]["status"] == "incorrect"
    assert "none of 2 tuning trials came to its end" in cells(found)["steep"]["reason"]
    assert cells(found)["sgd"]["status"] == "ok"


def test_another_start_is_allowed_where_a_contender_says_so(tmp_path: Path) -> None:
    made, other = survivable(), survivable().contender("starts-trained").build
    pair = (contender("prompt", other, same_start=False), contender("sgd", sgd))
    found = measure(tmp_path, made.with_contenders(pair), seeds=1)
    assert {row["status"] for row in of_kind(found, "cell")} == {"ok"}


def test_updates_that_are_too_fast_to_be_true_are_incorrect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the updates skipped shows in the time: more operations a second than the machine has."""
    made = suite("regression.fast", (contender("sgd", sgd), contender("momentum", momentum)), flops=1e20)
    planned = job(tmp_path, made, seeds=1)
    asked: list[str] = []
    with worker(planned) as found:
        monkeypatch.setattr(found, "raise_ceilings", asked.append)
        TrainingItem(found, made, planned.cases[0]).run(None)
    left = read(tmp_path)
    for row in cells(left).values():
        assert row["status"] == "incorrect" and "ceiling" in row["reason"]
    assert asked == ["fp32", "fp32"], "the ceiling is measured again before anyone is blamed"
    assert not of_kind(left, "pair") and not of_kind(left, "contrast")


def test_a_task_that_cannot_be_made_is_told_for_every_contender(tmp_path: Path) -> None:
    def task(case: Case, device: str, seed: int) -> Regression:
        raise ImportError("install bancada[workloads]")

    made = suite("regression.taskless", (contender("sgd", sgd), contender("momentum", momentum)), task=task)
    with pytest.raises(ImportError):
        measure(tmp_path, made)
    found = cells(read(tmp_path))
    assert {row["status"] for row in found.values()} == {"unsupported"} and len(found) == 2
    assert all("bancada[workloads]" in row["reason"] for row in found.values())


def test_a_failure_in_a_later_seed_ends_that_contender_alone(tmp_path: Path) -> None:
    seeds: list[int] = []

    def late(inner: Learner, number: int, batch: Mapping[str, Tensor]) -> Tensor:
        seeds.append(number)
        if seeds.count(0) > 1:
            raise RuntimeError("not twice")
        return inner.update(batch)

    found = measure(tmp_path, suite("regression.late", (contender("late", altered(late)), contender("sgd", sgd))))
    assert cells(found)["late"]["status"] == "crashed" and "(seed 2)" in cells(found)["late"]["reason"]
    assert cells(found)["sgd"]["status"] == "ok" and cells(found)["sgd"]["measure.seeds"] == 2


# Going on where a killed run was


def test_nothing_that_has_a_row_is_done_again(tmp_path: Path) -> None:
    """From trials and curves alone, the same cells, pairs and contrasts come out, and nobody is built."""
    pair = (contender("sgd", sgd, LR), contender("momentum", momentum, LR))
    made = suite("regression.again", pair, target=0.5)
    first = measure(tmp_path, made)
    path = tmp_path / "rows.jsonl"
    path.unlink()
    rows.append(path, [row for row in first if row["kind"] in ("trial", "curve")])

    def build(*_: object) -> Learner:
        raise AssertionError("built again")

    again = measure(tmp_path, made.with_contenders([contender(one.id, build, LR) for one in pair]))
    assert timeless(again) == timeless(first)
    with pytest.raises(pytest.skip.Exception, match="measured already"):
        measure(tmp_path, made)


def timeless(found: list[rows.Row]) -> list[rows.Row]:
    return [{name: value for name, value in row.items() if name != "time"} for row in found]


Start = Callable[[Path, str], ForkServerProcess]


@pytest.fixture(scope="module")
def start() -> Iterator[Start]:
    """Starts a process that measures one suite, forked from a server that has imported but computed nothing.

    The server is stopped at the end: other tests of this session want one that has imported other things.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["bancada.training.item"])

    def started(folder: Path, which: str) -> ForkServerProcess:
        process = context.Process(target=_bench.measure_named, args=(folder, which))
        process.start()
        return process

    yield started
    forkserver._forkserver._stop()  # type: ignore[attr-defined]


@pytest.mark.timeout(200)
def test_a_run_killed_with_9_goes_on_where_it_was(start: Start, tmp_path: Path) -> None:
    """Killed in its second seed: tuning, the first seed and the failure on the way stand; the rest is measured."""
    process = start(tmp_path, "slow")
    end = time.monotonic() + 150
    while time.monotonic() < end and len(_curves(tmp_path)) < 3:
        time.sleep(0.01)
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    before = read(tmp_path)
    assert len(of_kind(before, "trial")) == 6 and len(of_kind(before, "curve")) == 3, "killed too late"
    assert cells(before)["raises"]["status"] == "crashed" and len(cells(before)) == 1
    (made,) = slow()
    after = measure(tmp_path, made, {"updates": 20}, seeds=3, trials=3)
    assert after[: len(before)] == before
    curves = [(row["contender"], row["seed"]) for row in of_kind(after, "curve")]
    assert len(curves) == len(set(curves)) == 7 and len(of_kind(after, "trial")) == 6
    assert {name: row["status"] for name, row in cells(after).items()} == {
        "one": "ok", "other": "ok", "raises": "crashed"
    }  # fmt: skip
    assert len(of_kind(after, "cell")) == 3 and cells(after)["one"]["measure.seeds"] == 3
    assert cells(after)["one"]["peak_bytes"] > 0, "what the first seed told of the memory is kept"


def _curves(folder: Path) -> list[rows.Row]:
    return [row for row in rows.read(folder / "rows.jsonl").rows if row["kind"] == "curve"]


@pytest.mark.timeout(200)
def test_a_contender_that_dies_is_named_with_its_step_in_the_heartbeat(start: Start, tmp_path: Path) -> None:
    """What the parent reads to know whom a crash or a hang belongs to."""
    process = start(tmp_path, "dying")
    process.join(150)
    assert process.exitcode == -signal.SIGSEGV
    current = heartbeat.read(tmp_path)
    assert current is not None and (current.contender, current.step) == ("segfaults", "update 7 (seed 1)")
    assert (current.suite, current.case) == ("regression.dying", "r0-u20") and current.limit_s == 60.0
    assert not _curves(tmp_path), "the seed that was not finished is trained again by the others"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_sweep_over_crashes_and_hangs_ends_with_a_row_for_all(tmp_path: Path) -> None:
    """The whole frame, with child processes: a segmentation fault, a hang, an exit, and every planted fault."""
    (tmp_path / "faults.toml").write_text(
        "[settings]\nseeds = 2\ntrials = 2\nupdate_limit_s = 15.0\n[[suite]]\nid = 'regression.faults'\n"
    )
    command = [sys.executable, "-m", "bancada", "sweep", "faults.toml", "--suites-from", "_regression:faulty"]
    options = ["--device", "cpu", "--threads", "1", "--no-aa", "--no-report", "--out", str(tmp_path / "runs")]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, *options], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (run,) = (tmp_path / "runs").iterdir()
    found = read(run)
    assert {name: row["status"] for name, row in cells(found).items()} == {
        **{name: status for name, (status, _) in EXPECTED.items()},
        "segfaults": "crashed",
        "hangs": "timeout",
        "leaves": "crashed",
    }
    reasons = {name: row["reason"] for name, row in cells(found).items()}
    assert "SIGSEGV in step 'update 7 (seed 1)'" in reasons["segfaults"]
    assert "'update 7 (seed 1)' took longer than 15 s" in reasons["hangs"]
    assert len(of_kind(found, "trial")) == 4, "tuning is not done again after a crash"
