"""Two runs side by side: equal ones stay equal, planted changes are found, and what must not be compared is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from _synthetic import CONTENDERS, Recipe, write
from typer.testing import CliRunner

from bancada import rows
from bancada.cli import app
from bancada.runs import baselines
from bancada.runs.compare import Compared, Side, compare, limit_of, side, widening
from bancada.runs.text import summary
from bancada.verdicts.comparisons import Comparison

GRID = Recipe().grid | {"dtype": ["fp32"], "causal": [True]}
USUAL = Recipe(grid=GRID, noise=0.01)
Edit = Callable[[rows.Row], rows.Row | None]


def sides(folder: Path, after: Recipe, before: Recipe = USUAL) -> tuple[Side, Side]:
    made = [write(folder / name, replace(recipe, run=name)) for name, recipe in (("a", before), ("b", after))]
    return side(made[0] / "rows.jsonl"), side(made[1] / "rows.jsonl")


def edited(folder: Path, edit: Edit) -> Path:
    """The run in `folder` with every row through `edit`; None drops it."""
    path = folder / "rows.jsonl"
    kept = [new for row in rows.read(path).rows if (new := edit(row)) is not None]
    path.unlink()
    rows.append(path, kept)
    return folder


def said(found: Compared) -> dict[str, set[str]]:
    """By contender, what is said of it over its cells."""
    out: dict[str, set[str]] = {}
    for change in found.changes:
        out.setdefault(change.after["contender"], set()).add(change.times.outcome)
    return out


@pytest.mark.parametrize("seed", range(1, 6))
def test_equal_runs_differ_nowhere(tmp_path: Path, seed: int) -> None:
    """php-judy 87: arms minutes apart gave 21 false regressions (case 9)."""
    found = compare(*sides(tmp_path, replace(USUAL, seed=seed)))
    assert len(found.changes) == 62 and found.controls == 48
    assert {outcome for outcomes in said(found).values() for outcome in outcomes} <= {"tie", "open"}
    assert found.shift == pytest.approx(1.0, abs=0.005) and 1.0 <= found.widening < 1.5


@pytest.mark.parametrize(("factor", "word"), [(1.1, "slower"), (1 / 1.1, "faster")])
def test_a_planted_tenth_is_found_in_its_cells_alone_and_comes_first(tmp_path: Path, factor: float, word: str) -> None:
    found = compare(*sides(tmp_path, replace(USUAL, seed=1, speed={"flash-tiled": factor})))
    assert said(found)["flash-tiled"] == {word}
    assert {outcome for who, outcomes in said(found).items() if who != "flash-tiled" for outcome in outcomes} <= {
        "tie",
        "open",
    }
    for change in found.changes:
        if change.after["contender"] == "flash-tiled":
            assert change.times.low < factor < change.times.high
    places = [place for place, one in enumerate(found.changes) if one.after["contender"] == "flash-tiled"]
    assert places == list(range(14)) if word == "slower" else places == list(range(48, 62))
    assert len(found.slower_than(0.05)) == (14 if word == "slower" else 0) and not found.slower_than(0.2)


def test_a_machine_that_was_slower_as_a_whole_accuses_nobody(tmp_path: Path) -> None:
    """The peers' code is the same: what they lost, the others may have lost with them."""
    everyone = {made.id: 1.08 for made in CONTENDERS}
    found = compare(*sides(tmp_path, replace(USUAL, seed=1, speed=everyone)))
    assert found.shift == pytest.approx(1.08, rel=0.01) and found.widening > 4
    assert not found.slower_than(0.0) and "slower" not in said(found)["flash-tiled"]


def test_peers_of_other_versions_are_no_yardstick(tmp_path: Path) -> None:
    a, _ = sides(tmp_path, replace(USUAL, seed=1))
    edited(tmp_path / "b", lambda row: row | {"versions": "torch 2.14.0"} if row["kind"] == "cell" else row)
    assert compare(a, side(tmp_path / "b" / "rows.jsonl")).controls == 0
    own = {"versions": "torch 2.13.0, triton 3.7.1 bancada=9.9"}
    edited(tmp_path / "a", lambda row: row | own if row["kind"] == "cell" else row)
    edited(tmp_path / "b", lambda row: row | own | {"versions": own["versions"][:-1]} if row["kind"] == "cell" else row)
    read = [side(tmp_path / name / "rows.jsonl") for name in ("a", "b")]
    assert compare(*read).controls == 48


def test_noise_decides_nothing_and_says_so(tmp_path: Path) -> None:
    loud = replace(USUAL, noise=0.3)
    found = compare(*sides(tmp_path, replace(loud, seed=1), loud))
    assert {outcome for outcomes in said(found).values() for outcome in outcomes} == {"open"}
    assert found.widening > 1.2  # the made-up intervals are too narrow for so much noise, and the peers tell


