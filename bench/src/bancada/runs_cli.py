"""The commands over runs that are there already: report, compare, show, baseline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bancada import runs
from bancada.shell import RunsOption, root, runs_folder, stdout, told

RunArgument = Annotated[str, typer.Argument(help="A run: its folder, its name, or the name of a baseline.")]
baseline = typer.Typer(no_args_is_help=True)


def add_to(app: typer.Typer) -> None:
    """Adds the commands to the command line."""
    app.command()(report)
    app.add_typer(baseline, name="baseline")


def baselines_folder() -> Path:
    """Where the checkout keeps its recorded runs."""
    return root() / "reports" / "baselines"


def render(run_dirs: list[Path]) -> None:
    """Writes the report of these runs where the libraries for it are installed, and says where it is."""
    try:
        from bancada.report import build
    except ImportError as error:
        stdout.print(
            f"No report here ({error}): install bancada[report], or render the rows elsewhere with `bancada report`.",
            markup=False,
        )
        return
    stdout.print(f"Report: {build(run_dirs)}", markup=False)


@told
def report(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[RUN]...", help="Run folders, or their names; the newest if none.")
    ] = None,
    out: RunsOption = None,
) -> None:
    """Render the report of one or more runs."""
    folder = runs_folder(out)
    render([runs.run_dir(name, folder) for name in names] if names else [runs.newest(folder)])


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
    from bancada.baselines import save

    saved = save(runs.run_dir(run, runs_folder(out)), name, baselines_folder())
    stdout.print(f"Recorded: {saved}", markup=False)
