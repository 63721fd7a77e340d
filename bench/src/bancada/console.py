"""What the command line shows: the plan, the progress, the verdicts."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bancada import rows
from bancada.again import NO_FILE, parse_settings
from bancada.campaign import CATALOGUE, PLAN, Campaign, overhead
from bancada.compiled.prune import LeftOut, prune
from bancada.heartbeat import Current
from bancada.machine import device as find_device
from bancada.price import check as check_price
from bancada.registry import discover
from bancada.rows import ROWS
from bancada.settings import Settings
from bancada.suite import AnySuite
from bancada.sweep import START_S, Block, Choice, Planned, Sweep, estimate_s, like, load, parse_sets, plan
from bancada.verdicts import as_text, verdicts

GUESSED_FLOPS_PER_S = {"cpu": 4e10, "cuda": 2e14}  # a core's, a GPU's: for the estimate before anything is measured
FIXED_S = {"cpu": 20.0, "cuda": 40.0}  # ceilings and the race of identical contenders
REDRAW_S = 1.0
PARTS = {
    "start": "starting processes",
    "screen": "screening",
    "race": "races",
    "tuning": "tuning",
    "training": "training",
    "compile": "compiling",
    "oracle": "float64 answers",
}


@dataclass(frozen=True)
class Choices:
    """The options of `bancada sweep`, as typed."""

    name: str = "auto"
    suites: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    contenders: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()
    like: Path | None = None
    device: str = "auto"
    threads: int | None = None
    budget_s: float | None = None
    rounds: int | None = None
    extra: tuple[str, ...] = ()
    seeds: int | None = None
    trials: int | None = None
    settings: tuple[str, ...] = ()
    prune_with: Path | None = None
    isolate: str | None = None
    price: float | None = None

    def campaign(self, root: Path, command: str, aa: bool) -> Campaign:
        """Checks everything and makes the plan; ValueError for whatever is wrong, before anything is written."""
        check_price(self.price)
        choice = Choice(self.suites, self.families, self.contenders, parse_sets(self.sets))
        optional = like(self.like) if self.like else {}
        suites = _suites(self.extra)
        chosen = find_device(self.device, self.threads)
        sweep = self._sweep(root / "bench" / "sweeps", chosen.type)
        sweep = dataclasses.replace(sweep, settings=self._settings(sweep.settings), blocks=self._blocks(sweep))
        planned = plan(sweep, suites, choice, optional)
        left_out: list[LeftOut] = []
        if self.prune_with is not None:
            planned, left_out = prune(planned, suites, self.prune_with, chosen)
        told = tuple(f"{one.suite} {one.case}: {one.reason}" for one in left_out)
        made = Campaign(sweep.name, planned, suites, chosen, sweep.settings, command, root, self.extra, aa, told)
        return dataclasses.replace(made, price=self.price)

    def _sweep(self, folder: Path, device_type: str) -> Sweep:
        if self.name == NO_FILE and not self.suites:
            raise ValueError(f"sweep {NO_FILE!r}: needs a --suite, for it is no file and names nothing itself")
        if self.name == NO_FILE or (self.name == "auto" and self.extra and self.suites):  # suites of one's own
            return Sweep(self.name, "Chosen on the command line", ())
        if self.name != "auto":
            return load(self.name, folder)
        return load("gpu" if device_type == "cuda" and (folder / "gpu.toml").is_file() else "cpu", folder)

    def _settings(self, settings: Settings) -> Settings:
        named = {"budget_s": self.budget_s, "rounds": self.rounds, "seeds": self.seeds, "trials": self.trials,
                 "isolate": self.isolate}  # fmt: skip
        changes = parse_settings(self.settings) | {name: value for name, value in named.items() if value is not None}
        if self.rounds is not None:
            changes.setdefault("least_rounds", min(settings.least_rounds, self.rounds))
            changes.setdefault("most_rounds", max(self.rounds, settings.most_rounds))
        return dataclasses.replace(settings, **changes)

    def _blocks(self, sweep: Sweep) -> tuple[Block, ...]:
        """The blocks, with the command line's budget and seeds in place of theirs."""
        return tuple(
            dataclasses.replace(block, budget_s=self.budget_s or block.budget_s, seeds=self.seeds or block.seeds)
            for block in sweep.blocks
        )


def _suites(extra: tuple[str, ...]) -> dict[str, AnySuite]:
    for one in extra:
        if one.count(":") != 1:
            raise ValueError(f"--suites-from {one!r}: write MODULE:FUNCTION")
    return discover(extra=extra)


