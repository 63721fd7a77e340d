"""Made-up runs in the shape of real ones, so that the report and its verdicts are tested without measuring.

The times follow a small cost model (an overhead, the work over a rate, a memory term for whoever
writes the scores) with seeded noise; `speed` and `drop` turn the outcome for a test.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from pathlib import Path
from typing import Any

from bancada import rows as schema

Row = dict[str, Any]
WHEN = "2026-01-05T10:00:00+00:00"
AXES = [
    {"name": "batch", "unit": "", "scale": "log"},
    {"name": "heads", "unit": "", "scale": "log"},
    {"name": "kv_heads", "unit": "", "scale": "log"},
    {"name": "seq_len", "unit": "tokens", "scale": "log"},
    {"name": "head_dim", "unit": "", "scale": "log"},
    {"name": "dtype", "unit": "", "scale": "category"},
    {"name": "causal", "unit": "", "scale": "category"},
]


@dataclass(frozen=True)
class Made:
    """A contender of the model: a fixed overhead, a rate in FLOP/s, and whether it writes the scores to memory."""

    id: str
    label: str
    origin: str
    technique: str
    overhead: float
    rate: float
    scores: bool = False
    reference: bool = False
    compiles: bool = False
    reason: str = ""


CONTENDERS = (
    Made("eager", "eager attention", "peer", "exact", 6e-5, 60e9, scores=True, reference=True),
    Made("flash-tiled", "flash (tiled)", "bancada", "flash", 2.6e-4, 95e9),
    Made(
        "flash-triton",
        "flash (Triton)",
        "bancada",
        "flash",
        1e-5,
        1e12,
        reason="needs a CUDA GPU; this machine has none",
    ),
    Made("torch-sdpa", "torch SDPA", "peer", "flash", 3e-5, 130e9),
    Made("flex", "FlexAttention", "peer", "flex", 1.9e-4, 85e9, compiles=True),
    Made("eager-compiled", "eager, compiled", "peer", "exact", 9e-5, 70e9, scores=True, compiles=True),
)
TECHNIQUES = json.loads(Path(__file__).with_name("_synthetic_cards.json").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Recipe:
    """What to make up: the grid, who runs how fast (`speed` scales a contender's time), and what fails."""

    suites: tuple[str, ...] = ("attention.forward", "attention.training")
    grid: Mapping[str, Sequence[Any]] = field(
        default_factory=lambda: {
            "batch": [1],
            "heads": [8],
            "kv_heads": [8],
            "seq_len": [128, 256, 512, 1024, 2048, 4096, 8192],
            "head_dim": [64],
            "dtype": ["fp32", "bf16"],
            "causal": [True, False],
        }
    )
    cases: Sequence[Mapping[str, Any]] = ()  # in place of the grid
    contenders: tuple[Made, ...] = CONTENDERS
    speed: Mapping[str, float] = field(default_factory=dict)
    failures: bool = True
    all_unsupported: tuple[str, ...] = ()
    seed: int = 0
    run: str = "demo"
    device_name: str = "Intel(R) Xeon(R) 6975P-C"
    end: bool = True
    drop: int = 0  # planned cases at the end which the sweep never reached
    noise: float = 0.012


def case_id(axes: Mapping[str, Any]) -> str:
    causal = "causal" if axes["causal"] else "full"
    kv = f"-kv{axes['kv_heads']}" if axes["kv_heads"] not in (0, axes["heads"]) else ""
    return f"b{axes['batch']}-h{axes['heads']}{kv}-s{axes['seq_len']}-d{axes['head_dim']}-{causal}-{axes['dtype']}"


def work(suite: str, axes: Mapping[str, Any]) -> tuple[float, float]:
    """FLOPs and least bytes of one call."""
    length = axes["seq_len"]
    pairs = length * (length + 1) / 2 if axes["causal"] else float(length * length)
    size = 4 if axes["dtype"] == "fp32" else 2
    flops = 4.0 * axes["batch"] * axes["heads"] * axes["head_dim"] * pairs
    tensors = 4.0 * axes["batch"] * axes["heads"] * length * axes["head_dim"] * size
    return (flops * 3.5, tensors * 2) if suite.endswith("training") else (flops, tensors)


def failure(recipe: Recipe, suite: str, made: Made, axes: Mapping[str, Any]) -> tuple[str, str] | None:
    if suite in recipe.all_unsupported:
        return "unsupported", "needs a CUDA GPU; this machine has none"
    if made.reason:
        return "unsupported", made.reason
    if not recipe.failures:
        return None
    length, training = axes["seq_len"], suite.endswith("training")
    if made.id == "flex" and training:
        return "unsupported", "FlexAttention has no backward on a CPU"
    if made.id == "eager-compiled" and length >= 8192 and training:
        return "timeout", "no answer in 60 s"
    if made.id == "eager" and length >= 8192 and training and not axes["causal"]:
        return "out_of_memory", "tried to allocate 2.00 GiB; the limit is 6.00 GiB"
    if made.id == "flex" and length == 128 and axes["dtype"] == "bf16":
        return "incorrect", "out: |x - ref| = 0.31, allowed 0.0078"
    if made.id == "flex" and length == 256 and axes["dtype"] == "bf16":
        return "crashed", "signal 11 (SIGSEGV) in its first call"
    return None


def seconds(suite: str, made: Made, axes: Mapping[str, Any]) -> float:
    flops, _ = work(suite, axes)
    if made.scores and axes["causal"]:
        flops *= 2  # whoever writes all the scores computes the masked ones too
    scores = axes["batch"] * axes["heads"] * float(axes["seq_len"]) ** 2 * 4
    slow = 2.6 if axes["dtype"] == "bf16" and made.id == "flash-tiled" else 1.0
    return made.overhead + slow * flops / made.rate + (scores * 3 / 9e9 if made.scores else 0.0)


def _cell(recipe: Recipe, suite: str, axes: Mapping[str, Any], made: Made) -> Row:
    case = case_id(axes)
    return {
        "schema": 1,
        "kind": "cell",
        "run": recipe.run,
        "time": WHEN,
        "row_id": f"{suite}/{case}/{made.id}",
        "suite": suite,
        "family": "attention",
        "case": case,
        "contender": made.id,
        "technique": made.technique,
        "origin": made.origin,
        "status": "ok",
        "reason": "",
        "device": "cpu",
        "device_name": recipe.device_name,
        "threads": 2,
        "driver": "",
        "commit": "0123abc",
        "versions": "torch 2.13.0, triton 3.7.1",
        "label": made.label,
        "reference": made.reference,
        "command": f"python -m bancada sweep cpu --suite {suite} --case {case} --contender {made.id}",
        "precision": "inputs' dtype, fp32 accumulation",
        "backend": "math" if made.scores else "",
        **{f"axis.{name}": value for name, value in axes.items()},
    }


def _measured(recipe: Recipe, row: Row, made: Made, axes: Mapping[str, Any], rng: random.Random) -> list[float]:
    """Fills in the measures of an `ok` row; gives its samples, in order."""
    suite = row["suite"]
    true = seconds(suite, made, axes) * recipe.speed.get(made.id, 1.0)
    samples = [true * math.exp(rng.gauss(0.0, recipe.noise)) for _ in range(30)]
    middle = sorted(samples)[15]
    flops, moved = work(suite, axes)
    eps = 1.2e-7 if axes["dtype"] == "fp32" else 7.8e-3
    scores = axes["batch"] * axes["heads"] * axes["seq_len"] ** 2 * 4
    error = eps * rng.uniform(0.8, 1.6) * (1.6 if made.scores else 1.0)
    row |= {
        "time_s": middle,
        "time_low_s": middle * (1 - recipe.noise / 3),
        "time_high_s": middle * (1 + recipe.noise / 3),
        "rounds": 30,
        "loops": max(1, int(0.005 / middle)),
        "samples": samples,
        "build_s": 0.001,
        "first_call_s": (4.2 if made.compiles else 0.0) + middle * 1.4,
        "host_peak_bytes": 700_000_000 + int(scores),
        "peak_bytes": int(
            scores * 2.1 if made.scores else axes["batch"] * axes["heads"] * axes["seq_len"] * 64 * 4 * 1.3
        ),
        "flops": flops,
        "bytes": moved,
        "flops_per_s": flops / middle,
        "bytes_per_s": moved / middle,
        "compute_share": flops / middle / 150e9,
        "error_max": error,
        "error_rel": error / 3,
        "error.out": error,
        "error_limit_share": 0.4 * rng.uniform(0.5, 1.2),
    }
    if suite.endswith("training"):
        row |= {
            "grad_error_max": error * 4,
            "grad_error_rel": error * 1.3,
            "error.dq": error * 4,
            "error.dk": error * 3,
        }
    return samples


def pair(base: Row, a: str, b: str, first: Sequence[float], second: Sequence[float], noise: float) -> Row:
    """The pair row of two contenders' samples, round by round."""
    logs = sorted(math.log(x / y) for x, y in zip(first, second, strict=True))
    middle, half = logs[len(logs) // 2], noise * 2 / math.sqrt(len(logs)) * 1.25
    low, high = math.exp(middle - half), math.exp(middle + half)
    verdict = "faster" if high < 0.99 else "slower" if low > 1.01 else "too close to call"
    return {
        "schema": 1,
        "kind": "pair",
        "run": base["run"],
        "time": WHEN,
        "suite": base["suite"],
        "case": base["case"],
        "a": a,
        "b": b,
        "ratio": math.exp(middle),
        "low": low,
        "high": high,
        "verdict": verdict,
        "rounds": len(logs),
        "device": "cpu",
    }


def grid(recipe: Recipe) -> list[dict[str, Any]]:
    if recipe.cases:
        return [dict(axes) for axes in recipe.cases]
    return [dict(zip(recipe.grid, values, strict=True)) for values in product(*recipe.grid.values())]


def ragged(run: str = "ragged") -> Recipe:
    """As sweeps really are: a line over the lengths, and single cases beside it."""
    usual = {"batch": 1, "heads": 8, "kv_heads": 0, "seq_len": 2048, "head_dim": 64, "dtype": "fp32", "causal": True}
    line = [usual | {"seq_len": length} for length in (256, 512, 1024, 2048, 4096)]
    beside = [{"seq_len": 512, "causal": False}, {"causal": False}, {"kv_heads": 2, "head_dim": 128}, {"dtype": "bf16"}]
    return Recipe(cases=line + [usual | other for other in beside], run=run, noise=0.04)


def make_rows(recipe: Recipe) -> Iterator[Row]:
    rng = random.Random(recipe.seed)
    common = {"schema": 1, "run": recipe.run, "time": WHEN}
    yield common | {
        "kind": "run",
        "sweep": "demo",
        "command": "python -m bancada sweep demo",
        "commit": "0123abc",
        "device": "cpu",
        "device_name": recipe.device_name,
        "env.cpu_model": "Xeon 6975P",
        "env.cores": 2,
        "env.threads": 2,
        "env.memory_bytes": 8 * 2**30,
        "env.os": "Linux 6.1",
        "env.python": "3.11.9",
        "version.torch": "2.13.0",
        "version.triton": "3.7.1",
        "version.bancada": "0.1.0",
    }
    ceilings = [("matmul", "fp32", 150e9), ("matmul", "bf16", 220e9), ("copy", "fp32", 14e9), ("copy", "bf16", 14e9)]
    for when, drift in (("before", 1.0), ("after", 0.985)):
        for name, dtype, value in ceilings:
            yield common | {
                "kind": "ceiling",
                "name": name,
                "dtype": dtype,
                "when": when,
                "value": value * drift,
                "device": "cpu",
            }
    cases = grid(recipe)
    for suite in recipe.suites:
        for axes in cases[: len(cases) - recipe.drop if suite == recipe.suites[-1] else None]:
            samples: dict[str, list[float]] = {}
            base: Row = {}
            for made in recipe.contenders:
                base = _cell(recipe, suite, axes, made)
                if (failed := failure(recipe, suite, made, axes)) is not None:
                    base["status"], base["reason"] = failed
                else:
                    samples[made.id] = _measured(recipe, base, made, axes, rng)
                yield base
            for a, b in combinations(sorted(samples), 2):
                yield pair(base, a, b, samples[a], samples[b], recipe.noise)
    yield common | {
        "kind": "aa",
        "suite": recipe.suites[0],
        "case": "aa",
        "comparisons": 336,
        "false_verdicts": 1,
        "device": "cpu",
    }
    if recipe.end:
        yield common | {
            "kind": "end",
            "wall_s": 412.0,
            "part.start_s": 14.0,
            "part.screen_s": 96.0,
            "part.race_s": 270.0,
            "part.oracle_s": 31.0,
        }


def plan(recipe: Recipe) -> dict[str, Any]:
    ids = [made.id for made in recipe.contenders]
    cells = [
        {"suite": suite, "family": "attention", "case": case_id(axes), "axes": axes, "contenders": ids}
        for suite in recipe.suites
        for axes in grid(recipe)
    ]
    return {"sweep": "demo", "cells": cells}


def catalogue(recipe: Recipe) -> dict[str, Any]:
    contenders = [
        {
            "id": made.id,
            "label": made.label,
            "technique": made.technique,
            "origin": made.origin,
            "reference": made.reference,
            "precision": "inputs' dtype, fp32 accumulation",
            "backend": "math" if made.scores else "",
            "compiles": made.compiles,
        }
        for made in recipe.contenders
    ]
    questions = {
        "attention.forward": (
            "Attention, forward",
            "Which way of computing attention is fastest, and what does it keep in memory?",
        ),
        "attention.training": ("Attention, forward and backward", "Does the order change when gradients are needed?"),
    }
    suites = [
        {
            "id": suite,
            "title": questions.get(suite, (suite, ""))[0],
            "question": questions.get(suite, ("", ""))[1],
            "family": "attention",
            "x_axis": "seq_len",
            "axes": AXES,
            "contenders": contenders,
        }
        for suite in recipe.suites
    ]
    return {"techniques": TECHNIQUES, "suites": suites}


def write(folder: Path, recipe: Recipe) -> Path:
    """A run folder as a sweep leaves it."""
    folder.mkdir(parents=True, exist_ok=True)
    schema.append(folder / "rows.jsonl", make_rows(recipe))
    (folder / "plan.json").write_text(json.dumps(plan(recipe)))
    (folder / "catalogue.json").write_text(json.dumps(catalogue(recipe)))
    return folder


def large(run: str = "large") -> Recipe:
    """5,040 planned cells."""
    wide = {
        "batch": [1, 4],
        "heads": [8],
        "kv_heads": [8],
        "seq_len": [128, 256, 512, 1024, 2048, 4096, 8192],
        "head_dim": [32, 64, 80, 128, 256],
        "dtype": ["fp32", "bf16", "fp16"],
        "causal": [True, False],
    }
    return Recipe(grid=wide, run=run, noise=0.02)
