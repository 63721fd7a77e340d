"""The command line: `bancada sweep | report | compare | show | list | trust | baseline`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from bancada.runs import cli as runs_cli
from bancada.shell import PriceOption, RunsOption, root, runs_folder, stderr, stdout, told

app = typer.Typer(
    add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False,
    help="Which efficiency technique should I use, on my machine, at my sizes, and what does it cost?",
)  # fmt: skip

Many = list[str]
SuiteOption = Annotated[
    Many,
    typer.Option("--suite", help="Only this suite (repeatable). Its default case where the sweep does not hold it."),
]
OnlyOption = Annotated[Many, typer.Option("--only", help="Only this family: attention, optimizers, ... (repeatable).")]
ContenderOption = Annotated[
    Many, typer.Option("--contender", help="Only this contender (repeatable, or a list with commas).")
]
SetOption = Annotated[
    Many, typer.Option("--set", help="AXIS=VALUE[,VALUE...]: overrides an axis of the sweep (repeatable).")
]
LikeOption = Annotated[
    Path | None, typer.Option("--like", help="Take heads, kv_heads and head_dim from a transformers config.json.")
]
DeviceOption = Annotated[str, typer.Option("--device", help="auto, cpu or cuda.")]
ThreadsOption = Annotated[int | None, typer.Option("--threads", help="CPU threads; all usable cores where left out.")]
ExtraOption = Annotated[
    Many, typer.Option("--suites-from", help="MODULE:FUNCTION that gives further suites (repeatable).")
]


@app.command()
@told
def sweep(
    name: Annotated[
        str,
        typer.Argument(
            help="A file of bench/sweeps, a path to a .toml, auto (looks at the machine), or none (only --suite)."
        ),
    ] = "auto",
    suite: SuiteOption = [],  # noqa: B006 (typer reads the default, nobody changes it)
    only: OnlyOption = [],  # noqa: B006
    contender: ContenderOption = [],  # noqa: B006
    set_: SetOption = [],  # noqa: B006
    like: LikeOption = None,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
    budget: Annotated[float | None, typer.Option("--budget", help="Seconds for each case's race.")] = None,
    rounds: Annotated[int | None, typer.Option("--rounds", help="Paired rounds of a race.")] = None,
    seeds: Annotated[int | None, typer.Option("--seeds", help="Runs of each training case, one a seed.")] = None,
    trials: Annotated[int | None, typer.Option("--trials", help="Tuning trials of each contender in training.")] = None,
    setting: Annotated[
        Many, typer.Option("--setting", help="NAME=VALUE: any other setting of a sweep file (repeatable).")
    ] = [],  # noqa: B006
    isolate: Annotated[
        str | None,
        typer.Option("--isolate", help="process: a fresh process for each contender and block of rounds."),
    ] = None,
    price: PriceOption = None,
    prune_with: Annotated[
        str | None,
        typer.Option(
            "--prune-with", help="A compile run: leave out the configurations that it rules out for this GPU."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan with a time estimate, measure nothing.")
    ] = False,
    against: Annotated[
        str | None,
        typer.Option("--against", help="At the end, print the times against this recorded run's (baseline)."),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start anew even where an interrupted run could go on.")
    ] = False,
    no_aa: Annotated[bool, typer.Option("--no-aa", help="Leave out the race of identical contenders.")] = False,
    no_report: Annotated[bool, typer.Option("--no-report", help="Write rows only.")] = False,
    suites_from: ExtraOption = [],  # noqa: B006
    out: RunsOption = None,
) -> None:
    """Measure: run a sweep, print its verdicts, write its report."""
    from bancada.campaign import execute, folder_for
    from bancada.console import Choices, show_plan, show_verdicts, watching
    from bancada.runs import run_dir as run_dir_of

    choices = Choices(
        name=name,
        suites=tuple(suite),
        families=tuple(only),
        contenders=_split(contender),
        sets=tuple(set_),
        like=like,
        device=device,
        threads=threads,
        budget_s=budget,
        rounds=rounds,
        extra=tuple(suites_from),
        seeds=seeds,
        trials=trials,
        settings=tuple(setting),
        prune_with=run_dir_of(prune_with, runs_folder(out)) if prune_with is not None else None,
        isolate=isolate,
        price=price,
    )
    campaign = choices.campaign(root(), shlex.join(["python", "-m", "bancada", *sys.argv[1:]]), aa=not no_aa)
    before = runs_cli.recorded_side(against) if against is not None else None
    if before is not None and (why := runs_cli.elsewhere(before, campaign.head)):
        stdout.print(why, markup=False)
    if dry_run:
        show_plan(stdout, campaign)
        return
    run_dir, resumed = folder_for(campaign, runs_folder(out), fresh)
    if resumed:
        again = len(campaign.changed(run_dir))
        more = f" {again} of its cases have changed since and are measured again." if again else ""
        stdout.print(f"Going on with the interrupted run {run_dir.name}.{more}", markup=False)
    with watching(stderr, campaign, run_dir) as tick:
        execute(campaign, run_dir, tick)
    show_verdicts(stdout, run_dir)
    if before is not None:
        runs_cli.print_against(before, run_dir)
    stdout.print(f"\nRows:   {run_dir / 'rows.jsonl'}", markup=False)
    if not no_report:
        runs_cli.render([run_dir], runs_folder(out))


def _split(words: list[str]) -> tuple[str, ...]:
    named = tuple(dict.fromkeys(part.strip() for word in words for part in word.split(",") if part.strip()))
    if words and not named:
        raise ValueError(f"--contender {' '.join(words)!r}: names nobody")
    return named


@app.command("list")
@told
def list_(suites_from: ExtraOption = []) -> None:  # noqa: B006
    """List the suites with their axes and contenders, and the sweeps."""
    from bancada.registry import discover
    from bancada.sweep import load, sweep_names

    for suite in discover(extra=suites_from).values():
        table = Table(title=f"{suite.id}: {suite.title}", title_justify="left", box=None, pad_edge=False)
        for column in ("contender", "what", "origin", "axis", "default", "allowed"):
            table.add_column(column)
        for index in range(max(len(suite.contenders), len(suite.axes))):
            who = suite.contenders[index : index + 1]
            axis = suite.axes[index : index + 1]
            left = (who[0].id, who[0].label, who[0].origin) if who else ("", "", "")
            right = (
                (axis[0].name, str(suite.defaults[axis[0].name]), ", ".join(map(str, axis[0].choices)))
                if axis
                else ("", "", "")
            )
            table.add_row(*left, *right)
        stdout.print(table)
        stdout.print()
    folder = root() / "bench" / "sweeps"
    for name in sweep_names(folder):
        stdout.print(f"sweep {name}: {load(name, folder).title}", markup=False)


@app.command()
@told
def trust(
    comparisons: Annotated[
        int, typer.Option("--comparisons", help="At least this many comparisons of each kind.")
    ] = 150,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
    replay: Annotated[
        Path | None, typer.Option("--replay", help="Recorded races; those that come with Bancada where left out.")
    ] = None,
    no_race: Annotated[bool, typer.Option("--no-race", help="Only replay recorded races, measure nothing.")] = False,
    record: Annotated[
        Path | None, typer.Option("--record", help="Record races of identical contenders to this .npz, for --replay.")
    ] = None,
    out: RunsOption = None,
) -> None:
    """How far can a verdict be trusted? Races what is known to be equal, slower or of known length; replays records."""
    from bancada import traces
    from bancada import trust as trusted

    folder, where = runs_folder(out), replay or record or traces.FILE
    if record is not None:
        trusted.record(root(), folder, device, threads, comparisons, record, stderr)
    recorded = traces.load(where)
    if not no_race and record is None:
        trusted.show(stdout, trusted.measure(root(), folder, device, threads, comparisons, stderr))
    trusted.show_recorded(stdout, recorded)


runs_cli.add_to(app)


def main() -> Any:
    """Entry point of `python -m bancada`."""
    return app(prog_name="bancada")