def show_plan(console: Console, campaign: Campaign) -> None:
    """The plan of a dry run: every case, who races, and about how long it takes."""
    total = START_S + (FIXED_S[campaign.device.type] if campaign.timed else 0.0)
    for one in campaign.planned:
        seconds = _estimate(one, campaign)
        total += seconds
        console.print(
            f"{one.suite.id:24} {one.case.id:44} {len(one.contenders):3} contenders  about {seconds:5.0f} s",
            markup=False,
        )
        for name in one.contenders:
            if reason := one.suite.contender(name).supports(one.case, campaign.device):
                console.print(f"{'':26}{name}: {reason}", markup=False)
    for told in campaign.left_out:
        console.print(f"Left out: {told}", markup=False)
    cells = sum(len(one.contenders) for one in campaign.planned)
    console.print(
        f"{len(campaign.planned)} cases, {cells} cells on {campaign.device.name} "
        f"({campaign.device.threads} threads): about {total / 60:.0f} min. "
        "A rough guess; first compilations come on top. Nothing was measured.",
        markup=False,
    )


def _estimate(one: Planned, campaign: Campaign) -> float:
    guess = GUESSED_FLOPS_PER_S[campaign.device.type]
    if campaign.device.type == "cpu":
        guess *= campaign.device.threads
    return estimate_s(one, campaign.settings, guess, campaign.device)


@contextlib.contextmanager
def watching(console: Console, campaign: Campaign, run_dir: Path) -> Iterator[Callable[[Current | None], None]]:
    """A progress bar with the time left on a terminal; elsewhere nothing."""
    if not console.is_terminal:
        yield lambda current: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )
    estimates = [(one, _estimate(one, campaign)) for one in campaign.planned]
    weights = {(one.suite.id, one.case.id): seconds / len(one.contenders) for one, seconds in estimates}
    total_s = sum(seconds for _, seconds in estimates)
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("starting", total=sum(len(one.contenders) for one in campaign.planned), left="")
        drawn, began = 0.0, time.monotonic()
        size, done = -1, set[tuple[str, str, str]]()

        def tick(current: Current | None) -> None:
            nonlocal drawn, size, done
            if time.monotonic() - drawn < REDRAW_S:
                return
            drawn = time.monotonic()
            path = run_dir / ROWS
            # Read only what is new to say: parsing thousands of rows every second would disturb what is being timed.
            if path.exists() and path.stat().st_size != size:
                size, done = path.stat().st_size, rows.cells(rows.read(path).rows)
            done_s = sum(weights.get((suite, case), 0.0) for suite, case, _ in done)
            pace = (drawn - began) / done_s if done_s else 1.0
            what = f"{current.suite} {current.case} {current.contender} {current.step}" if current else "starting"
            progress.update(
                bar,
                completed=len(done),
                description=" ".join(what.split()),
                left=f"about {pace * (total_s - done_s) / 60:.0f} min left",
            )

        yield tick


def show_verdicts(console: Console, run_dir: Path) -> None:
    """The verdicts of a run as text."""
    found = rows.read(run_dir / ROWS)
    for problem in found.problems:
        console.print(problem, markup=False)
    plan_, catalogue = (json.loads((run_dir / name).read_text(encoding="utf-8")) for name in (PLAN, CATALOGUE))
    console.print(as_text(verdicts(found.rows, plan_, catalogue)), markup=False)
    by_status: dict[str, int] = {}
    for row in found.rows:
        if row["kind"] == "cell":
            by_status[row["status"]] = by_status.get(row["status"], 0) + 1
    console.print(
        "\nCells: " + ", ".join(f"{count} {status}" for status, count in sorted(by_status.items())), markup=False
    )
    for foot in (row for row in found.rows if row["kind"] == "end"):
        told = ", ".join(
            f"{what} {foot[f'part.{name}_s']:.0f} s" for name, what in PARTS.items() if f"part.{name}_s" in foot
        )
        ratio = overhead(foot)
        own = f"; {ratio:.2f}x of what was measured and started" if ratio else ""
        console.print(f"Time: {foot['wall_s']:.0f} s ({told}{own})", markup=False)
    checked = [row for row in found.rows if row["kind"] == "aa"]
    if checked:
        console.print(
            f"A/A: {sum(row['false_verdicts'] for row in checked)} false verdicts "
            f"in {sum(row['comparisons'] for row in checked)} comparisons",
            markup=False,
        )
