"""A row by its id, and the command in it: it asks for the same thing, and measures the same cell."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from _planted import sound
from _synthetic import Recipe, write
from rich.console import Console
from typer.testing import CliRunner

from bancada import again, cells, rows, stats
from bancada.campaign import Campaign
from bancada.cli import app
from bancada.registry import discover
from bancada.runs.compare import Side
from bancada.runs.show import Found, find
from bancada.runs.text import show_row
from bancada.settings import Job, JobCase, Settings
from bancada.suite import AnySuite, Device
from bancada.verdicts.comparisons import outcome_of

GRID = Recipe().grid | {"dtype": ["fp32"], "causal": [True]}
CPU = Device("cpu", "test CPU", 2**33, threads=1)


def row_of(suite: AnySuite, contender: str, settings: Settings, extra: tuple[str, ...] = (), **axes: Any) -> rows.Row:
    """The row of a contender as a sweep writes it, of a case with a budget and a number of seeds of its own."""
    case = suite.case(**axes)
    names = tuple(one.id for one in suite.contenders)
    asked = JobCase(suite.id, dict(case.axes), names, 2.5, 4)
    job = Job(
        Path(), (asked,), CPU, settings, {"run": "r", "driver": "", "commit": "c", "versions": "v"}, extra_suites=extra
    )
    stamp = job.stamped(asked)
    return cells.cell(suite, case, suite.contender(contender), CPU, stamp, "unsupported", "made up", 1)


def asked_for(command: str, monkeypatch: pytest.MonkeyPatch) -> Campaign:
    """What the command line makes of a command: its campaign, which is not carried out."""
    from bancada import console

    found: list[Campaign] = []
    monkeypatch.setattr(console, "show_plan", lambda stdout, campaign: found.append(campaign))
    words = shlex.split(command)
    assert words[:3] == ["python", "-m", "bancada"]
    done = CliRunner().invoke(app, [*words[3:], "--dry-run"])
    assert done.exit_code == 0, done.stderr
    return found[0]


HARD = Settings(rounds=7, least_rounds=2, most_rounds=9, sample_s=0.002, call_limit_s=33.0, seed=5, trials=1)


@pytest.mark.parametrize(
    "settings", [Settings(), HARD, replace(Settings(), rounds=200, most_rounds=200, isolate="process")]
)
def test_the_command_asks_for_the_same_case_contender_and_settings(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = discover()["attention.forward"]
    row = row_of(suite, "flash-tiled", settings, seq_len=256, causal=False)
    campaign = asked_for(row["command"], monkeypatch)
    (planned,) = campaign.planned
    assert planned.case.id == row["case"] and planned.case == suite.case(seq_len=256, causal=False)
    assert planned.contenders == ("torch-eager", "flash-tiled")  # beside the reference it raced with
    assert planned.budget_s == 2.5 and campaign.device.threads == 1 and campaign.device.type == "cpu"
    assert campaign.settings == replace(settings, budget_s=2.5, seeds=3, trials=4)  # it trains nothing


def test_the_command_of_a_training_row_asks_for_its_seeds_and_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    suite = discover()["optimizers.convergence"]
    row = row_of(suite, "adamw", HARD)
    campaign = asked_for(row["command"], monkeypatch)
    assert campaign.settings == replace(HARD, budget_s=2.5, seeds=4)
    assert (campaign.planned[0].seeds or campaign.settings.seeds) == 4


def test_the_command_knows_suites_of_one_s_own_and_a_reference_that_did_not_race(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (suite,) = sound()
    row = row_of(suite, "honest-b", Settings(), extra=("_planted:sound",), repeat=3)
    (planned,) = asked_for(row["command"], monkeypatch).planned
    assert (planned.case.id, planned.contenders) == ("r3-fp32", ("honest-b",))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rounds", "write NAME=VALUE"),
        ("round=3", "did you mean rounds"),
        ("rounds=many", "rounds=many: must be a whole number"),
        ("rounds=2.5", "must be a whole number"),
        ("sample_s=nan", "must be a finite number"),
        ("rounds=0", "rounds=0: must be a whole number above 0"),
    ],
)
def test_a_wrong_setting_is_one_line_and_exit_2(text: str, said: str) -> None:
    done = CliRunner().invoke(app, ["sweep", "smoke", "--setting", text, "--dry-run"])
    assert done.exit_code == 2 and said in done.stderr and done.stderr.strip().count("\n") == 0


def test_the_sweep_that_is_no_file_needs_a_suite() -> None:
    done = CliRunner().invoke(app, ["sweep", "none", "--dry-run"])
    assert done.exit_code == 2 and "needs a --suite" in done.stderr


def test_the_command_measures_the_same_cell_again(tmp_path: Path) -> None:
    (suite,) = sound()
    quick = Settings(rounds=6, most_rounds=6, sample_s=0.002)
    row = row_of(suite, "honest-b", quick, extra=("_planted:sound",), repeat=2)
    words = [sys.executable, *shlex.split(row["command"])[1:], "--no-aa", "--no-report", "--out", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.glob("*/rows.jsonl")
    (new,) = [one for one in rows.read(path).rows if one["kind"] == "cell"]
    assert (new["case"], new["contender"], new["status"]) == ("r2-fp32", "honest-b", "ok")
    assert new["rounds"] == 6 and new["threads"] == 1 and new["command"] == row["command"]
    shown = CliRunner().invoke(app, ["show", new["row_id"][:8], "--out", str(tmp_path)])
    assert shown.exit_code == 0 and shown.stdout.rstrip().endswith(row["command"])


def files(folder: Path, *recipes: Recipe) -> list[Path]:
    """The rows of made-up runs, the newest first."""
    made = [write(folder / recipe.run, recipe) / "rows.jsonl" for recipe in recipes]
    for age, path in enumerate(reversed(made)):
        os.utime(path, (1_000_000 - age, 1_000_000 - age))
    return made[::-1]


def test_a_row_is_found_in_the_newest_run_with_what_it_raced(tmp_path: Path) -> None:
    found = find(
        "attention.forward/b1-h8-s512-d64-causal-fp32/flash-tiled",
        files(tmp_path, Recipe(grid=GRID, run="old"), Recipe(grid=GRID, run="new", speed={"flash-tiled": 3.0})),
    )
    assert found.of.name == "new" and found.others == ["old"] and found.row["run"] == "new"
    assert {pair["b"] for pair in found.pairs} == {"eager", "torch-sdpa", "flex", "eager-compiled"}
    assert {pair["a"] for pair in found.pairs} == {"flash-tiled"}
    times = {one["contender"]: one["time_s"] for one in found.of.cells.values() if one["case"] == found.row["case"]
             and one["suite"] == "attention.forward" and one["status"] == "ok"}  # fmt: skip
    for pair in found.pairs:
        assert pair["ratio"] == pytest.approx(times["flash-tiled"] / times[pair["b"]], rel=0.05)
        assert pair["low"] < pair["ratio"] < pair["high"]
        assert (pair["verdict"] == "slower") == (pair["low"] > 1.01)


def test_a_prefix_is_enough_where_one_row_begins_so(tmp_path: Path) -> None:
    paths = files(tmp_path, Recipe(grid=GRID, run="a"))
    assert find("attention.forward/b1-h8-s8192-d64-causal-fp32/eager-", paths).row["contender"] == "eager-compiled"
    whole = "attention.forward/b1-h8-s8192-d64-causal-fp32/eager"  # also the beginning of another
    assert find(whole, paths).row["contender"] == "eager"
    with pytest.raises(ValueError, match=r"84 rows begin so: .*\(b1-h8-s1024.*and others; give more of the id"):
        find("attention", paths)


@pytest.mark.parametrize("row_id", ["attention.forward/b1-h8-s513-d64-causal-fp32/flex", "zzz", ""])
def test_an_unknown_row_tells_near_ones_and_where_was_searched(tmp_path: Path, row_id: str) -> None:
    with pytest.raises(ValueError, match=r"is not known: (did you mean attention|no id is near it).*\(searched a\)"):
        find(row_id, files(tmp_path, Recipe(grid=GRID, run="a")))


def test_the_row_is_printed_in_human_units_and_markup_stays_text(tmp_path: Path) -> None:
    files(tmp_path, Recipe(grid=GRID, run="a", device_name="[bold]CPU[/bold] <script>"))
    arguments = ["show", "attention.forward/b1-h8-s4096-d64-causal-fp32/flash-tiled", "--out", str(tmp_path)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.stderr
    for text in (
        " ms [",
        "30 samples of 1 call",
        "MiB",
        "GFLOP/s",
        "[bold]CPU[/bold] <script>",
        "torch SDPA",
        "Measure it",
    ):
        assert text in done.stdout
    failed = CliRunner().invoke(
        app, ["show", "attention.forward/b1-h8-s4096-d64-causal-fp32/flash-triton", "a", *arguments[2:]]
    )
    assert "needs a CUDA GPU" in failed.stdout and "In the same rounds" not in failed.stdout


def test_a_line_that_cannot_be_read_holds_no_row(tmp_path: Path) -> None:
    newest, oldest = files(tmp_path, Recipe(grid=GRID, run="old"), Recipe(grid=GRID, run="new"))
    row_id = "attention.forward/b1-h8-s512-d64-causal-fp32/flex"
    newest.write_text(newest.read_text().replace(f'"row_id": "{row_id}"', f'"row_id": "{row_id}", "schema": 99'))
    assert find(row_id, [newest, oldest]).of.name == "old"
    with pytest.raises(ValueError, match=r"flex': in new no line of it can be read \(.*schema=99"):
        find(row_id, [newest])


def shown(**changes: Any) -> str:
    """What is printed of a measured row with these changes, and with a comparison at the edge of the band."""
    (suite,) = sound()
    row = row_of(suite, "honest-b", Settings()) | {"status": "ok", "reason": "", "time_s": 1e-3} | changes
    pair = {"ratio": 0.98, "low": 0.97, "high": 0.9900, "verdict": "faster", "b": "honest-a"}
    console = Console(record=True, width=200)
    show_row(console, Found(row, Side("r", {}, {}, ()), [pair | changes.get("pair", {})], ()))
    return console.export_text()


def test_a_row_is_printed_with_what_its_device_said_and_what_a_sample_is() -> None:
    told = {"rounds": 8, "loops": 3, "energy_j": 0.25, "clock_mhz": 1980.0, "slowed_by": "nothing", "warm_s": 2e-3}
    text = shown(**told)
    assert "8 samples of 3 calls\n" in text and "0.25 J a call" in text and "1980 MHz" in text and "2.00 ms" in text
    alone = shown(**told, isolate="process", block_rounds=10)
    assert "8 samples of 3 calls, each the median of 10 in a process of its own" in alone
    assert "energy" not in shown() and "clock" not in shown()


@pytest.mark.parametrize(("high", "verdict"), [(0.99005, "faster"), (0.9902, "too close to call")])
def test_a_comparison_is_told_as_its_verdict_was(high: float, verdict: str) -> None:
    """Just within the band of 1%, and just beyond it."""
    assert stats.verdict(0.97, high) == verdict and (outcome_of(0.97, high) == "faster") == (verdict == "faster")
    text = shown(pair={"high": high, "verdict": verdict})
    assert ("faster than it" in text) == (verdict == "faster")


def test_a_row_that_is_nowhere_is_one_line_and_exit_2(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["show", "not-a-row", "--out", str(tmp_path)])
    assert done.exit_code == 2 and "searched" in done.stderr and done.stderr.strip().count("\n") == 0


def test_again_is_quoted_for_a_shell() -> None:
    (suite,) = sound()
    row = row_of(suite, "honest-a", Settings(), extra=("a b:c;d",))
    assert shlex.split(row["command"])[-1] == "a b:c;d" and again.NO_FILE in row["command"]
