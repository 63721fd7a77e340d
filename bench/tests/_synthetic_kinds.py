"""Made-up runs of training suites and of suites of ranks, in the shape of real rows; `Effects` turn the outcome."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

from bancada import rows as schema

Row = dict[str, Any]
WHEN = "2026-01-05T10:00:00+00:00"
DEVICE = {"device": "cpu", "device_name": "Intel(R) Xeon(R) 6975P-C"}
COMMON = {"schema": 1, "run": "kinds", "time": WHEN}
TRAINING, RANKS, QUALITY = "optimizers.convergence", "parallelism.training", "compression.quality"
UPDATES, SEEDS, START, TARGET = 200, 3, 7.6, 4.6


@dataclass(frozen=True)
class Learner:
    """Where a contender's loss ends, how long an update takes, and what it keeps."""

    id: str
    label: str
    origin: str
    final: float
    update_s: float
    state: int
    reference: bool = False


LEARNERS = (
    Learner("torch-adamw", "torch AdamW, fused", "peer", 4.50, 0.021, 8, reference=True),
    Learner("adamw", "AdamW", "bancada", 4.50, 0.0205, 8),
    Learner("muon", "Muon", "bancada", 4.21, 0.029, 5),
    Learner("torch-muon", "torch Muon", "peer", 4.22, 0.031, 5),
    Learner("lion", "Lion", "bancada", 4.56, 0.019, 4),
    Learner("sgd", "SGD", "bancada", 5.60, 0.018, 4),
)
WAYS = (
    ("ddp", "DDP", "peer", "data-parallel", 3, 2.0, 1.00),
    ("data-parallel", "data parallel", "bancada", "data-parallel", 3, 2.0, 0.98),
    ("fsdp2", "FSDP2", "peer", "zero-3", 1, 3.0, 1.30),
    ("zero-3", "ZeRO, stage 3", "bancada", "zero-3", 1, 3.0, 1.42),
    ("zero-1", "ZeRO, stage 1", "bancada", "zero-1", 2, 2.0, 1.05),
)


@dataclass(frozen=True)
class Effects:
    """What differs from the usual: the final loss by contender, whose run failed, who reached another answer."""

    final: Mapping[str, float] = field(default_factory=dict)
    step: Mapping[str, float] = field(default_factory=dict)
    diverged: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    half: float = 0.02  # half-width of the intervals over the seeds


def _cell(suite: str, family: str, case: str, axes: Mapping[str, Any], who: Mapping[str, Any]) -> Row:
    row_id = f"{suite}/{case}/{who['contender']}"
    rest = {"threads": 2, "driver": "", "commit": "0123abc", "versions": "torch 2.13.0", "status": "ok", "reason": ""}
    row = COMMON | DEVICE | {"kind": "cell", "row_id": row_id, "suite": suite, "family": family, "case": case} | rest
    command = f"python -m bancada sweep --suite {suite}"
    return row | dict(who) | {"command": command} | {f"axis.{name}": value for name, value in axes.items()}


def _pair(suite: str, case: str, a: str, b: str, ratio: float, noise: float = 0.02) -> Row:
    low, high = ratio * (1 - noise), ratio * (1 + noise)
    verdict = "faster" if high < 0.99 else "slower" if low > 1.01 else "too close to call"
    fields = {"kind": "pair", "suite": suite, "case": case, "a": a, "b": b, "ratio": ratio, "rounds": 30}
    return COMMON | fields | {"low": low, "high": high, "verdict": verdict, "device": "cpu"}


