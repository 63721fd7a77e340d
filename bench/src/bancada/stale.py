"""What a cell's measurement depends on, and what becomes of rows when that has changed.

Of each suite and contender a key is kept with the run: a hash over the sources of its package and of the harness, over
the versions of the libraries it needs, and over the device. A run that is gone on with measures a case again where the
key of one of its contenders is another now: paired rounds need all of them. The rows of before are set aside.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import json
import platform
from collections.abc import Collection, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from bancada.rows import ROWS
from bancada.suite import Device
from bancada.sweep import Planned
from bancada.whole import write_whole

SOURCES = {".py", ".cpp", ".toml", ".safetensors", ".json"}
ONLY_READS = ("questions", "report", "runs", "verdicts")
"""The folders of the harness that measure nothing."""
SUPERSEDED = "superseded.jsonl"
EVERYBODY = ("torch", "triton", "numpy")
_OF_A_CASE = ("cell", "pair", "trial", "curve", "contrast")
Keys = Mapping[str, str]


def keys(planned: Sequence[Planned], device: Device, root: Path, extra: Sequence[str] = ()) -> dict[str, str]:
    """What each contender's cells depend on, by `suite:contender`.

    Args:
        planned: the cases.
        device: what is measured on.
        root: the checkout.
        extra: `module:function` registrations of suites, whose modules count too.
    """
    harness = _files(root / "bench" / "src" / "bancada", skip=ONLY_READS) + _modules(extra)
    families = {one.suite.family for one in planned}
    code = {family: harness + _files(root / "packages" / family / "src") for family in families}
    found: dict[str, str] = {}
    for one in planned:
        for name in one.contenders:
            needs = sorted({*EVERYBODY, *one.suite.contender(name).requires})
            facts = [code[one.suite.family], platform.python_version(), {need: _version(need) for need in needs}]
            facts.append(dataclasses.asdict(device))
            text = json.dumps(facts, sort_keys=True, default=list)
            found[f"{one.suite.id}:{name}"] = hashlib.sha256(text.encode()).hexdigest()[:16]
    return found


def _files(folder: Path, skip: Sequence[str] = ()) -> str:
    """A hash of a folder's sources."""
    digest = hashlib.sha256()
    paths = sorted(path for path in folder.rglob("*") if path.suffix in SOURCES)
    for path in paths:
        place = path.relative_to(folder)
        if place.parts[0] not in skip:
            digest.update(place.as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _modules(extra: Sequence[str]) -> str:
    """A hash of the modules that register suites of one's own."""
    digest = hashlib.sha256()
    for one in extra:
        found = importlib.util.find_spec(one.partition(":")[0])
        if found is not None and found.origin:
            digest.update(Path(found.origin).read_bytes())
    return digest.hexdigest()


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "none"


def changed(planned: Sequence[Planned], before: Keys, now: Keys) -> list[tuple[str, str]]:
    """(suite, case) of the planned cases one of whose contenders depends on something else now."""
    other = {name for name, key in now.items() if before.get(name) != key}
    return [
        (one.suite.id, one.case.id)
        for one in planned
        if not other.isdisjoint(f"{one.suite.id}:{name}" for name in one.contenders)
    ]


def set_aside(run_dir: Path, cases: Collection[tuple[str, str]]) -> int:
    """Moves every row of these cases from the run's rows to `superseded.jsonl` beside them; how many there were."""
    path, meant = run_dir / ROWS, set(cases)
    lines = path.read_bytes().splitlines(keepends=True) if meant and path.exists() else []
    old = [line for line in lines if _case(line) in meant]
    if old:
        with (run_dir / SUPERSEDED).open("ab") as file:
            file.writelines(old)
        write_whole(path, b"".join(line for line in lines if _case(line) not in meant))
    return len(old)


def _case(line: bytes) -> tuple[str, str] | None:
    """Which case a line of rows is of; None for other kinds, and for what cannot be read."""
    try:
        row = json.loads(line)
        return (str(row["suite"]), str(row["case"])) if row["kind"] in _OF_A_CASE else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
