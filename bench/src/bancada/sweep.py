"""Sweep files and plans: which suites, which axis values, how long, as TOML; overridden on the command line.

```toml
title = "CPU, ten minutes"

[settings]          # any field of bancada.settings.Settings
rounds = 30

[[suite]]
id = "attention.forward"
budget_s = 12       # for one case's race
seeds = 8           # runs of a training suite's case
axes = { seq_len = [512, 1024, 2048], causal = [true, false] }
contenders = ["flash-tiled", "torch-sdpa"]   # all of the suite's where left out
```

Axes that a block does not name stay at the suite's defaults; a block's cases are the product of its axes.
"""

from __future__ import annotations

import importlib
import itertools
import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bancada.registry import choose, unknown
from bancada.settings import JobCase, Settings
from bancada.suite import AnySuite, Case, Device, Scalar

Suites = Mapping[str, AnySuite]


@dataclass(frozen=True)
class Block:
    """One `[[suite]]` of a sweep file."""

    suite: str
    axes: Mapping[str, Sequence[Scalar]] = field(default_factory=dict)
    contenders: tuple[str, ...] = ()
    budget_s: float | None = None
    seeds: int | None = None


@dataclass(frozen=True)
class Sweep:
    """A sweep file, read and checked."""

    name: str
    title: str
    blocks: tuple[Block, ...]
    settings: Settings = field(default_factory=Settings)


@dataclass(frozen=True)
class Planned:
    """A case with the contenders that are to be measured at it."""

    suite: AnySuite
    case: Case
    contenders: tuple[str, ...]
    budget_s: float
    seeds: int | None = None

    def job(self) -> JobCase:
        """As a child process is told."""
        return JobCase(self.suite.id, dict(self.case.axes), self.contenders, self.budget_s, self.seeds)


def sweep_names(folder: Path) -> list[str]:
    """The sweep files of a folder, by name."""
    return sorted(path.stem for path in folder.glob("*.toml"))


def load(name: str, folder: Path) -> Sweep:
    """The sweep `NAME`, from `FOLDER/NAME.toml` or a path that ends in .toml.

    Raises:
        ValueError: no such sweep (near names are listed), or a file that is not as it should be.
    """
    path = Path(name) if name.endswith(".toml") else folder / f"{name}.toml"
    if not path.is_file():
        raise unknown("sweep", name, ["auto", *sweep_names(folder)])
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path.name}: not TOML: {error}") from None
    return _sweep(path.stem, raw)


def _sweep(name: str, raw: Mapping[str, Any]) -> Sweep:
    _only(f"sweep {name}", raw, ("title", "settings", "suite"))
    blocks = raw.get("suite", [])
    if not isinstance(blocks, list) or not blocks or not all(isinstance(one, dict) for one in blocks):
        raise ValueError(f"sweep {name}: needs at least one [[suite]]")
    settings = raw.get("settings", {})
    if not isinstance(settings, dict):
        raise ValueError(f"sweep {name}: settings={settings!r}: must be a table, [settings]")
    _only(f"sweep {name}: settings", settings, tuple(Settings.__dataclass_fields__))
    return Sweep(name, str(raw.get("title", name)), tuple(_block(name, one) for one in blocks), Settings(**settings))


