"""One sweep at a time in a run folder, and the newest run is the one that was measured last."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bancada import lock, runs

HOLD = """
import sys
from pathlib import Path
from bancada import lock
with lock.held(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_sweep_is_refused_and_a_dead_one_holds_nothing(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        assert lock.busy(tmp_path)
        with pytest.raises(ValueError, match="another sweep is at work in it"), lock.held(tmp_path):
            pass
    finally:
        holder.kill()
        holder.communicate(timeout=30)
    assert not lock.busy(tmp_path)
    with lock.held(tmp_path):
        pass


def test_asking_whether_a_folder_is_busy_leaves_nothing_in_it(tmp_path: Path) -> None:
    assert not lock.busy(tmp_path) and not lock.busy(tmp_path / "nowhere") and not list(tmp_path.iterdir())


def test_where_no_file_can_be_locked_every_sweep_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "fcntl", None)
    with lock.held(tmp_path), lock.held(tmp_path):
        assert not lock.busy(tmp_path)


def test_the_newest_run_is_the_one_written_last(tmp_path: Path) -> None:
    for age, name in ((30, "trust-x"), (10, "20260105-100000-cpu"), (20, "zzz")):
        (tmp_path / name).mkdir()
        rows = tmp_path / name / "rows.jsonl"
        rows.write_text("")
        os.utime(rows, (1_000_000 - age, 1_000_000 - age))
    assert runs.newest(tmp_path) == tmp_path / "20260105-100000-cpu"
