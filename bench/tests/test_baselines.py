"""Baselines: what is kept of a run, what is refused, and how a recorded run stands beside a new one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from _synthetic import Recipe, write
from _synthetic_kinds import write as write_kinds

from bancada import rows
from bancada.report import build
from bancada.report.load import load
from bancada.report.recorded import recorded_cells
from bancada.runs import baselines

ONE = {
    "batch": [1],
    "heads": [8],
    "kv_heads": [8],
    "seq_len": [512],
    "head_dim": [64],
    "dtype": ["fp32"],
    "causal": [True],
}


def recipe(**changes: Any) -> Recipe:
    return Recipe(grid=ONE, suites=("attention.forward",), **changes)


def test_a_baseline_keeps_what_was_measured_and_drops_raw_samples(tmp_path: Path) -> None:
    run = write(tmp_path / "runs" / "a", recipe())
    found = rows.read(run / "rows.jsonl").rows
    (run / "rows.jsonl").unlink()
    rows.append(run / "rows.jsonl", [row | ({"clocks_mhz": [1]} if row["kind"] == "cell" else {}) for row in found])
    path = baselines.save(run, "cpu", tmp_path / "baselines")
    raw = {"samples": 0, "clocks_mhz": 0}
    kept, whole = rows.read(path), rows.read(run / "rows.jsonl")
    assert not kept.problems and path.name == "cpu.jsonl" and not list(path.parent.glob(".*"))
    assert [row | raw for row in kept.rows] == [row | raw for row in whole.rows]
    assert not any("samples" in row or "clocks_mhz" in row for row in kept.rows)


def test_speed_is_against_the_recorded_reference_in_its_own_rounds(tmp_path: Path) -> None:
    run = write(tmp_path / "runs" / "a", recipe(speed={"flash-tiled": 0.5}))
    found = baselines.load(baselines.save(run, "cpu", tmp_path / "baselines").parent)[0]
    cells = {row["contender"]: row for row in found.cells}
    ratio = cells["eager"]["time_s"] / cells["flash-tiled"]["time_s"]
    assert cells["flash-tiled"]["speed"] == pytest.approx(ratio, rel=0.02)
    assert cells["flash-tiled"]["speed_low"] < cells["flash-tiled"]["speed"] < cells["flash-tiled"]["speed_high"]
    assert "speed" not in cells["eager"] and "flash-triton" not in cells


@pytest.mark.parametrize("name", ["", "../up", ".hidden", "a/b", "a b", "a\n", "x" * 101, "published", "rows"])
def test_a_name_that_is_no_file_name_is_refused(tmp_path: Path, name: str) -> None:
    run = write(tmp_path / "runs" / "a", recipe())
    with pytest.raises(ValueError, match="name="):
        baselines.save(run, name, tmp_path / "baselines")
    assert not (tmp_path / "baselines").exists()


def test_an_unfinished_run_and_a_taken_name_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "baselines"
    with pytest.raises(ValueError, match="did not come to its end"):
        baselines.save(write(tmp_path / "runs" / "a", recipe(end=False)), "cpu", folder)
    run = write(tmp_path / "runs" / "b", recipe())
    before = baselines.save(run, "cpu", folder).read_bytes()
    with pytest.raises(ValueError, match="of that name already"):
        baselines.save(run, "cpu", folder)
    assert (folder / "cpu.jsonl").read_bytes() == before


def test_the_report_finds_the_baselines_of_its_checkout_and_takes_only_its_suites(tmp_path: Path) -> None:
    folder = tmp_path / "baselines"
    baselines.save(write(tmp_path / "runs" / "old", recipe(run="old")), "attention", folder)
    baselines.save(write_kinds(tmp_path / "runs" / "kinds"), "kinds", folder)
    run = write(tmp_path / "runs" / "new", recipe(run="new"))
    page = build([run]).read_text(encoding="utf-8")
    start = page.index('<script type="application/json" id="bancada-data">')
    data = json.loads(page[page.index(">", start) + 1 : page.index("</script>", start)])
    assert [one["name"] for one in data["baselines"]] == ["attention"]
    assert data["baselines"][0]["cells"]["n"] == 5


def test_outcomes_of_training_are_recorded_too(tmp_path: Path) -> None:
    found = baselines.load(baselines.save(write_kinds(tmp_path / "run"), "kinds", tmp_path / "baselines").parent)
    payload = recorded_cells(found, {"optimizers.convergence"})
    assert "measure.final.loss" in payload[0]["cells"]["c"] and "measure.tuning_s" not in payload[0]["cells"]["c"]


def test_times_are_compared_with_a_recorded_run_of_the_same_machine_alone(tmp_path: Path) -> None:
    wide = replace(Recipe(), noise=0.01)
    folder = tmp_path / "baselines"
    baselines.save(write(tmp_path / "runs" / "old", replace(wide, run="old")), "here", folder)
    baselines.save(write(tmp_path / "runs" / "gpu", replace(wide, device_name="NVIDIA H200")), "elsewhere", folder)
    new = load(write(tmp_path / "runs" / "new", replace(wide, run="new", seed=1, speed={"flash-tiled": 1.1})))
    there, here = recorded_cells(baselines.load(folder), {"attention.forward", "attention.training"}, [new])
    assert "compared" not in there and "ratio" not in there["cells"]["c"]
    counted = here["compared"]
    assert counted["run"] == "new" and counted["slower"] == 56  # every cell of the slowed contender, and no other
    assert (
        counted["faster"] == 0 and counted["controls"] == 186 and here["cells"]["c"]["says"]["d"].count("slower") == 1
    )