def _block(name: str, raw: Mapping[str, Any]) -> Block:
    _only(f"sweep {name}: suite", raw, ("id", "axes", "contenders", "budget_s", "seeds"))
    if not isinstance(raw.get("id"), str):
        raise ValueError(f"sweep {name}: a [[suite]] needs an id")
    axes = raw.get("axes", {})
    if not isinstance(axes, dict):
        raise ValueError(f"sweep {name}: axes={axes!r}: must be a table of lists")
    values = {axis: tuple(found) if isinstance(found, list) else (found,) for axis, found in axes.items()}
    budget = raw.get("budget_s")
    if budget is not None and not (_number(budget) and math.isfinite(budget) and budget > 0):
        raise ValueError(f"sweep {name}: budget_s={budget!r}: must be a finite number above 0")
    seeds = raw.get("seeds")
    if seeds is not None and not (isinstance(seeds, int) and not isinstance(seeds, bool) and seeds > 0):
        raise ValueError(f"sweep {name}: seeds={seeds!r}: must be a whole number above 0")
    contenders = raw.get("contenders", [])
    if not isinstance(contenders, list) or not all(isinstance(one, str) for one in contenders):
        raise ValueError(f"sweep {name}: contenders={contenders!r}: must be a list of names")
    return Block(raw["id"], values, tuple(dict.fromkeys(contenders)), budget, seeds)


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _only(where: str, raw: Mapping[str, Any], allowed: Sequence[str]) -> None:
    for key in raw:
        if key not in allowed:
            raise ValueError(f"{where}: {unknown('key', key, allowed)}")


@dataclass(frozen=True)
class Choice:
    """What the command line asks for on top of a sweep."""

    suites: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    contenders: tuple[str, ...] = ()
    sets: Mapping[str, Sequence[str]] = field(default_factory=dict)


def parse_sets(texts: Sequence[str]) -> dict[str, list[str]]:
    """`["seq_len=1,2", "causal=true"]` as lists of words by axis; ValueError for anything else."""
    found: dict[str, list[str]] = {}
    for text in texts:
        axis, equals, values = text.partition("=")
        words = [word.strip() for word in values.split(",") if word.strip()]
        if not equals or not axis.strip() or not words:
            raise ValueError(f"--set {text!r}: write AXIS=VALUE or AXIS=VALUE,VALUE")
        found.setdefault(axis.strip(), []).extend(words)
    return found


def like(path: Path) -> dict[str, list[str]]:
    """Axis values from a transformers `config.json`: heads, kv_heads, head_dim.

    Raises:
        ValueError: a file that is not there, is not JSON, or names no attention heads.
    """
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"--like {path}: {error.strerror or error}") from None
    except ValueError:
        raise ValueError(f"--like {path}: not JSON") from None
    raw = raw.get("text_config") or raw if isinstance(raw, dict) else {}
    raw = raw if isinstance(raw, dict) else {}
    heads = raw.get("num_attention_heads", raw.get("n_head"))
    width = raw.get("hidden_size", raw.get("n_embd"))
    head_dim = raw.get("head_dim") or (
        width // heads if isinstance(heads, int) and heads > 0 and isinstance(width, int) else None
    )
    if not isinstance(heads, int) or not isinstance(head_dim, int) or heads < 1 or head_dim < 1:
        raise ValueError(f"--like {path}: names no num_attention_heads with head_dim or hidden_size")
    return {
        "heads": [str(heads)],
        "kv_heads": [str(raw.get("num_key_value_heads") or heads)],
        "head_dim": [str(head_dim)],
    }


def plan(
    sweep: Sweep, suites: Suites, choice: Choice, optional: Mapping[str, Sequence[str]] | None = None
) -> list[Planned]:
    """Every case of a sweep after the command line's choice, each once, in the file's order.

    Args:
        sweep: the sweep.
        suites: the registered ones.
        choice: suites, families and contenders to keep, and axis values that override the file's.
        optional: overrides that only suites which have the axis take (from `--like`).

    Raises:
        ValueError: an unknown suite, family, axis, value or contender, or nothing left to measure.
    """
    for name in choice.suites:
        choose(suites, name)
    families = sorted({suite.family for suite in suites.values()})
    for family in choice.families:
        if family not in families:
            raise unknown("family", family, families)
    blocks = list(sweep.blocks)
    named = {block.suite for block in blocks}
    blocks += [Block(name) for name in choice.suites if name not in named]
    kept = [
        block for block in blocks
        if (not choice.suites or block.suite in choice.suites)
        and (not choice.families or choose(suites, block.suite).family in choice.families)
    ]  # fmt: skip
    _all_used(choice, kept, suites)
    found: dict[tuple[str, str], Planned] = {}
    for block in kept:
        for planned in _cases(block, choose(suites, block.suite), sweep.settings, choice, optional or {}):
            found.setdefault((planned.suite.id, planned.case.id), planned)
    if not found:
        asked = f": no case asked for is one of {', '.join(choice.contenders)}" if choice.contenders else ""
        raise ValueError(f"sweep {sweep.name}: nothing is left to measure{asked}")
    return list(found.values())


