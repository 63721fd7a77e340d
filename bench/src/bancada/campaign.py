"""A run from its plan to its report: folder, head, ceilings, jobs, A/A, foot."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
import hashlib
import inspect
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bancada import ceilings, cells, isolate, machine, rows, stale
from bancada._suites import AA_SIZES
from bancada.compiled import CompileSuite
from bancada.heartbeat import Current
from bancada.lock import busy, held
from bancada.parent import Parent, job_environment
from bancada.price import FIELD as PRICE
from bancada.ranks import RanksSuite
from bancada.ranks.pool import Pools
from bancada.rows import PARTS, ROWS
from bancada.settings import Job, Settings
from bancada.suite import AnySuite, Device
from bancada.sweep import Planned
from bancada.training import TrainingSuite
from bancada.whole import write_whole

AA_SUITE = "harness.aa"
PLAN, CATALOGUE, LOG = "plan.json", "catalogue.json", "children.log"
Tick = Callable[[Current | None], None]


@dataclass(frozen=True)
class Campaign:
    """What to measure, on what, and how.

    Args:
        name: the sweep's.
        planned: the cases.
        suites: every registered suite.
        device: what to measure on.
        settings: how hard.
        command: the command line, for the head of the run.
        root: the checkout.
        extra: further `module:function` registrations of suites.
        aa: whether to race identical contenders too.
        left_out: what a compile run has ruled out, in words.
        price: of a device-hour, in whatever currency; what the report reckons costs with.
    """

    name: str
    planned: Sequence[Planned]
    suites: Mapping[str, AnySuite]
    device: Device
    settings: Settings
    command: str
    root: Path
    extra: tuple[str, ...] = ()
    aa: bool = True
    left_out: tuple[str, ...] = ()
    price: float | None = None

    @property
    def timed(self) -> bool:
        """Whether anything is timed: compiling asks for no ceilings and no race of identical contenders."""
        return any(not isinstance(one.suite, CompileSuite) for one in self.planned)

    @functools.cached_property
    def key(self) -> str:
        """What makes two runs the same run: an interrupted one that was asked for the same is gone on with."""
        plan = [[one.suite.id, one.case.id, *one.contenders, one.budget_s, one.seeds] for one in self.planned]
        facts = [plan, dataclasses.asdict(self.device), dataclasses.asdict(self.settings)]
        return hashlib.sha256(json.dumps(facts, sort_keys=True, default=list).encode()).hexdigest()[:16]

    @functools.cached_property
    def keys(self) -> dict[str, str]:
        """What each contender's cells depend on, by `suite:contender`."""
        return stale.keys(self.planned, self.device, self.root, self.extra)

    @functools.cached_property
    def head(self) -> rows.Row:
        """What the run's head says of the machine."""
        return {"device": self.device.type, "device_name": self.device.name} | machine.environment(self.device)

    def changed(self, run_dir: Path) -> list[tuple[str, str]]:
        """(suite, case) of the cases of an earlier start of this run that must be measured again: see `stale`."""
        return stale.changed(self.planned, _plan(run_dir / PLAN).get("keys", {}), self.keys)


def folder_for(campaign: Campaign, runs: Path, fresh: bool) -> tuple[Path, bool]:
    """The run folder, and whether it is gone on with: the newest interrupted one of the same key, or a new one.

    One of which every case would be measured again has nothing to go on with.
    """
    if not fresh:
        for plan in sorted(runs.glob(f"*/{PLAN}"), reverse=True):
            if _plan(plan).get("key") != campaign.key or finished(plan.parent) or busy(plan.parent):
                continue
            if len(campaign.changed(plan.parent)) < len(campaign.planned):
                return plan.parent, True
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    name = f"{stamp}-{campaign.name}"
    count = 1
    while (runs / name).exists():
        count += 1
        name = f"{stamp}-{campaign.name}-{count}"
    return runs / name, False