def test_with_few_cells_of_unchanged_code_the_intervals_are_wide() -> None:
    row: rows.Row = {"time_s": 1.0, "time_low_s": 0.99, "time_high_s": 1.01}
    alike, apart = (row, row), (row, {"time_s": 1.5, "time_low_s": 1.49, "time_high_s": 1.51})
    assert widening([]) == widening([alike] * 5) == 2.5
    slightly = (row, {"time_s": 1.05, "time_low_s": 1.04, "time_high_s": 1.06})
    assert widening([alike] * 5 + [slightly]) == pytest.approx(2 * widening([alike] * 30 + [slightly]))
    assert widening([alike] * 30) == 1.0
    assert widening([alike] * 29 + [apart]) > 20  # with fewer than a hundred, 98% of the next one means all of them
    assert widening([alike] * 120 + [apart]) == 1.0


def test_other_machines_are_refused_by_device_and_not_by_clock(tmp_path: Path) -> None:
    """pytest-benchmark 255: clock jitter meant 'another machine' (case 17)."""
    a, b = sides(tmp_path, replace(USUAL, seed=1, device_name="NVIDIA H200"))
    with pytest.raises(ValueError, match=r"a is of Intel.*2 cores, 2 threads.*b of NVIDIA H200.*across-machines"):
        compare(a, b)
    found = compare(a, b, across_machines=True)
    assert found.across and found.controls == 0 and len(found.changes) == 62
    other = {"env.mhz": 1200, "time": "2027-01-01T00:00:00+00:00", "env.memory_bytes": 1, "version.torch": "2.99"}
    same = replace(b, head=a.head | other)
    assert not compare(a, same).across
    with pytest.raises(ValueError, match="1 threads"):
        compare(a, replace(b, head=a.head | {"env.threads": 1}))


def test_missing_and_failed_cells_are_told_and_never_compared(tmp_path: Path) -> None:
    """tritonbench 1224: only what both hold is compared (case 10); cccl 507: a status, never NaN (case 13)."""
    sides(tmp_path, replace(USUAL, seed=1))

    def edit(row: rows.Row) -> rows.Row | None:
        if row["kind"] != "cell":
            return row
        if row["contender"] == "torch-sdpa" and row["case"].startswith("b1-h8-s128"):
            return None
        if row["contender"] == "flash-tiled" and row["axis.seq_len"] == 256:
            bare = {name: value for name, value in row.items() if name not in ("time_s", "time_low_s", "time_high_s")}
            return bare | {"status": "crashed", "reason": "died of SIGSEGV"}
        if row["contender"] == "flex" and row["axis.seq_len"] == 256:
            return row | {"status": "unsupported", "reason": "not installed"}
        return row

    edited(tmp_path / "b", edit)
    found = compare(*(side(tmp_path / name / "rows.jsonl") for name in ("a", "b")))
    assert len(found.only_a) == 2 and not found.only_b
    assert [(after["contender"], after["status"]) for _, after in found.lost] == [
        ("flash-tiled", "crashed"),
        ("flex", "unsupported"),
        ("flash-tiled", "crashed"),
    ]
    assert len(found.broken) == 2 and len(found.changes) == 62 - 2 - 3


def test_a_cell_that_is_unstable_in_b_is_told_with_its_time_and_is_no_failure(tmp_path: Path) -> None:
    sides(tmp_path, replace(USUAL, seed=1))
    edited(
        tmp_path / "b",
        lambda row: (
            row | {"status": "unstable", "reason": "it drifted", "time_s": 0.5}
            if row["kind"] == "cell" and row["contender"] == "flash-tiled" and row["axis.seq_len"] == 128
            else row
        ),
    )
    done = run(tmp_path, "a", "b", "--fail-if-slower", "5%")
    assert done.exit_code == 0 and "unstable in B, so not compared: attention.forward b1-h8-s128" in done.stdout
    assert "flash-tiled: 500 ms, it drifted" in done.stdout


def test_a_run_of_unstable_cells_alone_says_that_nothing_is_measured_in_both(tmp_path: Path) -> None:
    a, b = sides(tmp_path, replace(USUAL, seed=1))
    shaky = replace(b, cells={key: row | {"status": "unstable", "reason": "x"} for key, row in b.cells.items()})
    found = compare(a, shaky)
    assert not found.changes and len(found.lost) == 62 and not found.broken
    assert summary(found)[0].startswith("0 cells measured in both")
    assert not compare(shaky, shaky).lost


def test_ratios_that_no_float_holds_are_compared_all_the_same(tmp_path: Path) -> None:
    a, b = sides(tmp_path, replace(USUAL, seed=1))
    far = {"time_s": 1e-300, "time_low_s": 1e-304, "time_high_s": 1e-296}
    cells = {
        key: row | far if row["origin"] == "peer" and row["status"] == "ok" else row for key, row in b.cells.items()
    }
    found = compare(a, replace(b, cells=cells))
    assert all(0 < one.times.low <= one.times.ratio <= one.times.high < float("inf") for one in found.changes)


