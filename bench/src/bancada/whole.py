"""Files that are whole or not there, whatever ends the process that writes them."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Writes beside the place, then moves it there; makes missing folders; of two at once the last stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
    unfinished.write_bytes(data)
    unfinished.replace(path)
