"""The rank script under the launchers that people use, DeepSpeed's engine in its pool, and rarer ways to end a pool."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from _pools import cells, job, planned, run

FOLDER = Path(__file__).parent
SOUND = ("_planted_ranks:sound",)
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def installed(*names: str) -> pytest.MarkDecorator:
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} not installed")


def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def launched(folder: Path, *commands: list[str]) -> None:
    """Starts the commands at the same time, each with the rank script's arguments, and waits for all."""
    made = dataclasses.replace(job(folder, SOUND), cases=tuple(one.job() for one in planned(SOUND)))
    made.write(folder / "job.json")
    own = {"PYTHONPATH": str(FOLDER), "OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu"}
    if sys.platform.startswith("linux"):
        own["GLOO_SOCKET_IFNAME"] = "lo"
    rest = ["bancada.ranks.worker", "--bancada-job", str(folder / "job.json")]
    with (folder / "log").open("wb") as log:
        started = [
            subprocess.Popen([*command, *rest], env={**os.environ, **own}, stdout=log, stderr=log)
            for command in commands
        ]
        codes = [process.wait(timeout=500) for process in started]
    assert not any(codes), (folder / "log").read_text()[-3000:]
    assert {row["contender"]: row["status"] for row in cells(folder)} == {"honest-a": "ok", "honest-b": "ok"}


def module(name: str) -> list[str]:
    return [sys.executable, "-m", name]


def test_two_nodes_on_loopback(tmp_path: Path) -> None:
    master = ["--nnodes=2", "--nproc-per-node=1", "--master-addr=127.0.0.1", f"--master-port={port()}"]
    nodes = [[*module("torch.distributed.run"), *master, f"--node-rank={rank}", "-m"] for rank in range(2)]
    launched(tmp_path, *nodes)


@installed("accelerate")
def test_accelerate_launch(tmp_path: Path) -> None:
    options = ["--multi_gpu", "--num_processes=2", "--num_machines=1", "--mixed_precision=no", "--dynamo_backend=no"]
    start = [*module("accelerate.commands.launch"), *options, f"--main_process_port={port()}", "-m"]
    launched(tmp_path, start)


@installed("deepspeed")
def test_deepspeed_launcher(tmp_path: Path) -> None:
    launched(tmp_path, [*module("deepspeed.launcher.runner"), "--num_gpus=2", f"--master_port={port()}", "--module"])


@installed("deepspeed")
def test_deepspeeds_engine_is_counted_and_compiles_no_extension(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first run compiled for minutes, and a build killed half-way blocked all later ones."""
    monkeypatch.setenv("PYTHONPATH", str(FOLDER))
    monkeypatch.setenv("BANCADA_CACHE", str(tmp_path / "cache"))
    run(tmp_path, ("_planted_deepspeed:engine",))
    (row,) = cells(tmp_path)
    assert row["status"] == "ok", row["reason"]
    assert row["measure.comm.all_reduce.bytes"] >= 4 * 110 and row["measure.comm.all_reduce.calls"] >= 1
    assert [path.name for path in (tmp_path / "cache" / "torch_extensions").iterdir()] == [".in-use"]


def test_rarer_ways_to_end_a_pool_and_four_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(FOLDER))
    run(tmp_path, ("_planted_ranks:rare",), world_size=4)
    found = {row["contender"]: row for row in cells(tmp_path)}
    assert found["honest-a"]["status"] == "ok" and found["honest-a"]["measure.rank3.peak_bytes"] > 0
    assert found["leaves"]["reason"] == "rank 1, step 'first call': ended by itself before the others"
    assert found["asks-for-too-much"]["status"] == "out_of_memory"
    assert found["asks-for-too-much"]["reason"].startswith("rank 1, step 'first call': RuntimeError: ")
    assert found["imports-nothing"]["status"] == "unsupported"
    assert "a_library_that_is_not_there" in found["imports-nothing"]["reason"]
