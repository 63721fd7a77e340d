"""Phrases of sentences of every kind: names up to a few, and what stands further down the page."""

from __future__ import annotations

from collections.abc import Sequence


def names(labels: Sequence[str], most: int, joiner: str) -> str:
    """`a, b and 2 more`: the first few, and how many others there are."""
    more = f" and {len(labels) - most} more" if len(labels) > most else ""
    return joiner.join(labels[:most]) + more


def below(number: int, what: str = "") -> list[str]:
    """`3 more cases are in the section below.`, with `what` in the singular; nothing where there are no more."""
    one, several = (f"{what} is", f"{what}s are") if what else ("is", "are")
    return [f"{number} more {one if number == 1 else several} in the section below."] if number > 0 else []
