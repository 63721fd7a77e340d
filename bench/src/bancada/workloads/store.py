"""The cache folder of the workloads: prepared texts and tokens, each under a name that changes with what made it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np

from bancada.parent import cache_dir


def folder() -> Path:
    """Where they are kept: `workloads` in bancada's cache folder."""
    return cache_dir() / "workloads"


def write(path: Path, fill: Callable[[BinaryIO], object]) -> None:
    """Writes the whole file or nothing: several processes may make it at the same time.

    Args:
        path: in `folder()`.
        fill: writes the content to the open file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        with part.open("wb") as file:
            fill(file)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def sequences(name: str, made_from: Sequence[bytes], make: Callable[[], Sequence[Sequence[int]]]) -> list[list[int]]:
    """Sequences of token ids, made once, then read from the folder.

    Args:
        name: what they are, as the first part of a file's name.
        made_from: everything that they depend on.
        make: makes them.
    """
    digest = hashlib.sha256()
    for part in made_from:
        digest.update(hashlib.sha256(part).digest())
    path = folder() / f"{name}-{digest.hexdigest()[:16]}.npy"
    if not path.is_file():
        flat = np.array([value for one in make() for value in (len(one), *one)], dtype=np.int32)
        write(path, lambda file: np.save(file, flat))
    values: list[int] = np.load(path).tolist()
    found, at = [], 0
    while at < len(values):  # each sequence is its length, then its tokens
        found.append(values[at + 1 : at + 1 + values[at]])
        at += 1 + values[at]
    return found
