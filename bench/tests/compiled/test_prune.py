"""A timing sweep without what a compile run has ruled out."""

from __future__ import annotations

from pathlib import Path

import pytest
from _compiled_rows import CPU, row, write
from typer.testing import CliRunner

from bancada.cli import app
from bancada.compiled import CompileSuite
from bancada.compiled.prune import prune
from bancada.registry import discover
from bancada.suite import Device
from bancada.sweep import Planned

SUITES = discover()
COMPILED, TIMED = SUITES["attention.compile"], SUITES["attention.configurations"]
assert isinstance(COMPILED, CompileSuite)
H200 = Device("cuda", "NVIDIA H200", 140 << 30, capability=(9, 0))
A100 = Device("cuda", "NVIDIA A100", 80 << 30, capability=(8, 0))
TILES = ({"block_m": 64}, {"block_m": 128}, {"block_m": 128, "num_warps": 4}, {"block_m": 32})


def planned(**more: object) -> list[Planned]:
    """The forward kernel at four tiles, two lengths each, and another suite's case."""
    names = tuple(contender.id for contender in TIMED.contenders)
    cases = [TIMED.case(**tile, seq_len=length, **more) for tile in TILES for length in (1024, 8192)]
    other = SUITES["attention.forward"]
    return [*(Planned(TIMED, case, names, 4.0) for case in cases), Planned(other, other.case(), ("torch-sdpa",), 4.0)]


def run(folder: Path) -> Path:
    """For sm_90: 64 is left, 128 loses to it, 128 with 4 warps does not fit, 32 was never compiled."""
    target = {"target": "sm_90"}
    found = [
        row(COMPILED, target | TILES[0]),
        row(COMPILED, target | TILES[1], stack_bytes=240),
        row(COMPILED, target | TILES[2], "unsupported", "needs 300,000 bytes of shared memory", shared_bytes=300_000),
        row(COMPILED, target | {"kernel": "backward_keys"} | TILES[0], stack_bytes=999),
        row(COMPILED, {"target": "gfx942"} | TILES[0]),
    ]
    return write(folder / "compiled", COMPILED, found)


def test_dominated_and_impossible_configurations_are_left_out_at_every_length(tmp_path: Path) -> None:
    kept, left_out = prune(planned(), SUITES, run(tmp_path), H200)
    assert [one.case["block_m"] for one in kept if one.suite is TIMED] == [64, 64, 32, 32]
    assert [one.suite.id for one in kept][-1] == "attention.forward", "what races no configurations stays"
    assert len(left_out) == 4 and {one.suite for one in left_out} == {"attention.configurations"}
    assert left_out[0].reason == "dominated by 64 x 64, 8 warps, 3 stages (sm_90, run compiled)"
    assert left_out[2].reason.startswith("unsupported: needs 300,000 bytes of shared memory (sm_90")


def test_what_was_not_compiled_stays(tmp_path: Path) -> None:
    """A compiler that died, or that was not there, says nothing against a configuration."""
    target = {"target": "sm_90"}
    found = [
        row(COMPILED, target | TILES[0]),
        row(COMPILED, target | TILES[1], "crashed", "CompilationError: at 1:0"),
        row(COMPILED, target | TILES[2], "unsupported", "triton is not installed"),
        row(COMPILED, target | TILES[3], "timeout", "compile took longer than 180 s"),
    ]
    kept, left_out = prune(planned(), SUITES, write(tmp_path / "compiled", COMPILED, found), H200)
    assert len(kept) == 9 and not left_out


def test_a_configuration_that_is_worth_it_at_one_size_stays(tmp_path: Path) -> None:
    found = [
        row(COMPILED, {"target": "sm_90", "seq_len": length} | tile, stack_bytes=stack)
        for length, tile, stack in ((1024, TILES[0], 0), (1024, TILES[1], 8), (8192, TILES[0], 8), (8192, TILES[1], 8))
    ]
    for rows, out in ((found, 0), (found[:2], 2)):
        kept, left_out = prune(planned(), SUITES, write(tmp_path / str(out), COMPILED, rows), H200)
        assert len(left_out) == out and len(kept) == 9 - out


def test_nothing_is_held_against_another_dtype_or_head_size(tmp_path: Path) -> None:
    for more in ({"dtype": "fp16"}, {"head_dim": 64}, {"causal": False}):
        kept, left_out = prune(planned(**more), SUITES, run(tmp_path / str(more)), H200)
        assert len(kept) == 9 and not left_out


def test_a_run_that_says_nothing_about_this_device_or_sweep_is_refused(tmp_path: Path) -> None:
    folder = run(tmp_path)
    with pytest.raises(ValueError, match=r"holds no row of attention\.compile for sm_80, but for gfx942, sm_90"):
        prune(planned(), SUITES, folder, A100)
    with pytest.raises(ValueError, match="device test CPU is no GPU"):
        prune(planned(), SUITES, folder, CPU)
    with pytest.raises(ValueError, match="no suite of this sweep races configurations"):
        prune(planned()[-1:], SUITES, folder, H200)
    with pytest.raises(ValueError, match="leaves nothing to measure"):
        prune(planned()[2:4], SUITES, folder, H200)


def test_the_command_line_prunes_and_says_what_it_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bancada.console.find_device", lambda kind, threads: H200)
    run(tmp_path)
    command = ["sweep", "none", "--suite", "attention.configurations", "--set", "block_m=64,128"]
    options = ["--prune-with", "compiled", "--out", str(tmp_path), "--dry-run"]
    found = CliRunner().invoke(app, [*command, *options])
    assert found.exit_code == 0, found.output
    told = [line for line in found.output.splitlines() if line.startswith("Left out: ")]
    assert told == [
        "Left out: attention.configurations b4-h16-s4096-d128-causal-bf16-m128-n64-w8-p3: "
        "dominated by 64 x 64, 8 warps, 3 stages (sm_90, run compiled)"
    ]
    assert "1 cases" in found.output
    wrong = CliRunner().invoke(app, [*command, "--prune-with", "compilde", "--out", str(tmp_path), "--dry-run"])
    assert wrong.exit_code == 2 and "did you mean compiled" in wrong.output


def test_without_a_gpu_its_cells_say_so_in_the_plan() -> None:
    found = CliRunner().invoke(
        app, ["sweep", "gpu", "--suite", "attention.configurations", "--device", "cpu", "--dry-run"]
    )
    assert found.exit_code == 0, found.output
    assert "flash-triton: needs a CUDA GPU" in found.output