def _plan(path: Path) -> dict[str, Any]:
    """A run's plan; empty where there is none that can be read."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def finished(run_dir: Path) -> bool:
    """Whether a run has come to its end."""
    return any(row["kind"] == "end" for row in rows.read(run_dir / ROWS).rows)


def execute(campaign: Campaign, run_dir: Path, tick: Tick) -> Path:
    """Measures everything that has no row yet; the run folder. ValueError where another sweep is at work in it."""
    run_dir.mkdir(parents=True, exist_ok=True)
    with held(run_dir):
        return _execute(campaign, run_dir, tick)


def _execute(campaign: Campaign, run_dir: Path, tick: Tick) -> Path:
    began = time.monotonic()
    stamp = _stamp(campaign, run_dir.name)
    resumed = (run_dir / PLAN).exists()
    _head(campaign, run_dir, stamp)
    job = Job(run_dir, (), campaign.device, campaign.settings, stamp, extra_suites=campaign.extra)
    parent, pools = Parent(campaign.root, run_dir / LOG, tick), Pools(campaign.root, run_dir / LOG, tick)
    before = _ceilings(campaign, job, "before") if campaign.timed else ceilings.Ceilings({}, {})
    job = dataclasses.replace(job, matmul_ceiling=before.matmul, copy_ceiling=before.copy)
    for family in dict.fromkeys(one.suite.family for one in campaign.planned):
        mine = [one for one in campaign.planned if one.suite.family == family]
        isolated = [one for one in mine if campaign.settings.isolate == "process" and one.suite.kind == "kernel"]
        alone = [one for one in mine if not isinstance(one.suite, RanksSuite) and one not in isolated]
        isolate.run(parent, job, isolated)
        if alone:
            parent.run(dataclasses.replace(job, cases=tuple(one.job() for one in alone)), alone)
        pools.run(job, mine)
    if campaign.timed:
        if campaign.aa and AA_SUITE in campaign.suites:
            _aa(campaign, job, parent)
        _ceilings(campaign, job, "after")
    _foot(run_dir, time.monotonic() - began, parent.start_s + pools.start_s, resumed)
    return run_dir


def _foot(run_dir: Path, wall_s: float, start_s: float, resumed: bool) -> None:
    """Writes the run's end, with the seconds of its parts; `resumed` where they hold more than the last start's."""
    foot = cells.common("end", run_dir.name) | {"wall_s": wall_s, "part.start_s": start_s, "resumed": resumed}
    rows.append(run_dir / ROWS, [foot | {f"part.{name}_s": seconds for name, seconds in _parts(run_dir).items()}])


def overhead(foot: Mapping[str, Any]) -> float | None:
    """What the harness itself costs: wall time less oracles, over process starts, screening, races and training."""
    counted = ("start", "screen", "race", "tuning", "training", "compile")
    base = sum(float(foot.get(f"part.{name}_s", 0.0)) for name in counted)
    oracle = float(foot.get("part.oracle_s", 0.0))
    return (foot["wall_s"] - oracle) / base if base and not foot.get("resumed") else None


def _stamp(campaign: Campaign, run: str) -> dict[str, str | int]:
    involved = " ".join(f"{name}={found}" for name, found in machine.versions().items())
    return {"run": run, "driver": machine.driver(), "commit": machine.commit(campaign.root), "versions": involved}


def _head(campaign: Campaign, run_dir: Path, stamp: Mapping[str, Any]) -> None:
    """Writes plan, catalogue and the run's head: once, and again where code, libraries or the price are others now."""
    started = (run_dir / PLAN).exists()
    priced = campaign.price is None or campaign.price == rows.head(rows.read(run_dir / ROWS).rows).get(PRICE)
    same = _plan(run_dir / PLAN).get("keys") == campaign.keys
    if started and same and priced:
        return
    if started and not same:
        isolate.forget(run_dir)
        stale.set_aside(run_dir, campaign.changed(run_dir))
    told = json.dumps(catalogue(campaign.planned), ensure_ascii=False, indent=1)
    (run_dir / CATALOGUE).write_text(told, encoding="utf-8")
    head = cells.common("run", run_dir.name) | campaign.head
    head |= {"sweep": campaign.name, "command": campaign.command, "commit": stamp["commit"]}
    if campaign.price is not None:
        head[PRICE] = campaign.price
    rows.append(run_dir / ROWS, [head])
    listed = [
        {
            "suite": one.suite.id,
            "family": one.suite.family,
            "case": one.case.id,
            "axes": dict(one.case.axes),
            "contenders": list(one.contenders),
        }
        for one in campaign.planned
    ]
    plan = {"sweep": campaign.name, "key": campaign.key, "command": campaign.command, "cells": listed}
    text = json.dumps(plan | {"keys": campaign.keys}, indent=1)
    write_whole(run_dir / PLAN, text.encode())  # one cut short by a kill would end the run


