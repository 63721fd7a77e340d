"""The index of a folder of runs, and a sweep against a recorded run."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from _synthetic import Recipe, write
from typer.testing import CliRunner

from bancada import rows
from bancada.cli import app
from bancada.report import build, index
from bancada.runs import baselines
from bancada.runs import cli as runs_cli

HOSTILE = "</td><script>alert('pwned')</script>\"'<img src=x onerror=alert(1)>"
SMALL = Recipe().grid | {"dtype": ["fp32"], "causal": [True], "seq_len": [512]}


def dated(run: Path, time: str, **head: object) -> Path:
    """The run with another day, and whatever else its head is to say."""
    path = run / "rows.jsonl"
    found = [row | {"time": time} | (head if row["kind"] == "run" else {}) for row in rows.read(path).rows]
    path.unlink()
    rows.append(path, found)
    return run


def lines(page: Path) -> list[str]:
    """The rows of the table, as text."""
    body = page.read_text(encoding="utf-8").split("<tbody>")[1]
    return [
        " ".join(re.sub(r"<[^>]+>", " ", row).split()).replace(" ,", ",")
        for row in re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL)
    ]


def test_the_index_lists_every_run_the_newest_first(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    dated(write(folder / "old", Recipe(grid=SMALL, run="old")), "2026-01-02T03:04:05+00:00", sweep="cpu")
    stopped = Recipe(grid=SMALL | {"seq_len": [256, 512]}, suites=("attention.forward",), drop=1, end=False)
    dated(write(folder / "new", stopped), "2026-03-02T03:04:05+00:00")
    build([folder / "old"])
    page = index.write(folder)
    assert page == tmp_path / "index.html"
    newest, oldest = lines(page)
    assert newest.startswith(
        "2026-03-02 03:04 demo, not finished Intel(R) Xeon(R) 6975P-C (2 cores, 2 threads) 0123abc"
    )
    assert "5 of 12" in newest and "6 not measured, 1 unsupported" in newest and "no report, rows new" in newest
    assert "1 false of 336" in newest and "9 of 12" in oldest
    assert oldest.startswith("2026-01-02 03:04 cpu Intel") and oldest.endswith("report, rows old")
    text = page.read_text(encoding="utf-8")
    assert 'href="runs/old/report.html"' in text and 'href="runs/old/rows.jsonl"' in text
    assert "runs/new/report.html" not in text and not re.search(r"(src|href)=[\"']?(https?:)?//", text)


def test_names_with_markup_stay_text_and_links_are_quoted(tmp_path: Path) -> None:
    """A name holding `<script>` or quotes (case 21)."""
    folder = tmp_path / "a folder"
    write(folder / "run #1 'x'", Recipe(grid=SMALL, run=HOSTILE, device_name=HOSTILE))
    text = index.write(folder).read_text(encoding="utf-8")
    assert "<script>" not in text and "<img" not in text and "&lt;script&gt;" in text
    assert 'href="run%20%231%20%27x%27/rows.jsonl"' in text  # the index of a folder of another name stands in it


def test_a_summary_is_read_again_only_where_the_rows_have_changed(tmp_path: Path) -> None:
    run = write(tmp_path / "a", Recipe(grid=SMALL))
    first = index.summary(run)
    kept = json.loads((run / index.SUMMARY).read_text())
    (run / index.SUMMARY).write_text(json.dumps(kept | {"sweep": "from the summary"}))
    assert index.summary(run).sweep == "from the summary"
    again = next(row for row in rows.read(run / "rows.jsonl").rows if row["kind"] == "cell" and row["status"] == "ok")
    rows.append(run / "rows.jsonl", [again | {"contender": "another"}])
    assert index.summary(run).measured == first.measured + 1 and index.summary(run).sweep == "demo"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"rows": [1, 2]}', '{"colour": 3}'])
def test_a_summary_that_cannot_be_read_is_made_again(tmp_path: Path, text: str) -> None:
    run = write(tmp_path / "a", Recipe(grid=SMALL))
    first = index.summary(run)
    (run / index.SUMMARY).write_text(text)
    assert index.summary(run) == first


def test_an_empty_folder_says_how_to_make_a_run(tmp_path: Path) -> None:
    assert "There is no run yet" in index.write(tmp_path).read_text()


def test_report_writes_the_index_too(tmp_path: Path) -> None:
    write(tmp_path / "a", Recipe(grid=SMALL))
    done = CliRunner().invoke(app, ["report", "a", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.stderr
    assert f"Runs:   {tmp_path / 'index.html'}" in done.stdout and "report, rows a" in lines(tmp_path / "index.html")[0]


@pytest.mark.parametrize("missing", ["jinja2", "plotly.offline"])
def test_without_the_report_s_libraries_the_rows_are_kept_and_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    write(tmp_path / "a", Recipe(grid=SMALL))
    monkeypatch.setitem(sys.modules, missing, None)
    done = CliRunner().invoke(app, ["report", "a", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.stderr
    assert "No report here (the report needs" in done.stdout and not list(tmp_path.glob("**/*.html"))


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose sweeps are made up, with a baseline `then` of the same machine and `gpu` of another."""
    folder = tmp_path / "baselines"
    baselines.save(write(tmp_path / "then", Recipe(noise=0.01)), "then", folder)
    baselines.save(write(tmp_path / "gpu", Recipe(device_name="NVIDIA H200")), "gpu", folder)
    baselines.save(write(tmp_path / "other", Recipe(suites=("some.other",))), "other", folder)
    monkeypatch.setattr(runs_cli, "baselines_folder", lambda: folder)
    slower = Recipe(noise=0.01, seed=1, run="now", speed={"flash-tiled": 1.1})
    monkeypatch.setattr("bancada.campaign.execute", lambda campaign, run_dir, tick: write(run_dir, slower))
    return tmp_path


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("then", "cells measured in both; in B: 56 slower, 0 faster"),
        ("gpu", "gpu is of NVIDIA H200 (2 cores, 2 threads), this run of Intel(R) Xeon(R)"),
        ("other", "other holds no cell of this run, so there is nothing to compare."),
    ],
)
def test_a_sweep_prints_its_times_against_a_recorded_run(measured: Path, name: str, said: str) -> None:
    arguments = ["sweep", "smoke", "--against", name, "--no-report", "--out", str(measured / "runs")]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.stderr
    assert said in done.stdout


def test_an_unknown_baseline_is_refused_before_anything_is_measured(measured: Path) -> None:
    done = CliRunner().invoke(app, ["sweep", "smoke", "--against", "them", "--out", str(measured / "runs")])
    assert done.exit_code == 2 and "baseline 'them' is not known: did you mean then" in done.stderr
    assert not (measured / "runs").exists()
