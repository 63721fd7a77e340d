"""Cleaning and filtering of passages."""

from __future__ import annotations

import re
import textwrap
import unicodedata

LEAST_WORDS = 3
LEAST_LETTERS = 0.5
LEAST_DISTINCT = 0.2
REPETITION_FROM = 10

_PLAIN = str.maketrans(
    {
        "‘": "'", "’": "'", "“": '"', "”": '"', "…": "...", "–": "-", "—": "-",
        "\u00a0": " ", "\u200b": "", "\ufeff": "", "æ": "ae", "Æ": "Ae", "[": None, "]": None,
    }
)  # fmt: skip
_BRACKETS_STAY = {key: value for key, value in _PLAIN.items() if value is not None}
_RULE = re.compile(r"^[\s*=\-~^+|#_.]{3,}$")
_WORD = re.compile(r"[^\W\d_]+")


def clean_verse(text: str) -> str:
    """One line of prose: NFC, plain quotes, single spaces, and no brackets (they mark the translators' italics)."""
    return " ".join(unicodedata.normalize("NFC", text.translate(_PLAIN)).split())


def clean_paragraph(text: str) -> str:
    """A paragraph of documentation: NFC, plain quotes, no drawn rules or table borders; indentation and lines stay."""
    plain = unicodedata.normalize("NFC", text.translate(_BRACKETS_STAY))
    lines = [_cells(line).rstrip() for line in plain.expandtabs(4).splitlines()]
    return textwrap.dedent("\n".join(line for line in lines if line and not _RULE.match(line)))


def words(text: str) -> list[str]:
    """The words of a text in lower case: runs of letters, and nothing else."""
    return _WORD.findall(text.lower())


def fault(text: str) -> str | None:
    """Why a cleaned passage is of no use, or None.

    In the manner of the quality rules of Rae et al. 2021 (arXiv 2112.11446, appendix A1.1), for short passages:
    `short`: fewer than 3 words; `symbols`: under half of the characters that are no blanks are letters;
    `repetitive`: under a fifth of 10 words or more are distinct.
    """
    found = words(text)
    if len(found) < LEAST_WORDS:
        return "short"
    if sum(map(len, found)) < LEAST_LETTERS * sum(map(len, text.split())):
        return "symbols"
    if len(found) >= REPETITION_FROM and len(set(found)) < LEAST_DISTINCT * len(found):
        return "repetitive"
    return None


def _cells(line: str) -> str:
    """A table's row without its borders: its cells, two spaces between them."""
    stripped = line.strip()
    if not (stripped.startswith("|") and stripped.endswith("|") and len(stripped) > 2):
        return line
    return "  ".join(cell.strip() for cell in stripped[1:-1].split("|")).strip()