def test_a_run_against_itself_differs_nowhere(tmp_path: Path) -> None:
    a, _ = sides(tmp_path, USUAL)
    found = compare(a, a)
    assert {one.times.ratio for one in found.changes} == {1.0} and found.shift == found.widening == 1.0
    assert not found.slower_than(0.0) and not found.lost and not found.only_a and not found.only_b


def test_runs_that_share_nothing_and_empty_ones_are_refused(tmp_path: Path) -> None:
    a, b = sides(tmp_path, replace(USUAL, suites=("other.suite",)))
    with pytest.raises(ValueError, match="a and b share no cell"):
        compare(a, b)
    with pytest.raises(ValueError, match="run='b': it holds no cell"):
        compare(a, replace(b, cells={}))


@pytest.mark.parametrize(
    ("text", "value"), [("5%", 0.05), (" 0.5% ", 0.005), ("0.05", 0.05), ("0", 0.0), ("150%", 1.5)]
)
def test_a_limit_is_a_share(text: str, value: float) -> None:
    assert limit_of(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "5", "five", "-1%", "nan", "inf%", "%"])
def test_a_limit_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"fail-if-slower=.*write a share"):
        limit_of(text)


def run(folder: Path, *arguments: str) -> Any:
    return CliRunner().invoke(app, ["compare", *arguments, "--out", str(folder)])


def test_the_command_prints_the_worst_first_and_its_exit_status_tells_ci(tmp_path: Path) -> None:
    sides(tmp_path, replace(USUAL, seed=1, speed={"flash-tiled": 1.1}))
    done = run(tmp_path, "a", "b")
    assert done.exit_code == 0, done.stderr
    lines = done.stdout.splitlines()
    first = next(line for line in lines if line.startswith("attention."))
    assert "flash (tiled)" in first and first.rstrip().endswith("slower")
    assert "62 cells measured in both; in B: 14 slower, 0 faster" in done.stdout and "22 more cells" in done.stdout
    assert run(tmp_path, "a", "b", "--fail-if-slower", "5%").exit_code == 1
    assert run(tmp_path, "a", "b", "--fail-if-slower", "20%").exit_code == 0
    assert run(tmp_path, "b", "a", "--fail-if-slower", "5%").exit_code == 0
    every = run(tmp_path, str(tmp_path / "a"), "b", "--all").stdout
    assert sum(line.startswith("attention.") for line in every.splitlines()) == 62


def test_a_cell_that_fails_in_b_fails_in_ci(tmp_path: Path) -> None:
    sides(tmp_path, replace(USUAL, seed=1))
    edited(
        tmp_path / "b",
        lambda row: (
            row | {"status": "crashed", "reason": "boom"}
            if row["kind"] == "cell" and row["contender"] == "flash-tiled" and row["axis.seq_len"] == 128
            else row
        ),
    )
    done = run(tmp_path, "a", "b", "--fail-if-slower", "5%")
    assert done.exit_code == 1 and "crashed, boom" in done.stdout
    assert "Failed: 2 cells that A has measured and that fails in B" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["a", "c"], "run or baseline 'c' is not known"),
        (["a", "b", "--fail-if-slower", "5"], "write a share, as 5% or 0.05"),
        (["a", "gpu"], "--across-machines"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(tmp_path: Path, arguments: list[str], said: str) -> None:
    sides(tmp_path, USUAL)
    write(tmp_path / "gpu", replace(USUAL, device_name="NVIDIA H200"))
    done = run(tmp_path, *arguments)
    assert done.exit_code == 2 and said in done.stderr and done.stderr.strip().count("\n") == 0


def test_a_line_cut_short_is_told_and_costs_nothing_else(tmp_path: Path) -> None:
    """Case 22: read, told, nothing lost."""
    sides(tmp_path, USUAL)
    with (tmp_path / "b" / "rows.jsonl").open("a") as file:
        file.write('{"schema": 1, "kind": "ce')
    done = run(tmp_path, "a", "b")
    assert done.exit_code == 0 and done.stdout.startswith("b: rows.jsonl: the last line, cut short: dropped\n")
    assert "62 cells measured in both" in done.stdout


def test_a_cell_just_at_the_limit_is_not_beyond_it(tmp_path: Path) -> None:
    found = compare(*sides(tmp_path, USUAL))
    at, beyond = (Comparison(2.0, low, 3.0, "slower") for low in (1.25, 1.26))
    one, other = replace(found.changes[0], times=at), replace(found.changes[1], times=beyond)
    assert replace(found, changes=[one, other]).slower_than(0.25) == [other]


def test_a_baseline_stands_for_a_run(tmp_path: Path) -> None:
    a, b = sides(tmp_path, replace(USUAL, seed=1))
    kept = baselines.save(tmp_path / "a", "old", tmp_path / "baselines")
    assert not any("samples" in json.loads(line) for line in kept.read_text().splitlines())
    before, after = compare(a, b), compare(side(kept), b)
    assert [one.times for one in before.changes] == [one.times for one in after.changes] and after.a.name == "old"
    assert run(tmp_path, str(kept), "b").exit_code == 0
