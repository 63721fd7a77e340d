"""Sweep files, overrides and plans: everything a user can get wrong is told in one line, before anything is written."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from _planted import sound
from typer.testing import CliRunner

from bancada import sweep as sweeps
from bancada.cli import app, root
from bancada.registry import discover
from bancada.suite import Axis, KernelSuite
from bancada.sweep import Choice

EXTRA = ["--suites-from", "_planted:sound"]


def suites() -> dict[str, KernelSuite]:
    return {suite.id: suite for suite in sound()}


def write(folder: Path, text: str, name: str = "mine") -> Path:
    (folder / f"{name}.toml").write_text(text)
    return folder


GOOD = """
title = "Mine"
[settings]
rounds = 12
[[suite]]
id = "planted.sound"
budget_s = 3
seeds = 8
axes = { repeat = [0, 1, 2] }
[[suite]]
id = "planted.sound"
axes = { repeat = [2, 3] }
contenders = ["honest-a"]
"""


def test_a_sweep_file_is_read_and_its_cases_are_planned_once(tmp_path: Path) -> None:
    sweep = sweeps.load("mine", write(tmp_path, GOOD))
    planned = sweeps.plan(sweep, suites(), Choice())
    assert sweep.title == "Mine" and sweep.settings.rounds == 12
    assert [one.case.id for one in planned] == ["r0-fp32", "r1-fp32", "r2-fp32", "r3-fp32"]
    assert planned[2].contenders == ("honest-a", "honest-b") and planned[3].contenders == ("honest-a",)
    assert planned[0].budget_s == 3 and planned[0].job().seeds == 8 and planned[3].job().seeds is None


def test_the_command_line_overrides_any_axis(tmp_path: Path) -> None:
    sweep = sweeps.load("mine", write(tmp_path, GOOD))
    choice = Choice(contenders=("honest-b",), sets=sweeps.parse_sets(["repeat=7,8"]))
    planned = sweeps.plan(sweep, suites(), choice)
    assert [(one.case.id, one.contenders) for one in planned] == [
        ("r7-fp32", ("honest-b",)),
        ("r8-fp32", ("honest-b",)),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("title = 3 4", "not TOML"),
        ("", r"needs at least one \[\[suite\]\]"),
        ("[[suite]]\nname = 'x'", "key 'name' is not known"),
        ("[[suite]]\nbudget_s = 3", "needs an id"),
        ("[[suite]]\nid = 'planted.sound'\nbudget_s = -1", "budget_s=-1"),
        ("[[suite]]\nid = 'planted.sound'\nbudget_s = inf", "budget_s=inf"),
        ("[[suite]]\nid = 'planted.sound'\nseeds = 0", "seeds=0: must be a whole number above 0"),
        ("[[suite]]\nid = 'planted.sound'\nseeds = true", "seeds=True"),
        ("[[suite]]\nid = 'planted.sound'\ncontenders = 5", "contenders=5: must be a list of names"),
        ("suite = [3]", r"needs at least one \[\[suite\]\]"),
        ("settings = 3\n[[suite]]\nid = 'planted.sound'", "settings=3: must be a table"),
        ("[settings]\nround = 3\n[[suite]]\nid = 'planted.sound'", "did you mean rounds"),
        ("[settings]\nrounds = 0\n[[suite]]\nid = 'planted.sound'", "rounds=0"),
        (
            "[settings]\nrounds = 'many'\n[[suite]]\nid = 'planted.sound'",
            "rounds='many': must be a whole number above 0",
        ),
        ("[settings]\nrounds = 2.5\n[[suite]]\nid = 'planted.sound'", r"rounds=2\.5: must be a whole number above 0"),
        ("[[suite]]\nid = 'planted.sund'", "did you mean planted.sound"),
        ("[[suite]]\nid = 'planted.sound'\naxes = { repeats = [1] }", "has no axis 'repeats'"),
        ("[[suite]]\nid = 'planted.sound'\naxes = { repeat = ['a'] }", "repeat='a'"),
        ("[[suite]]\nid = 'planted.sound'\ncontenders = ['honest']", "has no contender 'honest'"),
    ],
)
def test_a_wrong_sweep_file_is_refused_with_the_reason(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        sweeps.plan(sweeps.load("mine", write(tmp_path, text)), suites(), Choice())


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (Choice(suites=("planted.sund",)), "did you mean planted.sound"),
        (Choice(families=("attentoin",)), "did you mean attention"),
        (Choice(contenders=("honest-c",)), "contender 'honest-c' is not known"),
        (Choice(sets={"seq": ["1"]}), "axis 'seq' is not known"),
        (Choice(sets={"repeat": ["x"]}), "repeat='x': not a whole number"),
    ],
)
def test_a_wrong_choice_is_refused_with_near_names(choice: Choice, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        sweeps.plan(sweeps.load("mine", write(tmp_path, GOOD)), suites(), choice)


def test_a_contender_is_planned_at_the_cases_of_its_own_alone(tmp_path: Path) -> None:
    (suite,) = sound()
    mine = dataclasses.replace(suite.contenders[0], only={"repeat": (0, 3)})
    known = {suite.id: suite.with_contenders([mine, *suite.contenders[1:]])}
    sweep = sweeps.load("mine", write(tmp_path, GOOD))
    planned = {one.case.id: one.contenders for one in sweeps.plan(sweep, known, Choice())}
    assert planned == {
        "r0-fp32": ("honest-a", "honest-b"), "r1-fp32": ("honest-b",), "r2-fp32": ("honest-b",),
        "r3-fp32": ("honest-a",),
    }  # fmt: skip
    nowhere = Choice(contenders=("honest-a",), sets=sweeps.parse_sets(["repeat=1"]))
    with pytest.raises(ValueError, match="nothing is left to measure: no case asked for is one of honest-a"):
        sweeps.plan(sweep, known, nowhere)


def test_what_is_named_twice_counts_once_and_nothing_is_dropped(tmp_path: Path) -> None:
    text = "[[suite]]\nid = 'planted.sound'\ncontenders = ['honest-a', 'honest-a']"
    planned = sweeps.plan(sweeps.load("mine", write(tmp_path, text)), suites(), Choice())
    assert planned[0].contenders == ("honest-a",)
    assert sweeps.parse_sets(["repeat=1,2", "repeat=3"]) == {"repeat": ["1", "2", "3"]}


def test_a_file_that_is_no_text_is_refused_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"mine\.toml: not TOML"):
        sweeps.load("mine", tmp_path)


@pytest.mark.parametrize("text", ["repeat", "repeat=", "=3", "repeat=,"])
def test_a_wrong_override_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write AXIS=VALUE"):
        sweeps.parse_sets([text])


def test_sizes_from_a_transformers_configuration(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"num_attention_heads": 32, "num_key_value_heads": 8, "hidden_size": 4096}))
    assert sweeps.like(path) == {"heads": ["32"], "kv_heads": ["8"], "head_dim": ["128"]}
    path.write_text(json.dumps({"n_head": 12, "n_embd": 768}))
    assert sweeps.like(path) == {"heads": ["12"], "kv_heads": ["12"], "head_dim": ["64"]}
    for wrong in (
        "{",
        "[]",
        "{}",
        '{"text_config": null}',
        '{"text_config": 3}',
        '{"num_attention_heads": 0, "hidden_size": 8}',
    ):
        path.write_text(wrong)
        with pytest.raises(ValueError, match="--like"):
            sweeps.like(path)
    with pytest.raises(ValueError, match="--like"):
        sweeps.like(tmp_path / "none.json")


def test_like_touches_only_suites_that_have_the_axis(tmp_path: Path) -> None:
    sweep = sweeps.load("mine", write(tmp_path, GOOD))
    assert len(sweeps.plan(sweep, suites(), Choice(), {"heads": ["8"]})) == 4


def test_every_sweep_file_of_the_checkout_plans() -> None:
    from bancada.cli import root
    from bancada.registry import discover

    folder = root() / "bench" / "sweeps"
    assert {"smoke", "cpu", "gpu"} <= set(sweeps.sweep_names(folder))
    for name in sweeps.sweep_names(folder):
        assert sweeps.plan(sweeps.load(name, folder), discover(), Choice()), name


def test_suites_that_cannot_be_loaded_are_named_in_one_line() -> None:
    done = CliRunner().invoke(app, ["list", "--suites-from", "no_such_module:suites"])
    assert done.exit_code == 2
    assert "the suites of no_such_module:suites cannot be loaded" in done.stderr and done.stderr.count("\n") == 1


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    arguments = ["sweep", *EXTRA, "--suite", "planted.sound", "--no-aa", "--no-report", "--out", str(tmp_path / "file")]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2 and "file" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["sweep", "smok"], "did you mean smoke"),
        (["sweep", "smoke", "--suite", "attention.forwards"], "did you mean attention.forward"),
        (["sweep", "smoke", "--set", "seqlen=4"], "did you mean seq_len"),
        (["sweep", "smoke", "--set", "dtype=fp4"], "allowed are"),
        (["sweep", "smoke", "--only", "peftt"], "is not known"),
        (["sweep", "smoke", "--device", "tpu"], "allowed are auto, cpu, cuda"),
        (["sweep", "smoke", "--threads", "0"], "threads=0"),
        (["sweep", "smoke", "--threads", "99999"], "threads=99999: must lie between 1 and"),
        (["sweep", "smoke", "--contender", ","], "names nobody"),
        (["sweep", "smoke", "--rounds", "0"], "rounds=0"),
        (["sweep", "smoke", "--seeds", "0"], "seeds=0"),
        (["sweep", "smoke", "--trials", "-1"], "trials=-1"),
        (["sweep", "smoke", "--suites-from", "nothing"], "write MODULE:FUNCTION"),
        (["sweep", "smoke", "--suites-from", "nothing_there:suites"], "nothing_there"),
        (["sweep", "smoke", "--suites-from", "os:path"], "the suites of os:path cannot be loaded"),
        (["sweep", "smoke", "--budget", "inf"], "budget_s=inf: must be a finite number above 0"),
        (["sweep", "smoke", "--budget", "nan"], "budget_s=nan: must be a finite number above 0"),
        (["report", "no-such-run"], "run 'no-such-run' is not known"),
        (["trust", "--comparisons", "0"], "comparisons=0"),
    ],
)
def test_bad_input_on_the_command_line_is_one_line_exit_2_and_nothing_written(
    arguments: list[str], said: str, tmp_path: Path
) -> None:
    done = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path)])
    assert done.exit_code == 2
    assert said in done.stderr and done.stderr.strip().count("\n") == 0
    assert not list(tmp_path.iterdir())


def test_a_dry_run_prints_the_plan_with_a_time_and_measures_nothing(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["sweep", "smoke", "--dry-run", "--set", "seq_len=256", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.stderr
    assert "s256" in done.stdout and "s512" not in done.stdout and "about" in done.stdout and "min" in done.stdout
    assert not list(tmp_path.iterdir())


def test_a_suite_of_ones_own_runs_at_its_defaults() -> None:
    done = CliRunner().invoke(app, ["sweep", "--suite", "planted.sound", *EXTRA, "--dry-run"])
    assert done.exit_code == 0, done.stderr
    assert "r0-fp32" in done.stdout and "1 cases, 2 cells" in done.stdout


def test_the_estimate_grows_with_the_work() -> None:
    from bancada.registry import discover
    from bancada.settings import Settings
    from bancada.suite import Device

    suite = discover()["attention.forward"]
    device = Device("cpu", "x", 2**33)
    names = tuple(contender.id for contender in suite.contenders)
    cost = [
        sweeps.estimate_s(sweeps.Planned(suite, suite.case(seq_len=n), names, 10.0), Settings(), 1e11, device)
        for n in (512, 4096, 16384)
    ]
    assert cost[0] < cost[1] < cost[2]


def test_axis_words() -> None:
    assert Axis("causal", "causal|full", bool).write(False) == "full"


@pytest.mark.parametrize("name", ["cpu", "cpu-full"])
def test_the_cpu_sweeps_span_all_five_families(name: str) -> None:
    found = discover()
    planned = sweeps.plan(sweeps.load(name, root() / "bench" / "sweeps"), found, Choice())
    families = {"attention", "optimizers", "compression", "peft", "parallelism"}
    assert {one.suite.family for one in planned} == families
    assert {one.suite.kind for one in planned} == {"kernel", "training", "ranks"}
    of_gpus = {id for id, suite in found.items() if suite.kind == "compile"} | {"attention.configurations"}
    left_out = {id for id in found if not id.startswith("harness.")} - {one.suite.id for one in planned} - of_gpus
    assert left_out == ({"compression.distillation"} if name == "cpu" else set())  # minutes, for one comparison
