"""Runs and baselines by name: where each is looked for, in which order, and what stands for nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from _synthetic import Recipe, write
from typer.testing import CliRunner

from bancada import runs
from bancada.cli import app
from bancada.runs import baselines, cli

LONG = "x" * 300


def places(folder: Path) -> tuple[Path, Path]:
    """A folder of runs `one` and `two` and one of baselines `two`, `old` and the published figures."""
    for path in (
        "runs/two/rows.jsonl",
        "runs/one/rows.jsonl",
        "kept/two.jsonl",
        "kept/old.jsonl",
        "kept/published.jsonl",
    ):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("")
    (folder / "runs" / "no-rows").mkdir()
    return folder / "runs", folder / "kept"


def test_a_run_is_found_by_its_path_and_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, kept = places(tmp_path)
    assert runs.run_dir("one", folder) == runs.run_dir(str(folder / "one"), tmp_path) == folder / "one"
    assert runs.rows_file("one", folder, kept) == folder / "one" / "rows.jsonl"
    assert runs.rows_file("two", folder, kept) == folder / "two" / "rows.jsonl", "a run goes before a baseline"
    assert runs.rows_file("old", folder, kept) == runs.baseline_file("old", kept) == kept / "old.jsonl"
    assert runs.rows_file(str(kept / "two.jsonl"), folder, kept) == kept / "two.jsonl"
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "rows.jsonl").write_text("")
    monkeypatch.chdir(tmp_path)
    assert runs.run_dir("one", folder) == Path("one"), "a path goes before a name"
    assert runs.rows_file("one", folder, kept) == Path("one") / "rows.jsonl"
    assert runs.names(folder) == ["one", "two"] and runs.recorded(kept) == [kept / "old.jsonl", kept / "two.jsonl"]


@pytest.mark.parametrize("name", ["no-rows", "", "published", "../kept/published.jsonl", LONG, "a\0b"])
def test_what_is_no_run_is_named_with_what_there_is(tmp_path: Path, name: str) -> None:
    folder, kept = places(tmp_path)
    with pytest.raises(ValueError, match=r"run or baseline '.*' is not known: (there are|did you mean)"):
        runs.rows_file(str(folder / name) if name.startswith("..") else name, folder, kept)
    with pytest.raises(ValueError, match=r"run '.*' is not known: there are one, two"):
        runs.run_dir(name, folder)
    with pytest.raises(ValueError, match=r"baseline '.*' is not known: there are old, two"):
        runs.baseline_file(name, kept)


def test_near_names_are_those_of_runs_and_baselines(tmp_path: Path) -> None:
    folder, kept = places(tmp_path)
    with pytest.raises(ValueError, match="did you mean one"):
        runs.rows_file("onee", folder, kept)
    with pytest.raises(ValueError, match="did you mean old"):
        runs.rows_file("olds", folder, kept)
    with pytest.raises(ValueError, match=r"there is no run in .*: `python -m bancada sweep` makes one"):
        runs.newest(tmp_path / "nowhere")


def test_rows_are_of_the_run_whose_folder_they_lie_in_or_of_the_baseline_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, kept = places(tmp_path)
    monkeypatch.chdir(folder / "one")
    assert runs.name_of(Path("rows.jsonl")) == "one" and runs.name_of(kept / "old.jsonl") == "old"


def test_runs_come_the_newest_first_and_baselines_after_them(tmp_path: Path) -> None:
    folder, kept = places(tmp_path)
    os.utime(folder / "one" / "rows.jsonl", (10, 10))
    os.utime(folder / "two" / "rows.jsonl", (20, 20))
    found = [folder / "two" / "rows.jsonl", folder / "one" / "rows.jsonl"]
    assert runs.files(folder) == found
    assert runs.files(folder, kept) == [*found, kept / "old.jsonl", kept / "two.jsonl"]


HEAD = {"device": "cpu", "device_name": "C", "env.cores": 4, "env.threads": 2, "env.mhz": 1, "time": "t"}


@pytest.mark.parametrize("name", ["device", "device_name", "env.cores", "env.threads"])
def test_machines_differ_by_device_cores_and_threads(name: str) -> None:
    assert runs.identity(HEAD) != runs.identity(HEAD | {name: 9})
    assert runs.identity(HEAD) == runs.identity(HEAD | {"env.mhz": 9, "time": "u", "version.torch": "3"})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, "C (4 cores, 2 threads)"),
        ({"env.cores": None}, "C (2 threads)"),
        ({"env.cores": None, "env.threads": None}, "C"),
        ({"device": "cuda", "device_name": "H200"}, "H200"),
        ({"device_name": ""}, "an unknown device (4 cores, 2 threads)"),
    ],
)
def test_a_machine_is_said_in_words(change: dict[str, Any], said: str) -> None:
    assert runs.machine_words(HEAD | change) == said
    assert runs.machine_words({}) == "an unknown device"


@pytest.mark.parametrize(
    "line", [["compare", LONG, LONG], ["report", LONG], ["show", "x", LONG], ["baseline", "save", LONG, "x"]]
)
def test_a_name_that_no_file_can_have_is_one_line_and_exit_2(tmp_path: Path, line: list[str]) -> None:
    done = CliRunner().invoke(app, [*line, "--out", str(tmp_path)])
    assert done.exit_code == 2 and "is not known" in done.stderr and done.stderr.strip().count("\n") == 0


def test_a_baseline_is_saved_by_the_command_which_tells_what_it_could_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "baselines_folder", lambda: tmp_path / "kept")
    run = write(tmp_path / "runs" / "a", Recipe(suites=("attention.forward",)))
    with (run / "rows.jsonl").open("a") as file:
        file.write('{"kind": "ce')
    done = CliRunner().invoke(app, ["baseline", "save", "a", "mine", "--out", str(tmp_path / "runs")])
    assert done.exit_code == 0 and [one.name for one in baselines.load(tmp_path / "kept")] == ["mine"]
    recorded, told = done.stdout.splitlines()
    assert recorded == f"Recorded: {tmp_path / 'kept' / 'mine.jsonl'}" and "cut short: dropped" in told
