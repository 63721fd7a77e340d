"""Rows from measurements: the fields of a cell, and its identity."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Mapping
from typing import Any

from bancada import again, stats
from bancada.ceilings import ABOVE_CEILING, CACHE_MULTIPLE
from bancada.machine import last_cache_bytes
from bancada.rows import MOST_SAMPLES, SCHEMA, Row
from bancada.suite import AnySuite, Case, Device, Entry, Work


def row_id(suite: str, case: str, contender: str, device_name: str, threads: int) -> str:
    """A short identity of a cell: what was measured and on which device (not its clock speed, nor the day)."""
    return hashlib.sha1("\0".join((suite, case, contender, device_name, str(threads))).encode()).hexdigest()[:12]


def now() -> str:
    """The time of day in UTC, to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def common(kind: str, run: str) -> Row:
    """The fields that rows of every kind carry."""
    return {"schema": SCHEMA, "kind": kind, "run": run, "time": now()}


_NOT_KEPT = ("run", "settings", "raced", "extra")
"""What of a stamp makes other fields of a row, and is none itself."""


def cell(
    suite: AnySuite,
    case: Case,
    contender: Entry[Any],
    device: Device,
    stamp: Mapping[str, Any],
    status: str,
    reason: str = "",
    threads: int | None = None,
    facts: Mapping[str, object] | None = None,
) -> Row:
    """The row of one contender at one case; `stamp` is `Job.stamped` of it."""
    run = str(stamp["run"])
    fields: Row = common("cell", run) | {name: value for name, value in stamp.items() if name not in _NOT_KEPT}
    fields |= {
        "row_id": row_id(suite.id, case.id, contender.id, device.name, threads or device.threads),
        "suite": suite.id,
        "family": suite.family,
        "case": case.id,
        "contender": contender.id,
        "label": contender.label,
        "technique": contender.technique,
        "origin": contender.origin,
        "reference": contender.reference,
        "precision": contender.precision,
        "backend": contender.backend,
        "status": status,
        "reason": reason,
        "device": device.type,
        "device_name": device.name,
        "threads": threads or device.threads,
        "command": again.command(suite, case, contender, device, stamp),
    }
    fields |= {f"axis.{name}": value for name, value in case.axes}
    return fields | dict(facts or {})


def timing(
    samples: stats.Floats, loops: int, work: Work, matmul: float | None, copy: float | None, device: Device
) -> Row:
    """Time, rates and shares of the measured ceilings, from one contender's samples (seconds a call)."""
    middle = stats.spread(samples)
    fields: Row = {
        "time_s": middle.median,
        "time_low_s": middle.low,
        "time_high_s": middle.high,
        "rounds": len(samples),
        "loops": loops,
        "samples": [float(f"{sample:.6g}") for sample in samples[:MOST_SAMPLES]],
        "flops": work.flops,
        "bytes": work.bytes,
        "flops_per_s": work.flops / middle.median,
        "bytes_per_s": work.bytes / middle.median,
    }
    if matmul:
        fields["compute_share"] = fields["flops_per_s"] / matmul
    if copy and work.bytes > CACHE_MULTIPLE * _cache_bytes(device):
        fields["bandwidth_share"] = fields["bytes_per_s"] / copy
    return fields


def _cache_bytes(device: Device) -> int:
    return 64 * 1024**2 if device.type == "cuda" else last_cache_bytes()


def impossible(fields: Mapping[str, object]) -> str:
    """What is wrong with a result beyond the measured ceilings; empty where nothing is."""
    for name, what in (("compute_share", "matrix-product"), ("bandwidth_share", "memory")):
        share = fields.get(name)
        if isinstance(share, float) and share > ABOVE_CEILING:
            return (
                f"reaches {share:.0%} of the measured {what} ceiling: "
                "the work counted or the clock is wrong, or no work was done"
            )
    return ""


def pair(suite: str, case: str, device: Device, run: str, comparison: stats.Comparison) -> Row:
    """The row of a comparison."""
    return common("pair", run) | {
        "suite": suite,
        "case": case,
        "a": comparison.a,
        "b": comparison.b,
        "ratio": comparison.ratio,
        "low": comparison.low,
        "high": comparison.high,
        "verdict": comparison.verdict,
        "rounds": comparison.rounds,
        "confidence": comparison.confidence,
        "device": device.type,
    }


def identical(suite: str, case: str, device: Device, run: str, comparisons: list[stats.Comparison]) -> Row:
    """The row of a race between identical contenders: every verdict but a tie is false."""
    false = sum(comparison.verdict != "too close to call" for comparison in comparisons)
    fields = {
        "suite": suite,
        "case": case,
        "device": device.type,
        "comparisons": len(comparisons),
        "false_verdicts": false,
    }
    return common("aa", run) | fields


def ceiling(name: str, dtype: str, when: str, value: float, device: Device, run: str) -> Row:
    """The row of a measured ceiling: `matmul` in FLOP/s or `copy` in bytes/s."""
    fields = {"name": name, "dtype": dtype, "when": when, "value": value, "device": device.type}
    return common("ceiling", run) | fields
