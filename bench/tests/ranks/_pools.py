"""Runs planted suites of ranks as a sweep's parent does; by itself (`python _pools.py FOLDER`), to be killed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from bancada import rows
from bancada.ranks import RanksSuite
from bancada.ranks.pool import Pools
from bancada.registry import discover
from bancada.rows import ROWS
from bancada.settings import Job, Settings
from bancada.suite import Device
from bancada.sweep import Planned

LIMIT_S = 10.0  # for one step: far above what an honest one takes, also on a busy machine
STAMP: dict[str, str | int] = {"run": "test", "driver": "", "commit": "0", "versions": "torch=0"}


def job(folder: Path, modules: Sequence[str]) -> Job:
    settings = Settings(
        rounds=6, most_rounds=6, budget_s=60.0, sample_s=0.002, call_limit_s=60.0, compile_limit_s=120.0,
        oracle_limit_s=60.0, update_limit_s=LIMIT_S,
    )  # fmt: skip
    device = Device("cpu", "test CPU", 8 * 2**30, threads=2)
    return Job(folder, (), device, settings, STAMP, extra_suites=tuple(modules))


def planned(modules: Sequence[str], **axes: int) -> list[Planned]:
    suites = [suite for suite in discover(points=[], extra=modules).values() if isinstance(suite, RanksSuite)]
    return [Planned(one, one.case(**axes), tuple(c.id for c in one.contenders), 60.0) for one in suites]


def run(folder: Path, modules: Sequence[str], **axes: int) -> Pools:
    """Measures what has no row in the folder yet."""
    pools = Pools(folder, folder / "log", lambda current: None)
    pools.run(job(folder, modules), planned(modules, **axes))
    return pools


def cells(folder: Path, written: bool = True) -> list[rows.Row]:
    """The cells so far; while another process writes, its last line may be seen before it is whole."""
    found = rows.read(folder / ROWS)
    assert not found.problems or not written
    return [row for row in found.rows if row["kind"] == "cell"]


if __name__ == "__main__":
    run(Path(sys.argv[1]), sys.argv[2:])
