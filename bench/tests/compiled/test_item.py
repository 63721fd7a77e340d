"""Kernels compiled for GPUs that are not there: what a row holds, and that every failure has its type."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import _planted_compiled as planted
import pytest
from _compiled_rows import CPU, STAMP

from bancada import rows
from bancada.bench import PARTS, Worker
from bancada.compiled.compiler import Compiled, backend_of, compile_launch
from bancada.compiled.item import CompileItem, facts
from bancada.compiled.occupancy import occupancy
from bancada.compiled.targets import find
from bancada.heartbeat import Heartbeat
from bancada.settings import Job, JobCase, Settings

triton = pytest.importorskip("triton")
CASES = {"target": ["sm_80", "sm_90", "gfx942"]}


def compiled(folder: Path, suite: planted.CompileSuite, **axes: object) -> dict[str, rows.Row]:
    """The rows of one case by contender, compiled in this process."""
    names = tuple(contender.id for contender in suite.contenders)
    case = JobCase(suite.id, dict(suite.case(**axes).axes), names, 1.0)
    worker = Worker(Job(folder, (case,), CPU, Settings(), STAMP))
    try:
        CompileItem(worker, suite, case).run(None)
    finally:
        worker.heart.close()
    found = rows.read(folder / "rows.jsonl")
    assert not found.problems
    return {row["contender"]: row for row in found.rows}


@pytest.mark.parametrize("target", CASES["target"])
def test_a_kernel_is_compiled_and_read_for_each_target(target: str, tmp_path: Path) -> None:
    row = compiled(tmp_path, planted.suite(planted.SOUND), target=target)["sound"]
    assert row["status"] == "ok", row["reason"]
    assert "time_s" not in row and "samples" not in row, "nothing was timed"
    expected = {"sm_80": "mma.sync", "sm_90": "wgmma", "gfx942": "v_mfma"}[target]
    assert row["note.matrix"] == expected and row["measure.matrix_missing"] == 0
    assert 16 <= row["measure.registers"] <= 255 and row["measure.stack_bytes"] == 0
    assert 0 < row["measure.shared_bytes"] <= 65_536
    assert row["measure.resident_warps"] == 4 * row["measure.resident_blocks"] > 0
    assert row["measure.all_instructions"] > row["measure.loop_instructions"] > 0
    assert row["measure.matrix_instructions"] > 0 and row["measure.instructions"] > 0
    assert row["measure.bound_s"] > 0 and row["measure.stages"] == 2
    assert row["note.configuration"] == "64, 4 warps"
    assert ("measure.spilled_registers" in row) == (target == "gfx942")


def test_every_failure_has_its_type_and_its_reason(tmp_path: Path) -> None:
    """harness case 12, tritonbench 873: what needs more than there is ends its own cell, and no other."""
    found = compiled(tmp_path, planted.suite())
    told = {name: (row["status"], row["reason"]) for name, row in found.items()}
    assert told["sound"] == ("ok", "")
    assert told["broken"][0] == "crashed" and "nowhere" in told["broken"][1]
    assert told["out-of-memory"] == ("out_of_memory", "MemoryError: planted")
    assert told["leaves"] == ("crashed", "tried to end the process: SystemExit(3)")
    assert told["library"] == ("unsupported", "no-such-distribution is not installed")
    assert told["elsewhere"] == ("unsupported", "only on Sundays")
    status, reason = told["greedy"]
    needed = found["greedy"]["measure.shared_bytes"]
    assert status == "unsupported" and needed > 166_912 and found["greedy"]["measure.resident_blocks"] == 0
    assert found["greedy"]["measure.stages"] == 24
    assert reason == f"needs {needed:,} bytes of shared memory a block; sm_80 has 166,912 for one"


def test_only_what_has_no_row_yet_is_compiled(tmp_path: Path) -> None:
    """Each within the limit of a compilation, and told as a part of the sweep's time."""
    compiled(tmp_path, planted.suite(planted.SOUND))
    second = dataclasses.replace(planted.SOUND, id="second")
    with mock.patch.object(Heartbeat, "beat", autospec=True) as beat:
        assert set(compiled(tmp_path, planted.suite(planted.SOUND, second))) == {"sound", "second"}
    told = [call.args[1:] for call in beat.call_args_list if call.args[1] == "compile"]
    case = planted.suite().case().id
    assert told == [("compile", Settings().compile_limit_s, "planted.compile", case, "second")]
    assert len(rows.read(tmp_path / "rows.jsonl").rows) == 2
    parts = [json.loads(line) for line in (tmp_path / PARTS).read_text().splitlines()]
    assert [set(part) for part in parts] == [{"compile"}, {"compile"}]