def _all_used(choice: Choice, blocks: Sequence[Block], suites: Suites) -> None:
    """Refuses an override or a contender that no suite at hand knows: a typo must not pass as a silent no-op."""
    chosen = [choose(suites, block.suite) for block in blocks]
    axes = sorted({axis.name for suite in chosen for axis in suite.axes})
    for axis in choice.sets:
        if axis not in axes:
            raise unknown("axis", axis, axes)
    contenders = sorted({contender.id for suite in chosen for contender in suite.contenders})
    for name in choice.contenders:
        if name not in contenders:
            raise unknown("contender", name, contenders)


def _cases(
    block: Block, suite: AnySuite, settings: Settings, choice: Choice, optional: Mapping[str, Sequence[str]]
) -> list[Planned]:
    own = {axis.name for axis in suite.axes}
    values: dict[str, list[Scalar]] = {
        name: [suite.axis(name).check(value) for value in listed] for name, listed in block.axes.items()
    }
    for name, words in {**{k: v for k, v in optional.items() if k in own}, **choice.sets}.items():
        if name in own:
            values[name] = [suite.axis(name).parse(word) for word in words]
    for name in block.contenders:
        suite.contender(name)
    names = block.contenders or tuple(contender.id for contender in suite.contenders)
    kept = tuple(name for name in names if not choice.contenders or name in choice.contenders)
    if not kept:
        return []
    points = itertools.product(*values.values())
    cases = [suite.case(**dict(zip(values, point, strict=True))) for point in points]
    with_names = [(case, tuple(name for name in kept if suite.contender(name).takes(case))) for case in cases]
    return [
        Planned(suite, case, names, block.budget_s or settings.budget_s, block.seeds)
        for case, names in with_names if names
    ]  # fmt: skip


START_S = 8.0
EFFICIENCY = 0.35  # of the matrix-product ceiling, for whoever computes
SCREEN_CALLS = 8
CALL_OVERHEAD_S = 0.3
ORACLE_CALLS = 6  # float64, and the plain computation for the limits
OTHER_KINDS = {"training": "bancada.training.estimate", "ranks": "bancada.ranks.estimate",
               "compile": "bancada.compiled.estimate"}  # they guess for themselves  # fmt: skip


def call_s(planned: Planned, flops_per_s: float) -> float:
    """A guess of one call's seconds (a training suite: one update's), from its work alone."""
    return planned.suite.work(planned.case).flops / max(flops_per_s * EFFICIENCY, 1.0)


def able_on(planned: Planned, device: Device) -> list[str]:
    """The planned contenders that say nothing against running there."""
    return [name for name in planned.contenders if planned.suite.contender(name).supports(planned.case, device) is None]


def estimate_s(planned: Planned, settings: Settings, flops_per_s: float, device: Device) -> float:
    """A rough guess of a case's seconds: every contender at a share of the matrix-product ceiling."""
    if planned.suite.kind in OTHER_KINDS:
        guess = importlib.import_module(OTHER_KINDS[planned.suite.kind]).estimate_s
        return float(guess(planned, settings, flops_per_s, device))
    call, able = call_s(planned, flops_per_s), able_on(planned, device)
    sample, screened, asked = max(call, settings.sample_s), SCREEN_CALLS * call + CALL_OVERHEAD_S, ORACLE_CALLS * call
    if settings.isolate == "process":  # every block starts, asks and screens anew
        return settings.blocks * len(able) * (START_S + asked + screened + settings.block_rounds * sample)
    round_s = max(len(able), 1) * sample
    return settings.affordable(planned.budget_s, round_s) * round_s + len(able) * screened + asked
