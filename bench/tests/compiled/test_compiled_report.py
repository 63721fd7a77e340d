"""What a report makes of compiled rows: words that turn with them, a place for each, and never a time."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import _planted_compiled as planted
import pytest
from _compiled_rows import row, write

from bancada import rows
from bancada.report import build, data
from bancada.report.load import load
from bancada.runs import compare
from bancada.verdicts import Verdict, compiled, verdicts

SUITE = planted.suite(planted.SOUND)
SM_90 = {"target": "sm_90"}
FOUND = [
    row(SUITE, SM_90 | {"block": 64}),
    row(SUITE, SM_90 | {"block": 128}, stack_bytes=96, instructions=20.0),
    row(SUITE, SM_90 | {"block": 256}, "unsupported", "needs 400,000 bytes of shared memory"),
    row(SUITE, {"target": "sm_80", "block": 64}, resident_warps=8, occupancy=0.125),
]


def verdict_of(folder: Path, found: list[rows.Row]) -> Verdict:
    run = load(write(folder, SUITE, found))
    (said,) = verdicts(run.rows, run.plan, run.catalogue)
    return said


def test_the_verdict_counts_what_is_left_and_says_that_nothing_was_timed(tmp_path: Path) -> None:
    said = verdict_of(tmp_path / "x", FOUND)
    assert said.kind == "compiled" and not said.clear
    assert said.headline == "Configurations worth a run: sm_90, 1 of 3; sm_80, 1 of 1"
    assert said.clauses[0].startswith("Compiled, not measured")
    assert said.clauses[1] == (
        "sm_90: of 3 configurations 1 does not compile or fit, 1 is dominated, 1 is left to try. First in the "
        "order: 64, 4 warps (16 warps resident, 25% of the most, no stack, 64 KiB of shared memory a block)."
    )
    assert said.clauses[2] == (
        "sm_80: of 1 configuration 1 is left to try. First in the "
        "order: 64, 4 warps (8 warps resident, 12% of the most, no stack, 64 KiB of shared memory a block)."
    )
    assert said.evidence == tuple(FOUND[i]["row_id"] for i in (0, 1, 3)), "what compiled"


def test_the_words_turn_with_the_rows(tmp_path: Path) -> None:
    spilled = row(SUITE, SM_90 | {"block": 64}, stack_bytes=2048, loaded_bytes=9e9)
    said = verdict_of(tmp_path / "x", [spilled, FOUND[1], *FOUND[2:]])
    assert said.headline == "Configurations worth a run: sm_90, 2 of 3; sm_80, 1 of 1"
    assert "1 does not compile or fit, 2 are left to try" in said.clauses[1]
    assert "First in the order: 128, 4 warps (16 warps resident, 25% of the most, a stack of 96 B" in said.clauses[1]
    nothing = verdict_of(tmp_path / "y", [FOUND[2]])
    assert nothing.kind == "no data" and "400,000 bytes" in nothing.sentence


def test_each_place_is_named_by_what_differs_and_only_a_few_are_shown(tmp_path: Path) -> None:
    """Contender, length: whatever sets two groups of configurations apart; the fifth stands on the page."""
    suite = planted.suite(planted.SOUND, dataclasses.replace(planted.SOUND, id="second", label="the second"))
    found = [
        row(suite, SM_90 | {"block": block, "length": length}, contender=contender, stack_bytes=stack)
        for contender in (0, 1)
        for length in (64, 128, 256)
        for block, stack in ((16 + contender, 8), (32, 8), (64, 0))
    ]
    lost = [row(suite, SM_90 | {"block": block, "length": 64}, "timeout", "too long") for block in (128, 256)]
    lost.append(row(suite, SM_90 | {"length": 32}, "timeout", "a length at which nothing compiled has no clause"))
    run = load(write(tmp_path / "x", suite, found + lost))
    (said,) = verdicts(run.rows, run.plan, run.catalogue)
    assert said.headline == "Configurations worth a run: sm_90, 6 of 21"
    assert [clause.split(".")[0] for clause in said.clauses[1:]] == [
        "sm_90, sound, length 64: of 5 configurations 2 do not compile or fit, 2 are dominated, 1 is left to try",
        "sm_90, the second, length 64: of 3 configurations 2 are dominated, 1 is left to try",
        "sm_90, sound, length 128: of 3 configurations 2 are dominated, 1 is left to try",
        "sm_90, the second, length 128: of 3 configurations 2 are dominated, 1 is left to try",
        "2 more are in the section below",
    ]
    assert "First in the order: 64, 4 warps (" in said.clauses[1], "the best, not the first compiled"


def test_an_axis_is_said_as_a_person_would() -> None:
    given = (("causal", True), ("causal", False), ("kernel", "forward"), ("width", 64))
    assert [compiled._axis(*one) for one in given] == ["causal", "not causal", "forward", "width 64"]


def test_a_compiled_cell_is_none_of_those_measured(tmp_path: Path) -> None:
    run = load(write(tmp_path / "x", SUITE, FOUND))
    cells = {cell["case"]: cell for cell in data.run_cells(run)}
    assert [cell["status"] for cell in cells.values()] == ["compiled", "compiled", "unsupported", "compiled"]
    best, worse = (cells[one["case"]] for one in FOUND[:2])
    assert (best["rank"], best["dominated_by"]) == (1, "")
    assert (worse["rank"], worse["dominated_by"]) == (2, "64, 4 warps")
    figures = data.figures([run], verdicts(run.rows, run.plan, run.catalogue))
    assert (figures.measured, figures.planned, figures.suites) == (0, 4, 0)
    assert dict(figures.statuses) == {"compiled": 3, "unsupported": 1}


def payload(page: str) -> Any:
    found = re.search(r'<script type="application/json" id="bancada-data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found.group(1))


def test_the_page_holds_the_section_and_the_rule(tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    page = build([write(tmp_path / "runs" / "x", SUITE, FOUND)]).read_text(encoding="utf-8")
    assert "function compiledSection(" in page and "compiled, not measured" in page
    (suite,) = payload(page)["catalogue"]["suites"]
    assert suite["kind"] == "compile" and suite["configuration"] == ["block", "num_warps"]
    assert [metric["name"] for metric in suite["metrics"]][:2] == ["stack_bytes", "matrix_missing"]


def test_a_cell_that_was_neither_timed_nor_compiled_is_refused(tmp_path: Path) -> None:
    rows.validate(FOUND[0])
    neither = {name: value for name, value in FOUND[0].items() if name != "measure.compile_s"}
    with pytest.raises(rows.RowError, match="needs time_s"):
        rows.validate(neither)


def test_two_compile_runs_share_cells_and_no_times(tmp_path: Path) -> None:
    side = compare.side(write(tmp_path / "x", SUITE, FOUND) / "rows.jsonl")
    found = compare.compare(side, side)
    assert len(side.cells) == len(FOUND) and not found.changes and not found.lost