def training_rows(effects: Effects) -> Iterator[Row]:
    """One case of a training suite: curves, cells, pairs of times, contrasts of outcomes."""
    rng, case = random.Random(1), f"gpt-b16-u{UPDATES}"
    axes = {"model": "gpt-small", "batch_size": 16, "updates": UPDATES}
    finals: dict[str, list[float]] = {}
    for one in LEARNERS:
        who = {"contender": one.id, "label": one.label, "origin": one.origin, "technique": one.id.split("-")[-1]}
        cell = _cell(TRAINING, "optimizers", case, axes, who | {"reference": one.reference})
        if one.id in effects.diverged:
            yield cell | {"status": "incorrect", "reason": "diverged at update 37 (seed 1)"}
            continue
        true = effects.final.get(one.id, one.final)
        runs = [true + rng.gauss(0, 0.012) for _ in range(SEEDS)]
        finals[one.id] = runs
        reached = []
        for seed, final in enumerate(runs):
            at = [UPDATES * i // 10 for i in range(11)]
            losses = [final + (START - final) * math.exp(-5.0 * u / UPDATES) for u in at]
            updates = list(range(2, UPDATES + 1, 2))
            yield COMMON | {
                "kind": "curve", "suite": TRAINING, "case": case, "contender": one.id, "seed": seed, "status": "ok",
                "reason": "", "device": "cpu", "updates": updates, "seconds": [u * one.update_s for u in updates],
                "train": [START - (START - final) * u / UPDATES for u in updates],
                "evaluated": at, "metric.loss": losses,
            }  # fmt: skip
            reached.append(next((u for u, loss in zip(at, losses, strict=True) if loss <= TARGET), None))
        hits = [u for u in reached if u is not None]
        measures: Row = {
            "measure.final.loss": sum(runs) / SEEDS, "measure.final.loss.low": min(runs),
            "measure.final.loss.high": max(runs), "measure.start.loss": START, "measure.updates": UPDATES,
            "measure.target": TARGET, "measure.seeds": SEEDS, "measure.seeds_on_target": len(hits),
            "measure.tuning_trials": 4, "measure.tuning_s": 9.1, "hyper.lr": 0.003,
            "measure.bytes.parameters": 6_000_000, "measure.bytes.optimizer": one.state * 1_500_000,
        }  # fmt: skip
        if len(hits) == SEEDS:
            measures |= {"measure.updates_to_target": sum(hits) / SEEDS}
            measures |= {"measure.seconds_to_target": sum(hits) / SEEDS * one.update_s}
        timing = {"time_s": one.update_s, "time_low_s": one.update_s * 0.98, "time_high_s": one.update_s * 1.02}
        yield cell | timing | measures | {"rounds": 120, "loops": 1, "peak_bytes": 40_000_000 + one.state * 1_500_000}
    update = {one.id: one.update_s for one in LEARNERS}
    for a, b in combinations(finals, 2):
        yield _pair(TRAINING, case, a, b, update[a] / update[b])
        middle = sum(x - y for x, y in zip(finals[a], finals[b], strict=True)) / SEEDS
        half = effects.half
        verdict = "better" if middle < -half else "worse" if middle > half else "too close to call"
        yield COMMON | {
            "kind": "contrast", "suite": TRAINING, "case": case, "a": a, "b": b, "measure": "final.loss",
            "difference": middle, "low": middle - half, "high": middle + half, "verdict": verdict, "seeds": SEEDS,
            "device": "cpu",
        }  # fmt: skip


def ranks_rows(effects: Effects) -> Iterator[Row]:
    """Two cases of a suite of ranks, on 2 and on 4."""
    weights = 3_200_000
    for size in (2, 4):
        case, axes = f"w{size}-fp32", {"world_size": size, "dtype": "fp32"}
        ok = []
        for name, label, origin, technique, sharded, traffic, factor in WAYS:
            who = {"contender": name, "label": label, "origin": origin, "technique": technique}
            cell = _cell(RANKS, "parallelism", case, axes, who | {"reference": name == "ddp"})
            cell |= {"note.ranks": f"{size} ranks share 2 cores: not scaling"}
            if name in effects.wrong:
                yield cell | {"status": "incorrect", "reason": "weight: 3.1e-02 of its norm, allowed 2e-05"}
                continue
            ok.append(name)
            step = 0.05 * factor * effects.step.get(name, 1.0)
            kinds = ("parameters", "gradients", "optimizer")
            split = {kind: weights * (2 if kind == "optimizer" else 1) for kind in kinds}
            kept = {kind: number // (size if i >= sharded - 1 else 1) for i, (kind, number) in enumerate(split.items())}
            sent = {"all_reduce": weights} if traffic == 2.0 else {
                "all_gather": 2 * weights, "reduce_scatter": weights,
            }  # fmt: skip
            cell |= {f"measure.bytes.{kind}": number for kind, number in kept.items()}
            cell |= {f"measure.comm.{kind}.bytes": number for kind, number in sent.items()}
            cell |= {f"measure.comm.{kind}.calls": 4 for kind in sent} | {"measure.comm.bytes": sum(sent.values())}
            cell |= {"measure.comm.all_ranks.bytes": size * sum(sent.values())}
            cell |= {f"measure.rank{rank}.peak_bytes": 30_000_000 + rank for rank in range(size)}
            timing = {"time_s": step, "time_low_s": step * 0.97, "time_high_s": step * 1.03, "rounds": 20, "loops": 1}
            yield cell | timing | {"peak_bytes": 30_000_000 + size, "error_rel": 3e-7, "error_max": 1e-6}
        steps = {name: factor * effects.step.get(name, 1.0) for name, *_, factor in WAYS}
        for a, b in combinations(ok, 2):
            yield _pair(RANKS, case, a, b, steps[a] / steps[b])


def quality_rows() -> Iterator[Row]:
    """One case of a kernel suite with figures of its own."""
    case, axes = "tiny-lm", {"workload": "tiny-lm"}
    for name, origin, kl, size in (
        ("dense", "peer", 0.0, 4_000_000), ("int8", "bancada", 2e-5, 1_000_000), ("int4", "bancada", 3e-3, 500_000),
    ):  # fmt: skip
        who = {"contender": name, "label": name, "origin": origin, "technique": name, "reference": name == "dense"}
        cell = _cell(QUALITY, "compression", case, axes, who)
        timing = {"time_s": 0.01, "time_low_s": 0.0098, "time_high_s": 0.0102, "rounds": 20, "loops": 1}
        yield cell | timing | {"peak_bytes": 100_000, "measure.kl": kl, "measure.bytes": size}


def make_rows(effects: Effects) -> Iterator[Row]:
    """A whole run."""
    yield COMMON | DEVICE | {
        "kind": "run", "sweep": "kinds", "command": "python -m bancada sweep kinds", "commit": "0123abc",
        "env.cores": 2, "env.threads": 2, "env.memory_bytes": 8 * 2**30, "version.torch": "2.13.0",
    }  # fmt: skip
    yield from training_rows(effects)
    yield from ranks_rows(effects)
    yield from quality_rows()
    yield COMMON | {"kind": "end", "wall_s": 93.0}


def _contender(one: tuple[str, str, str, str, bool]) -> Row:
    names = ("id", "label", "origin", "technique", "reference")
    rest = {"precision": "fp32", "backend": "", "compiles": False}
    return dict(zip(names, one, strict=True)) | rest


def catalogue() -> Row:
    """What the report knows of the two suites."""
    loss = {"name": "loss", "title": "loss", "unit": "nats a token", "better": "lower", "scale": "linear"}
    learners = [_contender((x.id, x.label, x.origin, x.id.split("-")[-1], x.reference)) for x in LEARNERS]
    ways = [_contender((name, label, origin, technique, name == "ddp")) for name, label, origin, technique, *_ in WAYS]
    shrunk = [
        _contender((name, name, "peer" if name == "dense" else "bancada", name, name == "dense"))
        for name in ("dense", "int8", "int4")
    ]
    figures = [
        {"name": "kl", "title": "KL to the dense model", "unit": "nats", "better": "lower", "scale": "log"},
        {"name": "bytes", "title": "bytes of the model", "unit": "bytes", "better": "lower", "scale": "log"},
    ]
    axes = {
        TRAINING: [("model", "category"), ("batch_size", "log"), ("updates", "log")],
        RANKS: [("world_size", "log"), ("dtype", "category")],
        QUALITY: [("workload", "category")],
    }
    told = {
        TRAINING: (
            "training",
            "optimizers",
            "Convergence",
            "Which learns most?",
            "updates",
            learners,
            [loss],
        ),
        RANKS: ("ranks", "parallelism", "Training on ranks", "What does a rank keep?", "world_size", ways, []),
        QUALITY: ("kernel", "compression", "Quality", "What is lost?", "workload", shrunk, figures),
    }
    suites = [
        {
            "id": suite, "kind": kind, "family": family, "title": title, "question": question, "x_axis": x_axis,
            "axes": [{"name": name, "unit": "", "scale": scale} for name, scale in axes[suite]],
            "contenders": contenders, "metrics": metrics, "spaces": {},
        }
        for suite, (kind, family, title, question, x_axis, contenders, metrics) in told.items()
    ]  # fmt: skip
    return {"techniques": [], "suites": suites}


def write(folder: Path, effects: Effects | None = None) -> Path:
    """A run folder as a sweep leaves it."""
    folder.mkdir(parents=True, exist_ok=True)
    made = list(make_rows(effects or Effects()))
    schema.append(folder / "rows.jsonl", made)
    planned: dict[tuple[str, str], Row] = {}
    for row in made:
        if row["kind"] == "cell":
            axes = {name[5:]: value for name, value in row.items() if name.startswith("axis.")}
            place = {"suite": row["suite"], "family": row["family"], "case": row["case"], "axes": axes}
            planned.setdefault((row["suite"], row["case"]), place | {"contenders": []})["contenders"].append(
                row["contender"]
            )
    (folder / "plan.json").write_text(json.dumps({"sweep": "kinds", "cells": list(planned.values())}))
    (folder / "catalogue.json").write_text(json.dumps(catalogue()))
    return folder
