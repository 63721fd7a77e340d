"""Whom the end of a pool is laid at, from what its ranks left in their files; and the pieces around it."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from _pools import job, planned

from bancada.heartbeat import Current, Heartbeat
from bancada.parent import End
from bancada.ranks import blame, extensions, words
from bancada.ranks.estimate import estimate_s
from bancada.ranks.item import judge, note
from bancada.ranks.pool import environment, too_few_devices
from bancada.ranks.words import Failure, Listener, Word
from bancada.ranks.worker import threads_for
from bancada.suite import Device

OWN = Failure("crashed", "KeyError: 'x'", False)
SEEN = Failure("crashed", "RuntimeError: [gloo] Connection closed by peer", True)
SOUND = ("_planted_ranks:sound",)


def left_behind(
    folder: Path, ranks: int, failures: dict[int, Failure], codes: dict[int, int] | None, done: tuple[int, ...] = ()
) -> Listener:
    """The files of a pool, as its ranks leave them."""
    listener = Listener(folder, ranks)
    for rank in range(ranks):
        words.folder(folder, rank).mkdir(parents=True)
        heart = Heartbeat(words.folder(folder, rank))
        heart.beat("done" if rank in done else "race", 60.0, "s", "c", "" if rank in done else "a")
        heart.close()
    for rank, failure in failures.items():
        path = words.folder(folder, rank) / "failed.json"
        path.write_text(
            json.dumps({"status": failure.status, "text": failure.text, "communication": failure.communication})
        )
    if codes is not None:
        listener.exits.write_text(json.dumps(codes))
    return listener


@pytest.mark.parametrize(
    ("failures", "codes", "first_gone", "status", "reason"),
    [
        ({0: SEEN, 2: OWN}, {2: 1}, [], "crashed", "rank 2, step 'race': KeyError: 'x'"),
        ({0: SEEN}, {1: -9}, [1], "out_of_memory", "rank 1, step 'race': was killed by the system (SIGKILL"),
        ({0: SEEN}, {1: -11}, [1], "crashed", "rank 1, step 'race': died of SIGSEGV"),
        ({0: SEEN}, {1: 3}, [1], "crashed", "rank 1, step 'race': ended by itself with exit status 3"),
        ({0: SEEN}, {0: 1}, [2], "crashed", "rank 2, step 'race': ended by itself before the others"),
        ({0: SEEN}, {0: 1, 1: -15}, [0], "crashed", "rank 0, step 'race': RuntimeError: [gloo] Connection closed"),
        ({1: Failure("unsupported", "no", False)}, None, [1], "unsupported", "rank 1, step 'race': no"),
        ({}, {}, [], "crashed", "the launcher ended the ranks; no rank says why"),
    ],
)
def test_the_guilty_is_who_failed_of_his_own(
    failures: dict[int, Failure],
    codes: dict[int, int] | None,
    first_gone: list[int],
    status: str,
    reason: str,
    tmp_path: Path,
) -> None:
    end = blame.ended(left_behind(tmp_path, 3, failures, codes), first_gone, None)
    assert end.status == status and end.reason.startswith(reason), end
    if "launcher" not in reason:
        assert end.at is not None and (end.at.suite, end.at.case, end.at.contender) == ("s", "c", "a")


def test_ranks_that_are_all_done_have_ended_well(tmp_path: Path) -> None:
    listener = left_behind(tmp_path, 2, {}, {}, done=(0, 1))
    assert blame.ended(listener, [], None) == End("", "", listener.current(0))


AT = {rank: Current("s", "c", "a", "race", 0.0, 5.0) for rank in range(3)}


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({0: (4, True), 1: (4, False), 2: (4, True)}, "rank 1, step 'race': takes longer than 5 s, at f.py:1 in f"),
        ({0: (4, True), 1: (4, True), 2: (3, True)}, "rank 2, step 'race': takes longer than 5 s"),
        ({0: (4, True), 2: (4, True)}, "rank 1, step 'race': takes longer than 5 s"),
        (
            {0: (4, False), 1: (3, True), 2: (4, False)},
            "rank 0, step 'race': takes longer than 5 s, at f.py:1 in f (so do",
        ),
        ({0: (4, True), 1: (4, True), 2: (4, True)}, "every rank waits for another in step 'race'"),
    ],
)
def test_a_hang_is_laid_at_who_does_not_wait_or_is_behind(said: dict[int, tuple[int, bool]], reason: str) -> None:
    spoken = {rank: Word(count, "f.py:1 in f", waits) for rank, (count, waits) in said.items()}
    end = blame.hanging(AT, spoken, 3)
    assert end.status == "timeout" and end.reason.startswith(reason), end.reason
    assert end.at is not None and end.at.contender == "a"


def test_a_rank_answers_where_it_stands_while_it_hangs(tmp_path: Path) -> None:
    script = f"""
