"""Made-up rows of compile suites, in the shape of real ones; what a test changes turns the outcome."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bancada import campaign, cells, rows
from bancada.compiled import CompileSuite
from bancada.suite import Device
from bancada.sweep import Planned

CPU = Device("cpu", "test CPU", 8 * 2**30, threads=1)
STAMP: dict[str, str | int] = {"run": "compiled", "driver": "", "commit": "0", "versions": "triton=0"}
USUAL = {
    "stack_bytes": 0, "matrix_missing": 0, "bound_s": 2.8e-4, "instructions": 12.0, "resident_warps": 16,
    "loaded_bytes": 2e9, "stages": 2, "registers": 128, "shared_bytes": 65_536, "resident_blocks": 2,
    "occupancy": 0.25, "compile_s": 2.0,
}  # fmt: skip


def row(
    suite: CompileSuite,
    axes: Mapping[str, Any],
    status: str = "ok",
    reason: str = "",
    contender: int = 0,
    **figures: float,
) -> rows.Row:
    """One configuration with the usual figures, but those given; none where it is not `ok` and none is given."""
    case = suite.case(**axes)
    found = {f"measure.{name}": value for name, value in (USUAL | figures).items()} if status == "ok" or figures else {}
    notes = {"note.configuration": suite.say(case), "note.limit": "registers", "note.matrix": "wgmma",
             "note.chip": "a chip"}  # fmt: skip
    return cells.cell(suite, case, suite.contenders[contender], CPU, STAMP, status, reason, facts=found | notes)


def write(folder: Path, suite: CompileSuite, found: list[rows.Row]) -> Path:
    """A run folder as a compile sweep leaves it."""
    folder.mkdir(parents=True)
    head = cells.common("run", "compiled") | {
        "sweep": "compile", "command": "python -m bancada sweep compile", "commit": "0", "device": "cpu",
        "device_name": CPU.name,
    }  # fmt: skip
    rows.append(folder / "rows.jsonl", [head, *found, cells.common("end", "compiled") | {"wall_s": 3.0}])
    planned = list(_planned(suite, found))
    (folder / "catalogue.json").write_text(json.dumps(campaign.catalogue(planned)))
    listed = [{"suite": suite.id, "family": suite.family, "case": one.case.id, "axes": dict(one.case.axes),
               "contenders": list(one.contenders)} for one in planned]  # fmt: skip
    (folder / "plan.json").write_text(json.dumps({"sweep": "compile", "cells": listed}))
    return folder


def _planned(suite: CompileSuite, found: list[rows.Row]) -> Iterator[Planned]:
    for one in found:
        axes = {name[5:]: value for name, value in one.items() if name.startswith("axis.")}
        yield Planned(suite, suite.case(**axes), (one["contender"],), 1.0)
