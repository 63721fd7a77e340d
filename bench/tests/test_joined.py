"""Several runs on one page: those of one machine are joined by the newest, machines stand side by side."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from _synthetic import CONTENDERS, Recipe, write
from test_report import cells_of, payload_of

from bancada import rows
from bancada.report import build, joined
from bancada.report.data import cautions, unmeasured
from bancada.report.joined import by_machine
from bancada.report.load import Loaded, load
from bancada.verdicts import verdicts

GRID = Recipe().grid | {"dtype": ["fp32"], "causal": [True], "seq_len": [256, 512]}
ONE = Recipe(grid=GRID, suites=("attention.forward",), failures=False)
SOME = tuple(made for made in CONTENDERS if made.id in ("eager", "flash-tiled", "flash-triton"))


def run(folder: Path, name: str, day: int, recipe: Recipe = ONE, **head: Any) -> Loaded:
    """A run of a day in January 2026, with whatever else its head is to say."""
    path = write(folder / name, replace(recipe, run=name)) / "rows.jsonl"
    time = {"time": f"2026-01-{day:02}T10:00:00+00:00"}
    found = [row | time | (head if row["kind"] == "run" else {}) for row in rows.read(path).rows]
    path.unlink()
    rows.append(path, found)
    return load(path.parent)


def kinds(found: Loaded, kind: str) -> list[rows.Row]:
    return [row for row in found.rows if row["kind"] == kind]


def test_a_single_run_and_runs_of_different_machines_stay_as_they_are(tmp_path: Path) -> None:
    """Liger-Kernel 715: several GPUs drawn as one line (case 18)."""
    here, gpu = run(tmp_path, "here", 1), run(tmp_path, "gpu", 2, replace(ONE, device_name="NVIDIA H200"))
    threads = run(tmp_path, "threads", 3, **{"env.threads": 1})
    found = by_machine([here, gpu, threads])
    assert [one is other for one, other in zip(found, [here, gpu, threads], strict=True)] == [True] * 3


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_runs_of_one_machine_are_joined_cell_by_cell_by_the_newest(tmp_path: Path, order: tuple[int, int]) -> None:
    old = run(tmp_path, "old", 1, replace(ONE, grid=GRID | {"seq_len": [128, 256]}))
    new = run(tmp_path, "new", 2, replace(ONE, contenders=SOME, speed={"flash-tiled": 2.0}))
    (one,) = by_machine([(old, new)[place] for place in order])
    assert one.name == "new" and {row["run"] for row in one.rows} == {"new"}
    cells = {(row["case"], row["contender"]): row for row in kinds(one, "cell")}
    assert len(cells) == 6 + 6 + 3  # 128 is the old run's, 256 both have, 512 is the new run's with three contenders
    source = {key: row.get(joined.OF_RUN, "new") for key, row in cells.items()}
    middle = "b1-h8-s256-d64-causal-fp32"
    assert source[middle, "flash-tiled"] == "new" and source[middle, "flex"] == "old"
    newest = {(row["case"], row["contender"]): row for row in kinds(new, "cell")}
    assert cells[middle, "flash-tiled"]["time_s"] == newest[middle, "flash-tiled"]["time_s"]
    assert one.head["time"].startswith("2026-01-02") and len(kinds(one, "end")) == 1 and len(kinds(one, "aa")) == 2


def test_only_comparisons_that_were_raced_in_one_run_are_kept(tmp_path: Path) -> None:
    """php-judy 87: arms that were measured apart are no paired rounds (case 9)."""
    (one,) = by_machine([run(tmp_path, "old", 1), run(tmp_path, "new", 2, replace(ONE, contenders=SOME))])
    source = {(row["case"], row["contender"]): row.get(joined.OF_RUN, "new") for row in kinds(one, "cell")}
    pairs = kinds(one, "pair")
    assert {frozenset((pair["a"], pair["b"])) for pair in pairs} == {
        frozenset(pair)
        for pair in (
            ("eager", "flash-tiled"),
            ("torch-sdpa", "flex"),
            ("torch-sdpa", "eager-compiled"),
            ("flex", "eager-compiled"),
        )
    }
    assert all(source[pair["case"], pair["a"]] == source[pair["case"], pair["b"]] for pair in pairs)


def test_the_joined_plan_and_catalogue_hold_everybody(tmp_path: Path) -> None:
    old = run(tmp_path, "old", 1, replace(ONE, grid=GRID | {"seq_len": [128, 256]}))
    (one,) = by_machine([old, run(tmp_path, "new", 2, replace(ONE, contenders=SOME))])
    planned = {cell["case"]: cell["contenders"] for cell in one.plan["cells"]}
    assert {case: len(who) for case, who in planned.items()} == {
        "b1-h8-s128-d64-causal-fp32": 6,
        "b1-h8-s256-d64-causal-fp32": 6,
        "b1-h8-s512-d64-causal-fp32": 3,
    }
    assert len(one.catalogue["suites"][0]["contenders"]) == 6
    (said,) = verdicts(one.rows, one.plan, one.catalogue)
    assert said.run == "new" and len(said.evidence) > 0


def test_what_another_run_of_the_machine_has_measured_is_not_missing(tmp_path: Path) -> None:
    stopped = run(tmp_path, "old", 1, replace(ONE, drop=1, end=False))
    assert any("no row" in said for said in cautions(stopped, unmeasured(by_machine([stopped]))))
    whole, elsewhere = run(tmp_path, "new", 2), run(tmp_path, "gpu", 3, replace(ONE, device_name="NVIDIA H200"))
    assert not any("no row" in said for said in cautions(stopped, unmeasured(by_machine([stopped, whole]))))
    assert any("no row" in said for said in cautions(stopped, unmeasured(by_machine([stopped, elsewhere]))))


def test_two_machines_whose_runs_share_a_name_stay_apart(tmp_path: Path) -> None:
    first = run(tmp_path / "a", "same", 1)
    second = run(tmp_path / "b", "same", 2, replace(ONE, device_name="Another CPU"))
    found = by_machine([first, second])
    assert [one.name for one in found] == ["same", "same (2)"]
    assert kinds(found[1], "cell")[0][joined.OF_RUN] == "same"


def test_the_page_of_several_runs_stands_beside_the_last_one_s_own(tmp_path: Path) -> None:
    run(tmp_path, "old", 1)
    run(tmp_path, "new", 2, replace(ONE, contenders=SOME))
    run(tmp_path, "gpu", 3, replace(ONE, device_name="NVIDIA H200"))
    alone = build([tmp_path / "gpu"]).read_bytes()
    page = build([tmp_path / name for name in ("old", "new", "gpu")])
    assert page == tmp_path / "gpu" / "joined.html" and (tmp_path / "gpu" / "report.html").read_bytes() == alone
    payload = payload_of(page.read_text(encoding="utf-8"))
    assert [one["name"] for one in payload["runs"]] == ["old", "new", "gpu"]  # each is told in the section on trust
    cells = cells_of(payload)
    assert len(cells) == 24 and {(cell["run"], cell["device_name"]) for cell in cells} == {
        ("new", "Intel(R) Xeon(R) 6975P-C"),
        ("gpu", "NVIDIA H200"),
    }
    assert sum(cell.get("of_run") == "old" for cell in cells) == 6
    assert [(one["run"], one["device"]) for one in payload["verdicts"]] == [
        ("new", "Intel(R) Xeon(R) 6975P-C"),
        ("gpu", "NVIDIA H200"),
    ]
