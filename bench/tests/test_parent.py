"""The parent without a measuring child: whom an end is laid at, when it gives up, and what a child is told."""

from __future__ import annotations

import dataclasses
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from _planted import sound

from bancada import cells, heartbeat, parent, rows
from bancada.heartbeat import Current, Heartbeat
from bancada.parent import End, Parent
from bancada.rows import ROWS
from bancada.settings import Job, Settings
from bancada.suite import Device
from bancada.sweep import Planned

Child = Callable[[Job], End]


def two_cases(folder: Path, cpu: Device) -> tuple[list[Planned], Job]:
    (suite,) = sound()
    names = tuple(contender.id for contender in suite.contenders)
    planned = [Planned(suite, suite.case(repeat=repeat), names, 5.0) for repeat in (0, 1)]
    stamp: dict[str, str | int] = {"run": "r", "driver": "", "commit": "c", "versions": "v"}
    return planned, Job(folder, tuple(one.job() for one in planned), cpu, Settings(), stamp)


def carried_out(folder: Path, job: Job, planned: list[Planned], *children: Child) -> int:
    """Runs a job whose children end so, the last of them ever again; how many were started."""
    one = Parent(folder, folder / "children.log", lambda current: None)
    started: list[str] = []

    def child(job: Job, family: str) -> End:
        started.append(family)
        return children[min(len(started), len(children)) - 1](job)

    one._child = child  # type: ignore[method-assign]
    one.run(job, planned)
    return len(started)


def status(folder: Path) -> dict[tuple[str, str], tuple[str, str]]:
    found = rows.read(folder / ROWS)
    assert not found.problems
    return {
        (row["case"], row["contender"]): (row["status"], row["reason"]) for row in found.rows if row["kind"] == "cell"
    }


def measures(planned: list[Planned]) -> Child:
    """A child that has a row for everything that is left, and comes to its end."""

    def child(job: Job) -> End:
        parent.write_lost(job, parent.left(job, planned), "unsupported", "made up")
        return End("", "", Current(step="done"))

    return child


def dies(contender: str, case: str = "r0-fp32") -> Child:
    return lambda job: End("crashed", "died of SIGSEGV", Current("planted.sound", case, contender, "race"))


def test_a_child_that_dies_costs_the_contender_at_work_alone(tmp_path: Path, cpu: Device) -> None:
    planned, job = two_cases(tmp_path, cpu)
    assert carried_out(tmp_path, job, planned, dies("honest-b"), measures(planned)) == 2
    found = status(tmp_path)
    assert found.pop(("r0-fp32", "honest-b")) == ("crashed", "died of SIGSEGV")
    assert len(found) == 3 and set(found.values()) == {("unsupported", "made up")}


def test_a_child_that_dies_in_preparing_a_case_costs_all_of_that_case(tmp_path: Path, cpu: Device) -> None:
    planned, job = two_cases(tmp_path, cpu)
    carried_out(tmp_path, job, planned, dies("", "r1-fp32"), measures(planned))
    assert {key: told[0] for key, told in status(tmp_path).items()} == {
        ("r0-fp32", "honest-a"): "unsupported", ("r0-fp32", "honest-b"): "unsupported",
        ("r1-fp32", "honest-a"): "crashed", ("r1-fp32", "honest-b"): "crashed",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("end", "starts"),
    [
        (End("crashed", "died of SIGSEGV before its first step", None), parent.MOST_IDLE_STARTS),
        (End("crashed", "died of SIGSEGV", Current()), parent.MOST_IDLE_STARTS),
        (End("", "", Current(step="done")), 1),
    ],
)
def test_children_that_get_nowhere_are_given_up_and_every_cell_has_its_row(
    tmp_path: Path, cpu: Device, end: End, starts: int
) -> None:
    planned, job = two_cases(tmp_path, cpu)
    assert carried_out(tmp_path, job, planned, lambda job: end) == starts
    assert len(status(tmp_path)) == 4
    assert {(said, "children.log" in reason) for said, reason in status(tmp_path).values()} == {("crashed", True)}


def test_starts_that_get_nowhere_count_in_a_row(tmp_path: Path, cpu: Device) -> None:
    planned, job = two_cases(tmp_path, cpu)
    idle: Child = lambda job: End("crashed", "died", None)  # noqa: E731
    children = [idle, idle, dies("honest-a"), idle, idle, dies("honest-b"), idle, idle, measures(planned)]
    assert carried_out(tmp_path, job, planned, *children) == 9
    assert [told[0] for told in status(tmp_path).values()].count("unsupported") == 2


def test_identical_contenders_that_die_get_no_row_of_a_cell(tmp_path: Path, cpu: Device) -> None:
    planned, job = two_cases(tmp_path, cpu)
    job = dataclasses.replace(job, identical=True)
    assert carried_out(tmp_path, job, planned, dies("honest-a")) == parent.MOST_IDLE_STARTS
    rows.append(tmp_path / ROWS, [cells.identical("planted.sound", "r0-fp32", cpu, "r", [])])
    assert parent.left(job, planned) == [(planned[1], "")] and status(tmp_path) == {}


