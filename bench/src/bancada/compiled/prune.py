"""`bancada sweep gpu --prune-with RUN`: a timing sweep leaves out the configurations that a compile run ruled out."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bancada import rows
from bancada.compiled.declare import CompileSuite
from bancada.compiled.ranking import placed
from bancada.rows import Row
from bancada.suite import AnySuite, Device
from bancada.sweep import Planned

Key = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class LeftOut:
    """A planned case that is not raced, and why."""

    suite: str
    case: str
    reason: str


def target_of(device: Device) -> str:
    """The compile target of a device; ValueError where it has no CUDA compute capability."""
    if device.capability is None:
        raise ValueError(f"prune_with: device {device.name} is no GPU that kernels were compiled for")
    major, minor = device.capability
    return f"sm_{major}{minor}"


def prune(
    planned: Sequence[Planned], suites: Mapping[str, AnySuite], run_dir: Path, device: Device
) -> tuple[list[Planned], list[LeftOut]]:
    """The plan without the configurations that are dominated, or do not fit, in a compile run.

    A configuration that was not compiled stays, whatever the reason: nothing is known against it. One that was
    compiled at several sizes stays where it holds at any of them.

    Raises:
        ValueError: no suite of the plan races configurations, or the run compiled none of theirs for this device.
    """
    target = target_of(device)
    found = [row for row in rows.read(run_dir / rows.ROWS).rows if row["kind"] == "cell"]
    judges = {
        timed: (suite, dict(given))
        for suite in suites.values() if isinstance(suite, CompileSuite)
        for timed, given in suite.stands_for.items()
    }  # fmt: skip
    meant = {one.suite.id for one in planned} & set(judges)
    if not meant:
        raise ValueError(f"prune_with={run_dir.name!r}: no suite of this sweep races configurations of kernels")
    against: dict[str, dict[Key, str]] = {}
    for timed in meant:
        suite = judges[timed][0]
        mine = [row for row in found if row["suite"] == suite.id and row.get("axis.target") == target]
        if not mine:
            raise ValueError(
                f"prune_with={run_dir.name!r}: holds no row of {suite.id} for {_but(target, found, suite)}"
            )
        against[timed] = _ruled_out(mine, suite)
    kept: list[Planned] = []
    left_out: list[LeftOut] = []
    for one in planned:
        reason = ""
        if one.suite.id in meant:
            suite, given = judges[one.suite.id]
            reason = against[one.suite.id].get(_key(dict(one.case.axes) | given, suite), "")
        if reason:
            left_out.append(LeftOut(one.suite.id, one.case.id, f"{reason} ({target}, run {run_dir.name})"))
        else:
            kept.append(one)
    if not kept:
        raise ValueError(f"prune_with={run_dir.name!r}: leaves nothing to measure")
    return kept, left_out


def _key(values: Mapping[str, Any], suite: CompileSuite) -> Key:
    """What a compiled configuration and a raced one have in common; the sizes are not among it."""
    return tuple((name, values.get(name)) for name in (*suite.code, *suite.configuration))


def _but(target: str, found: Iterable[Row], suite: CompileSuite) -> str:
    """`sm_80, but for gfx942, sm_90`: the target asked for, and those that a run holds in its place."""
    held = sorted({str(row.get("axis.target")) for row in found if row["suite"] == suite.id})
    return f"{target}, but for {', '.join(held)}" if held else target


def _ruled_out(found: Iterable[Row], suite: CompileSuite) -> dict[Key, str]:
    """Of the configurations that nothing speaks for, the reason."""
    every = list(found)
    places = placed(every, suite.configuration, [dataclasses.asdict(metric) for metric in suite.metrics])
    names = {row["row_id"]: str(row.get("note.configuration", row["case"])) for row in every}
    reasons: dict[Key, list[str]] = {}
    for row in every:
        values = {name.removeprefix("axis."): value for name, value in row.items() if name.startswith("axis.")}
        if row["status"] == "ok":
            over = places[row["row_id"]].dominated_by
            reason = f"dominated by {names[over]}" if over else ""
        else:
            # Compiled and over a limit of the target; a machine without Triton says nothing of the configuration.
            over_limit = row["status"] == "unsupported" and "measure.compile_s" in row
            reason = f"unsupported: {row['reason']}" if over_limit else ""
        reasons.setdefault(_key(values, suite), []).append(reason)
    return {key: told[0] for key, told in reasons.items() if all(told)}