def catalogue(planned: Sequence[Planned]) -> dict[str, Any]:
    """What the report needs to know of the suites and techniques, so that it renders where they are not installed."""
    suites = {one.suite.id: one.suite for one in planned}.values()
    techniques = {technique.id: dataclasses.asdict(technique) for suite in suites for technique in suite.techniques}
    shown = ("id", "label", "technique", "origin", "reference", "precision", "backend", "compiles")
    return {
        "techniques": list(techniques.values()),
        "suites": [
            {
                "id": suite.id,
                "kind": suite.kind,
                "title": suite.title,
                "family": suite.family,
                "question": suite.question,
                "x_axis": suite.x_axis,
                "axes": [{"name": axis.name, "unit": axis.unit, "scale": axis.scale} for axis in suite.axes],
                "contenders": [{name: getattr(contender, name) for name in shown} for contender in suite.contenders],
                "metrics": [dataclasses.asdict(metric) for metric in suite.metrics],
                "weighs": list(suite.weighs),
                "spaces": _spaces(suite),
                "work": _counted(suite),
                **_configurations(suite),
            }
            for suite in suites
        ],
    }


def _counted(suite: AnySuite) -> str:
    """What the suite's work function counts: the first paragraph of its docstring; '' where it has none."""
    text = inspect.getdoc(suite.work) if inspect.isfunction(suite.work) else None
    return " ".join((text or "").split("\n\n")[0].split())


def _spaces(suite: AnySuite) -> dict[str, dict[str, str]]:
    """What tuning may try, by contender and hyperparameter; empty for a suite that trains nothing."""
    if not isinstance(suite, TrainingSuite):
        return {}
    return {contender.id: {name: str(what) for name, what in contender.space.items()} for contender in suite.contenders}


def _configurations(suite: AnySuite) -> dict[str, Any]:
    """Which axes a compile suite lets choose, and what its instructions are counted for."""
    if not isinstance(suite, CompileSuite):
        return {}
    return {"configuration": list(suite.configuration), "unit": suite.unit}


def _ceilings(campaign: Campaign, job: Job, when: str) -> ceilings.Ceilings:
    """Measures and writes the ceilings, unless an earlier start of this run has."""
    path = job.run_dir / ROWS
    had = [row for row in rows.read(path).rows if row["kind"] == "ceiling" and row["when"] == when]
    if not had:
        named = {ceilings.dtype_of(one.case) for one in campaign.planned} & set(ceilings.TORCH_DTYPES)
        dtypes = sorted({dtype for name in named or {"fp32"} for dtype in ceilings.counted(name)})
        found = ceilings.in_a_process_of_its_own(campaign.device, tuple(dtypes), job_environment(job))
        figures = [("matmul", found.matmul), ("copy", found.copy)]
        had = [
            cells.ceiling(name, dtype, when, value, campaign.device, job.run_dir.name)
            for name, values in figures
            for dtype, value in values.items()
        ]
        rows.append(path, had)
    by_name: dict[str, dict[str, float]] = {"matmul": {}, "copy": {}}
    for row in had:
        by_name[row["name"]][row["dtype"]] = float(row["value"])
    return ceilings.Ceilings(by_name["matmul"], by_name["copy"])


def _aa(campaign: Campaign, job: Job, parent: Parent) -> None:
    """A small race of identical contenders, through the same frame as everything else."""
    suite = campaign.suites[AA_SUITE]
    names = tuple(contender.id for contender in suite.contenders)
    planned = [Planned(suite, suite.case(operation=name, size=size), names, 6.0) for name, size in AA_SIZES.items()]
    parent.run(dataclasses.replace(job, cases=tuple(one.job() for one in planned), identical=True), planned)


def _parts(run_dir: Path) -> dict[str, float]:
    """Seconds by part of the work, over all children of the run."""
    total: dict[str, float] = {}
    path = run_dir / PARTS
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        with contextlib.suppress(ValueError):  # a line cut short by a kill costs its seconds alone
            for name, seconds in json.loads(line).items():
                total[name] = total.get(name, 0.0) + seconds
    return total
