"""How far a verdict can be trusted, here and in recorded races, where the right answer is known.

Live: identical contenders, some slower by a planted 5% and 0.5%, and a spin of known length, raced on this machine
through the same frame as any sweep. Recorded: the same rules replayed over races that always give the same figures.
"""

from __future__ import annotations

import dataclasses
import math
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bancada import rows, traces
from bancada._suites import AA_SIZES, CONTENDERS, PLANTED, SPINS_US, identical, planted, spin
from bancada.campaign import Campaign, execute
from bancada.console import watching
from bancada.machine import device as find_device
from bancada.rows import ROWS
from bancada.settings import Settings
from bancada.suite import KernelSuite
from bancada.sweep import Planned
from bancada.traces import Share

BUDGET_S = 12.0
RECORD_S = 600.0  # a race that is recorded goes on to its cap


@dataclass(frozen=True)
class Slower:
    """Comparisons with a planted slowdown of `name`: how many said so, and how many said the opposite."""

    name: str
    found: Share
    turned: Share


@dataclass(frozen=True)
class Trust:
    """What was raced here: false verdicts between identical contenders, planted slowdowns, and times of spins.

    `spins` holds the measured microseconds by the right ones.
    """

    false: Share
    slower: tuple[Slower, ...]
    spins: dict[int, float]
    run_dir: Path


def measure(root: Path, runs: Path, device: str, threads: int | None, comparisons: int, console: Console) -> Trust:
    """Races until there are `comparisons` of each kind; ValueError where that is below 1."""
    if comparisons < 1:
        raise ValueError(f"comparisons={comparisons}: must be at least 1")
    same, slow, known = identical(), planted(), spin()
    crossed = math.ceil(comparisons / (CONTENDERS // 2) ** 2)
    planned = [Planned(known, known.case(microseconds=length), ("spin",), BUDGET_S) for length in SPINS_US]
    planned += _cases(same, math.ceil(comparisons / _pairs()), BUDGET_S)
    for parts in PLANTED.values():
        planned += _cases(slow, crossed, BUDGET_S, parts=parts)
    settings = dataclasses.replace(Settings(), budget_s=BUDGET_S)
    run_dir = _race(planned, settings, "trust", root, runs, device, threads, console)
    return count(rows.read(run_dir / ROWS).rows, run_dir)


def record(
    root: Path, runs: Path, device: str, threads: int | None, comparisons: int, path: Path, console: Console
) -> traces.Traces:
    """Races identical contenders, each race up to the cap of rounds, and keeps the times in `path`."""
    if comparisons < 1:
        raise ValueError(f"comparisons={comparisons}: must be at least 1")
    most = Settings().most_rounds
    settings = dataclasses.replace(Settings(), rounds=most, budget_s=RECORD_S)
    planned = _cases(identical(), math.ceil(comparisons / _pairs()), RECORD_S)
    run_dir = _race(planned, settings, "record", root, runs, device, threads, console)
    kept = traces.pack(rows.read(run_dir / ROWS).rows)
    traces.save(kept, path)
    return kept


def _pairs() -> int:
    return CONTENDERS * (CONTENDERS - 1) // 2


def _cases(suite: KernelSuite, number: int, budget_s: float, **axes: int) -> list[Planned]:
    names = tuple(contender.id for contender in suite.contenders)
    operations = [list(AA_SIZES)[index % len(AA_SIZES)] for index in range(number)]
    return [
        Planned(suite, suite.case(operation=name, size=AA_SIZES[name], repeat=index, **axes), names, budget_s)
        for index, name in enumerate(operations)
    ]


def _race(
    planned: list[Planned],
    settings: Settings,
    name: str,
    root: Path,
    runs: Path,
    device: str,
    threads: int | None,
    console: Console,
) -> Path:
    """Runs the planned cases like any sweep, in a folder of their own."""
    suites = {one.suite.id: one.suite for one in planned}
    chosen = find_device(device, threads)
    campaign = Campaign(name, planned, suites, chosen, settings, f"python -m bancada {name}", root, aa=False)
    runs.mkdir(parents=True, exist_ok=True)
    run_dir = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=runs))
    with watching(console, campaign, run_dir) as tick:
        execute(campaign, run_dir, tick)
    return run_dir


def count(found: list[rows.Row], run_dir: Path) -> Trust:
    """What the rows of such a run say."""
    pairs = [row for row in found if row["kind"] == "pair"]
    same = [row for row in pairs if row["a"][:4] == row["b"][:4]]
    slower = []
    for name, parts in PLANTED.items():
        crossed = [row for row in pairs if row["a"][:4] != row["b"][:4] and row["case"].endswith(f"-of{parts}")]
        said = [row["verdict"] for row in crossed]
        slower.append(Slower(name, Share(said.count("faster"), len(said)), Share(said.count("slower"), len(said))))
    spins = {
        int(row["axis.microseconds"]): float(row["time_s"]) * 1e6
        for row in found
        if row["kind"] == "cell" and row["suite"] == "harness.spin" and row["status"] == "ok"
    }
    false = sum(row["verdict"] != "too close to call" for row in same)
    return Trust(Share(false, len(same)), tuple(slower), spins, run_dir)


def show(console: Console, trust: Trust) -> None:
    """What was raced here beside its bars."""
    table = _table("raced here")
    _row(table, "identical contenders called different", trust.false, "at most 2%")
    five, half = trust.slower
    _row(table, "planted slowdown of 5% found", five.found, "at least 90%")
    _row(table, "planted slowdown of 5% called faster", five.turned, "0%")
    called = Share(half.found.part + half.turned.part, half.found.whole)
    _row(table, "planted slowdown of 0.5% called", called, "at most 2%")
    for length, measured in trust.spins.items():
        table.add_row(f"a spin of {length:,} us measures", "", f"{measured:,.1f} us", "within 3%")
    console.print(table)
    console.print(f"Rows: {trust.run_dir / ROWS}\n", markup=False)


def show_recorded(console: Console, recorded: traces.Traces) -> None:
    """What the rules say of recorded races beside their bars."""
    found = traces.figures(recorded, Settings())
    table = _table(f"replayed over {found.races} recorded races")
    _row(table, "identical contenders called different", found.false, "at most 2%")
    _row(table, "planted slowdown of 5% found", found.found, "at least 90%")
    _row(table, "planted slowdown of 5% called faster", found.turned, "0%")
    _row(table, "planted slowdown of 0.5% called", found.called, "at most 2%")
    _row(table, "steady contenders called unstable", found.unstable, "at most 1%")
    _row(table, f"drift of {traces.DRIFT - 1:.0%} over a race called unstable", found.drifting, "at least 90%")
    _row(table, f"second hump {traces.HUMP - 1:.0%} away called unstable", found.humped, "")
    console.print(table)
    same, five = found.rounds
    facts = ", ".join(f"{name.rpartition('.')[2]} {value}" for name, value in recorded.facts.items())
    told = f"Rounds: {same:.0f} for an identical pair, {five:.0f} for one with 5%. Recorded on: {facts}"
    console.print(told, markup=False)


def _table(title: str) -> Table:
    return Table(title, "comparisons", "share", "bar", box=None, pad_edge=False)


def _row(table: Table, what: str, share: Share, bar: str) -> None:
    table.add_row(what, str(share.whole), str(share) if share.whole else "n/a", bar)
