"""The main job at its smallest size: a sweep over real suites, from the command line to the report."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bancada import rows

pytestmark = pytest.mark.timeout(280)


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The smoke sweep at 64 tokens; its run folder and what it printed."""
    out = tmp_path_factory.mktemp("smoke")
    command = [
        sys.executable,
        "-m",
        "bancada",
        "sweep",
        "smoke",
        "--set",
        "seq_len=64",
        "--rounds",
        "5",
        "--out",
        str(out),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=270, check=False)
    assert done.returncode == 0, done.stderr
    (run,) = (path for path in out.iterdir() if path.is_dir())
    assert (out / "index.html").is_file()
    return run, done.stdout


def test_every_planned_cell_has_a_status_and_ours_and_the_peers_ran(smoke: tuple[Path, str]) -> None:
    run = smoke[0]
    plan = json.loads((run / "plan.json").read_text())
    planned = {(cell["suite"], cell["case"], name) for cell in plan["cells"] for name in cell["contenders"]}
    found = rows.read(run / "rows.jsonl")
    cells = {(row["suite"], row["case"], row["contender"]): row for row in found.rows if row["kind"] == "cell"}
    assert not found.problems and set(cells) == planned
    for suite in ("attention.forward", "attention.training"):
        by_name = {name: row for (of, _, name), row in cells.items() if of == suite}
        for name in ("torch-eager", "torch-sdpa", "flash-tiled"):
            assert by_name[name]["status"] == "ok", by_name[name]["reason"]
            assert 0 < by_name[name]["time_s"] < 10 and by_name[name]["peak_bytes"] > 0
            assert 0 < by_name[name]["error_max"] < 1e-3
        assert "grad_error_max" in by_name["flash-tiled"] or suite == "attention.forward"
        assert by_name["flash-triton"]["status"] in ("ok", "unsupported")


def test_ceilings_identical_contenders_head_and_foot_are_there(smoke: tuple[Path, str]) -> None:
    kinds = [row for row in rows.read(smoke[0] / "rows.jsonl").rows if row["kind"] != "cell"]
    assert {(row["name"], row["when"]) for row in kinds if row["kind"] == "ceiling"} >= {
        (name, when) for name in ("matmul", "copy") for when in ("before", "after")
    }
    assert sum(row["comparisons"] for row in kinds if row["kind"] == "aa") == 84
    (head,) = [row for row in kinds if row["kind"] == "run"]
    assert head["version.torch"] and head["env.cpu_model"] and head["env.memory_bytes"] > 0
    (foot,) = [row for row in kinds if row["kind"] == "end"]
    counted = sum(foot[f"part.{name}_s"] for name in ("start", "oracle", "screen", "race"))
    assert 0 < counted <= foot["wall_s"]


def test_the_report_is_written_and_its_path_and_the_verdicts_are_printed(smoke: tuple[Path, str]) -> None:
    run, printed = smoke
    assert (run / "report.html").stat().st_size > 100_000
    assert str(run / "report.html") in printed and "A/A: " in printed and "Attention, forward" in printed


def test_the_command_in_a_row_measures_that_row_again(smoke: tuple[Path, str]) -> None:
    row = next(row for row in rows.read(smoke[0] / "rows.jsonl").rows if row["kind"] == "cell")
    command = row["command"].split()
    assert command[:3] == ["python", "-m", "bancada"]
    done = subprocess.run(
        [sys.executable, *command[1:], "--dry-run"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert row["case"] in done.stdout and "1 cases" in done.stdout
