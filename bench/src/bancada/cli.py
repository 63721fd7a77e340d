"""The command line: `bancada sweep | report | list | trust | baseline`."""

from __future__ import annotations

import functools
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, ParamSpec, TypeVar

import typer
from rich.console import Console
from rich.table import Table

P = ParamSpec("P")
T = TypeVar("T")

app = typer.Typer(
    add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False,
    help="Which efficiency technique should I use, on my machine, at my sizes, and what does it cost?",
)  # fmt: skip
recorded = typer.Typer(no_args_is_help=True)
_out = Console(highlight=False, soft_wrap=True)
_err = Console(stderr=True, highlight=False, soft_wrap=True)

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
RunsOption = Annotated[
    Path | None, typer.Option("--out", help="Folder of runs; reports/runs of the checkout where left out.")
]


def _told(function: Callable[P, T]) -> Callable[P, T]:
    """Turns what a user got wrong into one line and exit status 2."""

    @functools.wraps(function)
    def inner(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except (ValueError, PermissionError, FileExistsError, NotADirectoryError, IsADirectoryError) as error:
            _err.print(f"bancada: {' '.join(str(error).split())}", markup=False)
            raise typer.Exit(2) from None

    return inner


def root() -> Path:
    """The checkout this harness stands in.

    Raises:
        ValueError: the harness is installed without its checkout, where the benchmark files are.
    """
    found = Path(__file__).resolve().parents[3]
    if not (found / "bench" / "sweeps").is_dir():
        raise ValueError(
            "bancada must be installed from its checkout (pip install -e bench): no bench/sweeps folder beside it"
        )
    return found


def _runs(out: Path | None) -> Path:
    return out if out is not None else root() / "reports" / "runs"


@app.command()
@_told
def sweep(
    name: Annotated[
        str, typer.Argument(help="A file of bench/sweeps, a path to a .toml, or auto (looks at the machine).")
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
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan with a time estimate, measure nothing.")
    ] = False,
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

    choices = Choices(
        name,
        tuple(suite),
        tuple(only),
        _split(contender),
        tuple(set_),
        like,
        device,
        threads,
        budget,
        rounds,
        tuple(suites_from),
        seeds,
        trials,
    )
    campaign = choices.campaign(root(), shlex.join(["python", "-m", "bancada", *sys.argv[1:]]), aa=not no_aa)
    if dry_run:
        show_plan(_out, campaign)
        return
    run_dir, resumed = folder_for(campaign, _runs(out), fresh)
    if resumed:
        _out.print(f"Going on with the interrupted run {run_dir.name}.", markup=False)
    with watching(_err, campaign, run_dir) as tick:
        execute(campaign, run_dir, tick)
    show_verdicts(_out, run_dir)
    _out.print(f"\nRows:   {run_dir / 'rows.jsonl'}", markup=False)
    if not no_report:
        _render([run_dir])


def _split(words: list[str]) -> tuple[str, ...]:
    named = tuple(dict.fromkeys(part.strip() for word in words for part in word.split(",") if part.strip()))
    if words and not named:
        raise ValueError(f"--contender {' '.join(words)!r}: names nobody")
    return named


def _render(runs: list[Path]) -> None:
    try:
        from bancada.report import build
    except ImportError as error:
        _out.print(
            f"No report here ({error}): install bancada[report], or render the rows elsewhere with `bancada report`.",
            markup=False,
        )
        return
    _out.print(f"Report: {build(runs)}", markup=False)


@app.command()
@_told
def report(
    runs: Annotated[
        list[str] | None, typer.Argument(help="Run folders, or their names; the newest where left out.")
    ] = None,
    out: RunsOption = None,
) -> None:
    """Render the report of one or more runs."""
    _render([_run_dir(run, _runs(out)) for run in runs or [_newest(_runs(out))]])


def _newest(folder: Path) -> str:
    found = sorted(folder.glob("*/rows.jsonl"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise ValueError(f"there is no run in {folder} yet: `python -m bancada sweep` makes one")
    return found[-1].parent.name


def _run_dir(name: str, folder: Path) -> Path:
    from bancada.registry import unknown

    for path in (Path(name), folder / name):
        if (path / "rows.jsonl").is_file():
            return path
    raise unknown("run", name, sorted(path.parent.name for path in folder.glob("*/rows.jsonl")))


@app.command("list")
@_told
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
        _out.print(table)
        _out.print()
    folder = root() / "bench" / "sweeps"
    for name in sweep_names(folder):
        _out.print(f"sweep {name}: {load(name, folder).title}", markup=False)


@app.command()
@_told
def trust(
    comparisons: Annotated[
        int, typer.Option("--comparisons", help="At least this many comparisons of each kind.")
    ] = 300,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
    out: RunsOption = None,
) -> None:
    """How far can a verdict be trusted here? Races identical contenders, and some made exactly 5% slower."""
    from bancada.trust import measure, show

    show(_out, measure(root(), _runs(out), device, threads, comparisons, _err))


@recorded.callback()
def _recorded() -> None:
    """Recorded runs, which reports show beside new ones."""


@recorded.command("save")
@_told
def save_baseline(
    run: Annotated[str, typer.Argument(help="A finished run: its folder or its name.")],
    name: Annotated[str, typer.Argument(help="The baseline's name, without an ending.")],
    out: RunsOption = None,
) -> None:
    """Keep a run's rows in reports/baselines, to be shown beside later runs as recorded."""
    from bancada.baselines import save

    saved = save(_run_dir(run, _runs(out)), name, root() / "reports" / "baselines")
    _out.print(f"Recorded: {saved}", markup=False)


app.add_typer(recorded, name="baseline")


def main() -> Any:
    """Entry point of `python -m bancada`."""
    return app(prog_name="bancada")
