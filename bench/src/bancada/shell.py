"""What all commands share: the two consoles, one-line errors, the checkout and its folder of runs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, ParamSpec, TypeVar

import typer
from rich.console import Console
from rich.table import Table

P = ParamSpec("P")
T = TypeVar("T")

stdout = Console(highlight=False, soft_wrap=True)
stderr = Console(stderr=True, highlight=False, soft_wrap=True)
WIDEST = 400

RunsOption = Annotated[
    Path | None, typer.Option("--out", help="Folder of runs; reports/runs of the checkout where left out.")
]

PriceOption = Annotated[
    float | None,
    typer.Option("--price", help="Of a device-hour, in any currency: the report reckons costs with it."),
]


def told(function: Callable[P, T]) -> Callable[P, T]:
    """Turns what a user got wrong into one line and exit status 2."""

    @functools.wraps(function)
    def inner(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except (ValueError, PermissionError, FileExistsError, NotADirectoryError, IsADirectoryError) as error:
            stderr.print(f"bancada: {' '.join(str(error).split())}", markup=False)
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


def runs_folder(chosen: Path | None) -> Path:
    """The folder of runs: the chosen one, or the checkout's."""
    return chosen if chosen is not None else root() / "reports" / "runs"


def print_table(console: Console, table: Table) -> None:
    """A table as wide as it needs: a long case is never folded, a narrow terminal wraps whole lines."""
    natural = console.measure(table, options=console.options.update(max_width=WIDEST)).maximum
    Console(file=console.file, width=max(console.width, natural), soft_wrap=True, highlight=False).print(table)
