"""Figures in the words of an answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from bancada.verdicts.clauses import interval, portion
from bancada.verdicts.comparisons import Comparison, Contrast, Outcome, SuiteRows, geometric_mean
from bancada.verdicts.outcomes import difference, level, spread
from bancada.verdicts.regions import count, with_axis, word

__all__ = [
    "any_of", "by_size", "count", "label", "loss_of", "number", "place", "portion", "ratio", "sentence", "turn",
]  # fmt: skip


def ratio(found: Comparison) -> str:
    """`1.38x [1.31, 1.45]`."""
    mean = geometric_mean([found])
    assert mean is not None, "one ratio has a mean"
    return interval(mean)


def number(value: float) -> str:
    """`1,240`, `0.0312`: three significant digits, and no exponent for large numbers."""
    return f"{float(f'{value:.3g}'):,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def sentence(text: str) -> str:
    """The text with a large first letter and a full stop."""
    return f"{text[:1].upper()}{text[1:]}" + ("" if text.endswith((".", "?", "!")) else ".")


def loss_of(found: Contrast, mine: str, other: str, size: float) -> str:
    """`the loss of LoRA is 0.12 [0.10, 0.14] nats better than DoRA`; where nothing is decided, the difference alone."""
    if found.verdict == "too close to call" and not level(found, size):
        span = spread(found.difference, found.low, found.high, "+", "nats")
        return f"the loss of {mine} minus that of {other} is {span}"
    return f"the loss of {mine} is {difference(found, other, size, 'nats')}"


def label(suite: SuiteRows, contender: str) -> str:
    """What a person reads for a contender."""
    return suite.entrants[contender].label


def place(suite: SuiteRows, case: str, axis: str = "") -> str:
    """` (pattern neurons, keep 0.02)`: what tells a case from the suite's others, `axis` apart; '' where nothing does.

    What is 0 is what the suite takes where nobody chooses, and goes without a word.
    """
    told = [
        with_axis(name, word(value))
        for name, value in suite.axes[case].items()
        if name != axis and (value or value is False) and any(axes.get(name) != value for axes in suite.axes.values())
    ]
    return f" ({', '.join(told)})" if told else ""


def by_size(said: Iterable[tuple[str, Outcome]], faster: str, not_faster: str, undecided: str) -> str:
    """`faster at 1 token, not faster at 16 tokens and 64 tokens, not decided at 256 tokens`: sizes by what is said."""
    sizes: dict[str, list[str]] = {faster: [], not_faster: [], undecided: []}
    for size, outcome in said:
        sizes[{"faster": faster, "open": undecided}.get(outcome, not_faster)].append(size)
    return ", ".join(f"{words} {any_of(found, len(found))}" for words, found in sizes.items() if found)


def turn(said: Sequence[tuple[Any, Outcome]], unit: str, says: str) -> str:
    """From which size on it holds, where `faster` is said to the end from one size on; else where it does and not."""
    told = [(x, outcome == "faster") for x, outcome in said if outcome != "open"]
    held = [holds for _, holds in told]
    sizes = "measured" if len(told) == len(said) else "at which it is decided"
    if not told:
        return "not decided at any size measured"
    if not any(held):
        return f"nowhere: {says} at no size {sizes}"
    if all(held):
        return f"nowhere: {says} at every size {sizes}"
    if held == sorted(held):
        before, start = (told[held.index(True) - back][0] for back in (1, 0))
        return f"between {count(before, unit)} and {count(start, unit)}"
    return f"{says} {by_size([(count(x, unit), outcome) for x, outcome in said], 'at', 'not at', 'not decided at')}"


def any_of(names: list[str], most: int = 3) -> str:
    """`a, b and c`; beyond `most`, how many more there are."""
    shown = names[:most] + ([f"{len(names) - most} more"] if len(names) > most else [])
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}" if shown else ""
