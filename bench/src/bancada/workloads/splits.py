"""The three parts of a text, divided by document: a document is in one part only. Images are divided alike."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal

from bancada.workloads.sources import Document

Split = Literal["train", "validation", "held_out"]
SPLITS: tuple[Split, ...] = ("train", "validation", "held_out")
SHARES: dict[Split, float] = {"train": 0.8, "validation": 0.1, "held_out": 0.1}


def divide(items: Sequence[tuple[str, str, int]]) -> dict[str, Split]:
    """The part of every item, by its id: the shares hold within each label.

    Items come in the order of the SHA-256 of their ids, which no run's seed changes; each goes to the part that is
    furthest below its share of the sizes. Train is what models learn from, validation what tuning may look at, held-out
    what is reported.

    Args:
        items: id, label and size of each; the ids are unique.

    Raises:
        ValueError: two items with one id.
    """
    if len({name for name, _, _ in items}) != len(items):
        raise ValueError("items hold an id twice: ids must be unique")
    groups: dict[str, list[tuple[str, int]]] = {}
    for name, label, size in items:
        groups.setdefault(label, []).append((name, size))
    parts: dict[str, Split] = {}
    for group in groups.values():
        total = sum(size for _, size in group)
        missing = {part: share * total for part, share in SHARES.items()}
        for name, size in sorted(group, key=lambda item: hashlib.sha256(item[0].encode()).hexdigest()):
            part = max(SPLITS, key=lambda part: missing[part])
            parts[name] = part
            missing[part] -= size
    return parts


def split(documents: Sequence[Document], stratify: bool) -> dict[str, Split]:
    """The part of every document, by its id; a size is a number of characters.

    Args:
        documents: with unique ids.
        stratify: keep the shares within each label, not only within the whole.

    Raises:
        ValueError: two documents with one id.
    """
    return divide(
        [(document.id, document.label if stratify else "", sum(map(len, document.passages))) for document in documents]
    )
