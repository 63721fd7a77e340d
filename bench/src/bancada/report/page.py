"""What every page is made of: templates that escape whatever they are given, and the files beside them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bancada.whole import write_whole

FOLDER = Path(__file__).parent
STYLES = ("style.css",)


def environment() -> Any:
    """jinja2's environment over the templates here; ModuleNotFoundError where it is not installed."""
    try:
        import jinja2
    except ModuleNotFoundError as error:
        raise missing(error) from None
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )


def missing(error: ModuleNotFoundError) -> ModuleNotFoundError:
    """The error for a library that pages need, with the command that installs it."""
    return ModuleNotFoundError(f"the report needs {error.name}: python -m pip install jinja2 plotly", name=error.name)


def texts(names: Sequence[str]) -> str:
    """Files of this folder, one after the other."""
    return "\n".join((FOLDER / name).read_text(encoding="utf-8") for name in names)


def write_page(path: Path, page: str) -> None:
    """Writes a page in place of the one before, whole; what is no text becomes a question mark."""
    write_whole(path, page.encode("utf-8", "replace"))
