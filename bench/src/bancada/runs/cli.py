"""The commands over runs that are there already: report, compare, show, baseline."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bancada import runs
from bancada.rows import ROWS
from bancada.shell import PriceOption, RunsOption, root, runs_folder, stdout, told

if TYPE_CHECKING:
    from bancada.runs.compare import Side

_RUN = "A run: its folder, its name, or the name of a baseline."
baseline = typer.Typer(no_args_is_help=True)


def add_to(app: typer.Typer) -> None:
    """Adds the commands to the command line."""
    app.command()(report)
    app.command()(compare)
    app.command()(show)
    app.add_typer(baseline, name="baseline")


def baselines_folder() -> Path:
    """Where the checkout keeps its recorded runs."""
    return root() / "reports" / "baselines"


def render(run_dirs: list[Path], folder: Path, price: float | None = None) -> None:
    """Writes the report of these runs and the index of `folder`, where the libraries for them are installed."""
    from bancada.runs.baselines import folder_of

    kept = folder_of(run_dirs[-1]) or baselines_folder()
    try:
        from bancada.report import build, index

        told = f"Report: {build(run_dirs, recorded=kept, price=price)}\nRuns:   {index.write(folder)}"
    except ImportError as error:
        told = f"No report here ({error}): install bancada[report], or render the rows elsewhere with `bancada report`."
    stdout.print(told, markup=False)


def recorded_side(name: str) -> Side:
    """A recorded run to compare with; ValueError with near names where there is none."""
    from bancada.runs.compare import side

    return side(runs.baseline_file(name, baselines_folder()))


def elsewhere(before: Side, head: Mapping[str, Any]) -> str:
    """Why the times of a recorded run are not compared with a run's of this head; empty where they are."""
    if runs.identity(before.head) == runs.identity(head):
        return ""
    return (
        f"{before.name} is of {runs.machine_words(before.head)}, this run of {runs.machine_words(head)}: their times "
        "are not compared; the report shows speeds against the reference, side by side."
    )


def print_against(before: Side, run_dir: Path) -> None:
    """Prints a run against a recorded one, or why it cannot be."""
    from bancada.runs.compare import compare, side
    from bancada.runs.text import show_compared

    after = side(run_dir / ROWS)
    why = elsewhere(before, after.head)
    if not why and before.cells.keys().isdisjoint(after.cells):
        why = f"{before.name} holds no cell of this run, so there is nothing to compare."
    stdout.print()
    if why:
        stdout.print(why, markup=False)
    else:
        show_compared(stdout, compare(before, after))


@told
def report(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[RUN]...", help="Run folders, or their names; the newest if none.")
    ] = None,
    price: PriceOption = None,
    out: RunsOption = None,
) -> None:
    """Render the report of one or more runs."""
    folder = runs_folder(out)
    render([runs.run_dir(name, folder) for name in names] if names else [runs.newest(folder)], folder, price)


@told
def compare(
    a: Annotated[str, typer.Argument(metavar="A", help=_RUN)],
    b: Annotated[str, typer.Argument(metavar="B", help="The other, which is judged against the first.")],
    across_machines: Annotated[
        bool, typer.Option("--across-machines", help="Compare runs of different machines all the same.")
    ] = False,
    fail_if_slower: Annotated[
        str | None,
        typer.Option(
            "--fail-if-slower",
            metavar="SHARE",
            help="Exit status 1 where a cell of B is slower by more than this (5%) with its whole interval, or fails.",
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Print every cell that both hold.")] = False,
    out: RunsOption = None,
) -> None:
    """Put two runs side by side: which cells became slower or faster."""
    from bancada.runs import compare as comparing
    from bancada.runs.text import show_compared, show_failed

    limit = comparing.limit_of(fail_if_slower) if fail_if_slower is not None else None
    first, second = (comparing.side(runs.rows_file(name, runs_folder(out), baselines_folder())) for name in (a, b))
    found = comparing.compare(first, second, across_machines)
    show_compared(stdout, found, every)
    if limit is not None and show_failed(stdout, found, limit):
        raise typer.Exit(1)


@told
def show(
    row_id: Annotated[str, typer.Argument(help="A row's id, or its beginning where that is enough.")],
    run: Annotated[str | None, typer.Argument(help=f"{_RUN} All of them where left out.")] = None,
    out: RunsOption = None,
) -> None:
    """Print a row, and the command that measures it again."""
    from bancada.runs.show import find
    from bancada.runs.text import show_row

    folder, kept = runs_folder(out), baselines_folder()
    show_row(stdout, find(row_id, [runs.rows_file(run, folder, kept)] if run else runs.files(folder, kept)))


@baseline.callback()
def _baseline() -> None:
    """Recorded runs, which reports show beside new ones."""


@baseline.command("save")
@told
def save_baseline(
    run: Annotated[str, typer.Argument(help="A finished run: its folder or its name.")],
    name: Annotated[str, typer.Argument(help="The baseline's name, without an ending.")],
    out: RunsOption = None,
) -> None:
    """Keep a run's rows in reports/baselines, to be shown beside later runs as recorded."""
    from bancada import rows
    from bancada.runs.baselines import save

    kept = runs.run_dir(run, runs_folder(out))
    said = [f"Recorded: {save(kept, name, baselines_folder())}", *rows.read(kept / ROWS).problems]
    stdout.print("\n".join(said), markup=False)