def test_what_is_compiled_is_told_from_what_was_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another folder, source, option, target or Triton: compiled anew. Nothing stays of who listened."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    before = triton.knobs.compilation.listener
    small = planted.suite(planted.SOUND).case(block=16, num_warps=1)
    launch = planted.SOUND.build(small)

    def cached(target: str = "sm_80", **changed: Any) -> bool:
        return compile_launch(dataclasses.replace(launch, **changed), target).cached

    changes: list[dict[str, Any]] = [
        {}, {"target": "sm_90"}, {"num_warps": 2}, {"num_stages": 1}, {"aligned": ()},
        {"constants": {"BLOCK": 16, "DEPTH": 16}},
    ]  # fmt: skip
    assert [cached(**change) for change in changes] == [False] * len(changes)
    assert all(cached(**change) for change in changes) and list(tmp_path.rglob("*.cubin"))
    monkeypatch.setattr("triton.runtime.cache.triton_key", lambda: "another version")
    assert not cached()
    with pytest.raises(triton.CompilationError):
        compile_launch(dataclasses.replace(launch, constants={}), "sm_80")
    assert triton.knobs.compilation.listener is before


def test_target_and_warps_reach_the_compiler() -> None:
    for target, told in (
        ("sm_80", r"\.target sm_80\n(?s:.*)\.reqntid 128\n"),
        ("sm_90", r"\.target sm_90a\n(?s:.*)\.reqntid 128\n"),
        ("gfx942", r"\.max_flat_workgroup_size: 256\n(?s:.*)\.wavefront_size: +64\n"),
    ):
        made = compile_launch(planted.SOUND.build(planted.suite().case(target=target)), target)
        assert re.search(told, made.assembly) and "tt.func" in made.ttir


def test_the_interpreter_compiles_nothing() -> None:
    launch = dataclasses.replace(planted.SOUND.build(planted.suite().case()), function=len)
    with pytest.raises(RuntimeError, match="TRITON_INTERPRET=1"):
        compile_launch(launch, "sm_80")


def test_the_second_time_comes_from_the_cache(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
        row = compiled(folder, planted.suite(planted.SOUND))["sound"]
    assert row["note.compile"] == "from the cache" and row["measure.compile_s"] > 0
    third = tmp_path / "third"
    third.mkdir()
    changed = compiled(third, planted.suite(planted.SOUND), num_warps=2)["sound"]
    assert changed["measure.registers"] != row["measure.registers"]
    for one, warps in ((row, 4), (changed, 2)):
        held = occupancy(find("sm_80"), one["measure.registers"], one["measure.shared_bytes"], warps)
        assert (one["measure.resident_blocks"], one["note.limit"]) == (held.blocks, held.limit)


def test_spilled_registers_are_stored_and_loaded_again() -> None:
    """PTX does not show it, machine code (AMD's) does."""
    suite = planted.suite(planted.SOUND)
    for target, more in (("sm_80", 2 * 16 * 4 * 32 / 64**2), ("gfx942", 0.0)):
        held = occupancy(find(target), 128, 0, 4)
        made = Compiled(128, 0, None, 0, "\tv_add_u32 v0, v1\n\tadd.s32 %r1, %r2, %r3;\n", "", 1.0, False)
        counted = [
            facts(suite, suite.case(target=target), one, held, 4)["measure.instructions"]
            for one in (made, dataclasses.replace(made, stack_bytes=64))
        ]
        assert counted[0] > 0 and counted[1] - counted[0] == pytest.approx(more)


def test_what_is_no_target_is_refused() -> None:
    assert [backend_of(name) for name in ("sm_80", "sm_120", "gfx942", "gfx90a")] == ["cuda", "cuda", "hip", "hip"]
    with pytest.raises(ValueError, match="target='cpu': allowed are sm_NUMBER and gfxNUMBER"):
        backend_of("cpu")
    with pytest.raises(ValueError, match="target='sm_90a'"):
        backend_of("sm_90a")


SWEEP = """
[settings]
compile_limit_s = 12.0
[[suite]]
id = "planted.compile"
axes = { block = [16] }
"""


@pytest.mark.slow
def test_a_compiler_that_hangs_or_dies_costs_its_own_row(tmp_path: Path) -> None:
    (tmp_path / "planted.toml").write_text(SWEEP)
    command = [sys.executable, "-m", "bancada", "sweep", str(tmp_path / "planted.toml"), "--device", "cpu"]
    options = ["--suites-from", "_planted_compiled:faulty", "--threads", "1", "--out", str(tmp_path / "runs")]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run([*command, *options], env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    (run,) = (tmp_path / "runs").iterdir()
    found = rows.read(run / "rows.jsonl").rows
    told = {row["contender"]: row["status"] for row in found if row["kind"] == "cell"}
    assert told == {"sound": "ok", "sound-too": "ok", "aborts": "crashed", "hangs": "timeout"}
    assert not [row for row in found if row["kind"] in ("ceiling", "aa")], "nothing was timed"
    assert "Compiled, not measured" in done.stdout and (run / "report.html").is_file()
