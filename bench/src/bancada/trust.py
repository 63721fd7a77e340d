"""How far a verdict can be trusted here: false verdicts between identical contenders, planted slowdowns found."""

from __future__ import annotations

import dataclasses
import math
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bancada import rows
from bancada._suites import AA_SIZES, CONTENDERS, identical, planted
from bancada.campaign import Campaign, execute
from bancada.console import watching
from bancada.machine import device as find_device
from bancada.parent import ROWS
from bancada.settings import Settings
from bancada.suite import KernelSuite
from bancada.sweep import Planned

BUDGET_S = 8.0


@dataclass(frozen=True)
class Trust:
    """Counts over all comparisons.

    `false_verdicts` of `same` identical pairs; of `slower` pairs with a planted 5%, `found` and `reversed_`
    (called the wrong way round).
    """

    same: int
    false_verdicts: int
    slower: int
    found: int
    reversed_: int
    run_dir: Path


def measure(root: Path, runs: Path, device: str, threads: int | None, comparisons: int, console: Console) -> Trust:
    """Races until there are `comparisons` of each kind; ValueError where that is below 1."""
    if comparisons < 1:
        raise ValueError(f"comparisons={comparisons}: must be at least 1")
    chosen = find_device(device, threads)
    pairs = CONTENDERS * (CONTENDERS - 1) // 2
    crossed = (CONTENDERS // 2) ** 2
    planned = _cases(identical(), math.ceil(comparisons / pairs)) + _cases(planted(), math.ceil(comparisons / crossed))
    suites = {suite.id: suite for suite in (identical(), planted())}
    settings = dataclasses.replace(Settings(), budget_s=BUDGET_S)
    campaign = Campaign("trust", planned, suites, chosen, settings, "python -m bancada trust", root, aa=False)
    runs.mkdir(parents=True, exist_ok=True)
    run_dir = Path(tempfile.mkdtemp(prefix="trust-", dir=runs))
    with watching(console, campaign, run_dir) as tick:
        execute(campaign, run_dir, tick)
    return count([row for row in rows.read(run_dir / ROWS).rows if row["kind"] == "pair"], run_dir)


def _cases(suite: KernelSuite, number: int) -> list[Planned]:
    names = tuple(contender.id for contender in suite.contenders)
    operations = [list(AA_SIZES)[index % len(AA_SIZES)] for index in range(number)]
    return [
        Planned(suite, suite.case(operation=name, size=AA_SIZES[name], repeat=index), names, BUDGET_S)
        for index, name in enumerate(operations)
    ]


def count(pairs: list[rows.Row], run_dir: Path) -> Trust:
    """What the `pair` rows of such a run say."""
    same = [row for row in pairs if row["a"][:4] == row["b"][:4]]
    crossed = [row for row in pairs if row["a"].startswith("same") and row["b"].startswith("slow")]
    return Trust(
        same=len(same),
        false_verdicts=sum(row["verdict"] != "too close to call" for row in same),
        slower=len(crossed),
        found=sum(row["verdict"] == "faster" for row in crossed),
        reversed_=sum(row["verdict"] == "slower" for row in crossed),
        run_dir=run_dir,
    )


def show(console: Console, trust: Trust) -> None:
    """A table of the figures beside their bars."""
    table = Table("what", "comparisons", "share", "bar", box=None, pad_edge=False)
    table.add_row(
        "identical contenders called different", str(trust.same), _share(trust.false_verdicts, trust.same), "at most 2%"
    )
    table.add_row("planted slowdown of 5% found", str(trust.slower), _share(trust.found, trust.slower), "at least 85%")
    table.add_row("planted slowdown called faster", str(trust.slower), _share(trust.reversed_, trust.slower), "0%")
    console.print(table)
    console.print(f"Rows: {trust.run_dir / ROWS}", markup=False)


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "n/a"
