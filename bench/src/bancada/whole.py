"""Files that are whole or not there, whatever ends the process that writes them."""

from __future__ import annotations

from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Writes beside the place, then moves it there; folders that are missing are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.part")
    unfinished.write_bytes(data)
    unfinished.replace(path)