import time
from pathlib import Path
from bancada.ranks.words import Speaker
def endless():
    time.sleep(60)
speaker = Speaker(Path({str(tmp_path)!r}), 0)
speaker.beat("race", 60.0)
endless()
"""
    process = subprocess.Popen([sys.executable, "-c", script])
    try:
        listener = Listener(tmp_path, 1)
        while listener.current(0) is None:
            assert process.poll() is None
        word = listener.ask(patience_s=30.0)[0]
        assert word.where.endswith("in endless") and not word.waits and word.collectives == 0
        assert listener.pids() == {0: process.pid}
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("error", "communication"),
    [
        (RuntimeError("[gloo/transport/tcp/pair.cc:553] Connection closed by peer"), True),
        (torch.distributed.DistBackendError("NCCL error"), True),
        (ValueError("gloo is no number"), False),
        (RuntimeError("the loss is not finite"), False),
    ],
)
def test_another_ranks_failure_is_told_from_an_own_one(error: Exception, communication: bool) -> None:
    assert words.is_communication(error) is communication
    wrapped = KeyError("while cleaning up")
    wrapped.__context__ = error
    assert words.is_communication(wrapped) is communication


def test_locks_of_the_dead_are_removed_and_those_of_the_living_are_not(tmp_path: Path) -> None:
    """DeepSpeed's build, killed half-way, leaves a `lock` that every later one waits for."""
    lock = tmp_path / "py311_cpu" / "op" / "lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    with (tmp_path / ".in-use").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_SH)
        with extensions.in_use(tmp_path):
            assert lock.exists()
    with extensions.in_use(tmp_path):
        assert not lock.exists()
        lock.touch()
        with extensions.in_use(tmp_path):
            assert lock.exists()


def test_outputs_are_judged_by_their_norm() -> None:
    right = torch.tensor([3.0, 4.0], dtype=torch.float64)
    facts, wrong = judge({"w": torch.tensor([3.0, 4.5])}, {"w": right}, 0.1)
    assert not wrong and facts == {"error_max": 0.5, "error_rel": 0.1, "error_limit_share": 1.0}
    assert judge({"w": right * 1.2}, {"w": right}, 0.1)[1] == "w is off by 0.2 of its norm, allowed is 0.1"
    assert judge({}, {"w": right}, 0.1)[1] == "gives no w"
    assert "shape [1, 2]" in judge({"w": right[None]}, {"w": right}, 0.1)[1]
    facts, wrong = judge({"w": right * float("nan")}, {"w": right}, 0.1)
    assert facts == {} and "off by inf" in wrong


def test_ranks_share_threads_and_say_so(tmp_path: Path) -> None:
    assert [threads_for(8, ranks) for ranks in (1, 2, 3, 16)] == [8, 4, 2, 1]
    assert environment(job(tmp_path, SOUND), 2)["OMP_NUM_THREADS"] == "1"
    assert "not scaling" in note(Device("cpu", "x", 1), 2)["note.ranks"] and not note(Device("cuda", "x", 1), 2)
    assert too_few_devices(Device("cpu", "x", 1), 64) is None
    if not torch.cuda.is_available():
        assert too_few_devices(Device("cuda", "x", 1), 2) == "needs 2 GPUs, there are 0"


def test_more_contenders_are_estimated_to_take_longer(tmp_path: Path) -> None:
    (one,) = planned(SOUND)
    made = job(tmp_path, SOUND)
    two = estimate_s(one, made.settings, 1e9, made.device)
    fewer = type(one)(one.suite, one.case, one.contenders[:1], one.budget_s)
    assert 5.0 < estimate_s(fewer, made.settings, 1e9, made.device) < two < 60.0


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({"RANK": "0", "WORLD_SIZE": "3"}, "world_size=2: the launcher started WORLD_SIZE=3 ranks"),
        ({"WORLD_SIZE": "2"}, "RANK=None: a launcher (torchrun) must set it to a whole number"),
    ],
)
def test_a_rank_script_started_wrongly_says_what_is_wrong(variables: dict[str, str], told: str, tmp_path: Path) -> None:
    made = job(tmp_path, SOUND)
    path = tmp_path / "job.json"
    type(made)(**{**vars(made), "cases": tuple(one.job() for one in planned(SOUND))}).write(path)
    plain = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    done = subprocess.run(
        [sys.executable, "-m", "bancada.ranks.worker", "--bancada-job", str(path)],
        env=plain | {"PYTHONPATH": str(Path(__file__).parent)} | variables,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1 and told in done.stderr
    assert not (tmp_path / "rows.jsonl").exists()