@pytest.mark.parametrize(
    ("code", "said", "words"),
    [
        (3, "crashed", "ended by itself with exit status 3"),
        (0, "crashed", "ended by itself with exit status 0"),
        (-signal.SIGKILL, "out_of_memory", "was killed by the system"),
        (-signal.SIGSEGV, "crashed", "died of SIGSEGV"),
        (-(signal.SIGRTMIN + 1), "crashed", f"died of signal {signal.SIGRTMIN + 1}"),
    ],
)
def test_how_a_process_ended_has_its_status_and_words(code: int, said: str, words: str) -> None:
    found = parent.exit_status(code)
    assert found[0] == said and words in found[1]


def test_an_end_after_done_is_no_failure_and_one_before_is_told_with_its_step() -> None:
    assert parent._ended(1, Current(step="done")).status == ""
    assert (
        parent._ended(1, Current(step="race")).reason == "the process ended by itself with exit status 1 in step 'race'"
    )
    assert parent._ended(-11, None).reason == "the process died of SIGSEGV before its first step"


def watched(folder: Path, job: Job, seconds: float, ago: float = 0.0) -> tuple[End, Parent, list[Current | None]]:
    """What becomes of a child that sleeps so long."""
    told: list[Current | None] = []
    one = Parent(folder, folder / "children.log", told.append)
    process = subprocess.Popen([sys.executable, "-c", f"import time; time.sleep({seconds})"], start_new_session=True)
    try:
        return one._watch(process, job, time.monotonic() - ago), one, told
    finally:
        parent.kill(process)


def test_a_step_over_its_limit_and_a_start_over_its_own_are_hangs(
    tmp_path: Path, cpu: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, job = two_cases(tmp_path, cpu)
    monkeypatch.setattr(parent, "POLL_S", 0.01)
    late, _, told = watched(tmp_path, job, 30.0, ago=parent.START_LIMIT_S + 1)
    assert (
        (late.status, late.at) == ("timeout", None) and "did not start within 300 s" in late.reason and told == [None]
    )
    heart = Heartbeat(tmp_path)
    heart.beat("first call", 0.2, "planted.sound", "r0-fp32", "honest-a")
    hung, one, told = watched(tmp_path, job, 30.0, ago=2.0)
    assert (hung.status, hung.reason) == ("timeout", "step 'first call' took longer than 0 s")
    assert hung.at is not None and hung.at.contender == "honest-a" and len(told) > 3
    assert 1.0 < one.start_s < 2.1, "the seconds up to a child's first word, counted once"
    heart.beat("done", 60.0)
    assert watched(tmp_path, job, 0.0)[0].status == ""
    heart.close()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


def test_a_killed_child_takes_with_it_what_it_started() -> None:
    code = "import subprocess, time; print(subprocess.Popen(['sleep', '60']).pid, flush=True); time.sleep(60)"
    line = [sys.executable, "-c", code]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        parent.kill(process)
        parent.kill(process)  # once more is no error
    end = time.monotonic() + 5
    while (lives := alive(pid)) and time.monotonic() < end:
        time.sleep(0.01)
    assert not lives


def test_a_short_record_after_a_long_one_is_read_whole(tmp_path: Path) -> None:
    heart = Heartbeat(tmp_path)
    for case in ("c" * 3000, "c", "ç" * 500, "d"):
        heart.beat("race", 60.0, "s", case, "a")
        current = heartbeat.read(tmp_path)
        assert current is not None and (current.case, current.contender, current.step) == (case, "a", "race")
    heart.close()


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"other": 1}'])
def test_before_a_child_s_first_word_nothing_is_known(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / heartbeat.NAME).write_text(text)
    assert heartbeat.read(tmp_path) is None


def test_a_step_is_overdue_after_its_limit() -> None:
    assert Current(since=time.monotonic() - 5, limit_s=4).overdue
    assert not Current(since=time.monotonic() - 5, limit_s=400).overdue


def test_a_child_s_environment_fixes_threads_and_keeps_caches(
    tmp_path: Path, cpu: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", parent.CACHE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setenv("PYTEST_ADDOPTS", "--cov")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    _, job = two_cases(tmp_path, cpu)
    found = parent.job_environment(dataclasses.replace(job, device=dataclasses.replace(cpu, threads=3)))
    assert found["OMP_NUM_THREADS"] == found["MKL_NUM_THREADS"] == "3" and found["TOKENIZERS_PARALLELISM"] == "false"
    assert not {"TRITON_INTERPRET", "PYTEST_ADDOPTS"} & set(found)
    assert found["TORCHINDUCTOR_CACHE_DIR"] == str(tmp_path / "xdg" / "bancada" / "inductor")
    assert found["TRITON_CACHE_DIR"] == str(tmp_path / "xdg" / "bancada" / "triton")
    monkeypatch.setenv("TRITON_CACHE_DIR", "/mine")
    monkeypatch.setenv(parent.CACHE, str(tmp_path / "own"))
    found = parent.job_environment(job)
    assert found["TRITON_CACHE_DIR"] == "/mine"
    assert found["TORCHINDUCTOR_CACHE_DIR"] == str(tmp_path / "own" / "inductor")


def test_a_family_s_benchmarks_are_its_package_s_own_where_it_has_some(tmp_path: Path) -> None:
    own = tmp_path / "packages" / "attention" / "benchmarks"
    own.mkdir(parents=True)
    assert parent.benchmarks_of("attention", tmp_path) == own
    assert parent.benchmarks_of("harness", tmp_path) == parent.BUILT_IN and parent.BUILT_IN.is_dir()
