"""Where a contender is fastest: regions of the axis that matters, and the axes on which the answer depends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bancada.verdicts.comparisons import FLUKES, MOST_CASES, Outcome, SuiteRows, geometric_mean, in_order, joint

FEW_VALUES, MOST_VALUES = 4, 8
"""Of an axis on which an answer may depend; of one that sets another task at each value."""
Said = tuple[object, str, Outcome]
"""A size, a rival, and what all cases there say together."""


def others(suite: SuiteRows) -> list[str]:
    """Who ours are measured against: peers, and the reference whoever wrote it."""
    return [e.id for e in suite.entrants.values() if not e.ours or e.reference]


def reference(suite: SuiteRows) -> str:
    """The plain computation everything is compared with; '' where the suite names none."""
    return next((e.id for e in suite.entrants.values() if e.reference), "")


def measured(suite: SuiteRows, ids: Iterable[str]) -> list[str]:
    """Those of `ids` that were measured at some case."""
    return [i for i in ids if any(i in suite.ok(case) for case in suite.cells)]


def fastest(suite: SuiteRows, ids: Sequence[str], cases: Iterable[str] | None = None) -> str:
    """Of `ids`, the one that the fewest of the others beat over the common cases; '' where none was measured there."""
    chosen = list(suite.cells if cases is None else cases)
    present = [i for i in ids if any(i in suite.ok(case) for case in chosen)]

    def lost(a: str) -> tuple[int, float]:
        means = [m for b in present if b != a and (m := geometric_mean(suite.common(a, b, chosen))) is not None]
        return sum(m.value > 1 for m in means), max((m.value for m in means), default=1.0)

    return min(present, key=lost, default="")


def best_of_ours(suite: SuiteRows) -> str:
    """The fastest of our contenders, the reference apart; '' where none was measured."""
    return fastest(suite, [e.id for e in suite.entrants.values() if e.ours and not e.reference])


def rivals(suite: SuiteRows) -> list[str]:
    """Those whom ours are measured against and that ran at some case."""
    return measured(suite, others(suite))


def yardstick(suite: SuiteRows, ours: str) -> str:
    """Whom `ours` is put beside: the reference, else the fastest peer, else the next of ours; '' without any.

    Only who was measured at a case that `ours` was measured at can be any of them.
    """
    beside = [i for i in suite.entrants if i != ours and (not ours or suite.common(ours, i))]
    foreign = [i for i in rivals(suite) if i in beside]
    return reference(suite) if reference(suite) in foreign else fastest(suite, foreign or beside)


def top_peer(suite: SuiteRows, ours: str, cases: Sequence[str] | None = None) -> str:
    """The fastest of the others at these cases, the yardstick apart; '' without any."""
    return fastest(suite, [rival for rival in rivals(suite) if rival != yardstick(suite, ours)], cases)


def cases_at(suite: SuiteRows, xs: Iterable[Any]) -> list[str]:
    """The cases at these values of the axis that matters."""
    wanted = set(xs)
    return [case for case in suite.cells if suite.x(case) in wanted]


def region(suite: SuiteRows, a: str, rivals: Sequence[str]) -> list[Any]:
    """The sizes, side by side, where a beats every rival measured there: those that reach the top, else the most."""
    runs: list[list[Any]] = [[]]
    for x in suite.xs():
        cases = cases_at(suite, [x])
        said = {joint(found) for b in rivals if b != a and (found := suite.common(a, b, cases))}
        if said == {"faster"}:
            runs[-1].append(x)
        else:
            runs.append([])
    return runs[-1] or max(runs, key=len)


def where(suite: SuiteRows, xs: Sequence[Any]) -> str:
    """A region in words: `At 4,096 tokens and more`."""
    every = suite.xs()

    def say(x: Any) -> str:
        return count(x, suite.unit) if suite.unit else f"{suite.x_axis} {plain(x)}".strip()

    def span(first: Any, last: Any) -> str:
        return f"{say(first).split()[0]} to {say(last)}" if suite.unit else f"{say(first)} to {plain(last)}"

    if not suite.x_axis or every == [None]:
        return "In the cases measured"
    if len(xs) == len(every):
        if len(xs) == 1:
            return f"At {say(xs[0])}"
        if suite.unit:
            return f"At every size measured ({span(xs[0], xs[-1])})"
        return f"At every {suite.x_axis} measured ({plain(xs[0])} to {plain(xs[-1])})"
    if not all(isinstance(x, (int, float)) for x in every):
        return f"At {suite.x_axis} " + ", ".join(map(str, xs))
    if xs[-1] == every[-1]:
        return f"At {say(xs[0])}" + (" and more" if len(xs) > 1 else "")
    if xs[0] == every[0]:
        return f"Up to {say(xs[-1])}" if len(xs) > 1 else f"At {say(xs[0])}"
    return f"From {span(xs[0], xs[-1])}" if len(xs) > 1 else f"At {say(xs[0])}"


@dataclass(frozen=True)
class Part:
    """A share of a suite's cases, about which something simple can be said: all, or those with one value of an axis."""

    prefix: str
    suite: SuiteRows


def parts(suite: SuiteRows, ours: str, rivals: Sequence[str]) -> list[Part]:
    """The whole suite; or its cases by value of the one axis that makes the outcome at each size much clearer.

    Values of that axis with the same outcomes stay together.
    """
    best, chosen = clarity([outcomes(suite, ours, rivals)]) + 0.2, [Part("", suite)]
    for name, groups in splits(suite, list(suite.cells)):
        alike: dict[tuple[Said, ...], list[str]] = {}
        for value, cases in groups.items():
            alike.setdefault(tuple(outcomes(suite.only(cases), ours, rivals)), []).append(value)
        clear = clarity(alike)
        if 2 <= len(alike) <= 3 and () not in alike and clear > best:
            best, chosen = clear, [_part(suite, name, values, groups) for values in alike.values()]
    return chosen


def _part(suite: SuiteRows, name: str, chosen: Sequence[str], groups: Mapping[str, Sequence[str]]) -> Part:
    said = " or ".join(with_axis(name, value) for value in chosen)
    return Part(f"With {said}, ", suite.only(case for value in chosen for case in groups[value]))


def outcomes(suite: SuiteRows, ours: str, rivals: Sequence[str]) -> list[Said]:
    """What holds against each rival at each size where they have common cases."""
    found = []
    for x in suite.xs():
        cases = cases_at(suite, [x])
        for rival in rivals:
            if (outcome := joint(suite.common(ours, rival, cases))) is not None:
                found.append((x, rival, outcome))
    return found


def clarity(groups: Iterable[Iterable[Said]]) -> float:
    """The share of outcomes, over all groups, in which all cases say the same."""
    said = [outcome for group in groups for *_, outcome in group]
    return sum(outcome != "mixed" for outcome in said) / len(said) if said else 0.0


def with_axis(name: str, value: str) -> str:
    """An axis value as people say it: `bf16`, `causal`, `not causal`, `head_dim 64`."""
    said = {"true": name, "false": f"not {name}", "None": f"{name} not told"}.get(value, f"{name} {value}")
    return value if name == "dtype" else said


def count(x: Any, unit: str) -> str:
    """`1 token`, `2,048 tokens`, of a `share of the weights` `50% of the weights`; `unit` is in the plural."""
    if unit.startswith("share of ") and isinstance(x, (int, float)):
        return f"{100 * x:.3g}% {unit.removeprefix('share ')}"
    return f"{plain(x)} {unit.removesuffix('s') if x == 1 else unit}"


def plain(x: Any) -> str:
    """A value as people write it: `4,096`."""
    return f"{x:,}" if isinstance(x, (int, float)) and not isinstance(x, bool) else str(x)


def lower(text: str) -> str:
    """The text with a small first letter, for the middle of a sentence; a name in capitals (KL) stays."""
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]


def holders(suite: SuiteRows, x: Any) -> tuple[str, ...]:
    """Who is fastest at a size: one, several that are level, or nobody in particular."""
    cases = [case for case in cases_at(suite, [x]) if suite.ok(case)]
    if not cases:
        return ()
    sets = [suite.unbeaten(case) for case in cases]
    alone = Counter(found[0] for found in sets if len(found) == 1)
    level = Counter(contender for found in sets for contender in found)
    most, few = MOST_CASES * len(cases), FLUKES * len(cases)
    chosen = [contender for contender, number in alone.items() if number >= most]
    chosen = chosen or sorted(contender for contender, number in level.items() if number >= most)
    elsewhere = sum(number for contender, number in alone.items() if contender not in chosen)
    return tuple(chosen) if elsewhere <= few else ()


Champion = tuple[Part, str]
"""Who is the best of ours there."""


def champions(suite: SuiteRows) -> list[Champion]:
    """The best of ours; one for each value of an axis, where it did not run at some value at which another of ours did.

    Such an axis (a rule, a number of bits) sets another task at each value: nobody can be the best of them all.
    """
    best = best_of_ours(suite)
    for name, groups in splits(suite, list(suite.cells), MOST_VALUES):
        inside = {value: suite.only(cases) for value, cases in groups.items()}
        mine = {value: best_of_ours(part) for value, part in inside.items()}
        if any(one and not measured(inside[value], [best]) for value, one in mine.items()):
            return [
                (Part(f"With {with_axis(name, value)}, ", inside[value]), one) for value, one in mine.items() if one
            ]
    return [(Part("", suite), best)] if best else []


def splits(suite: SuiteRows, cases: Sequence[str], most: int = FEW_VALUES) -> list[tuple[str, dict[str, list[str]]]]:
    """The other axes that take 2 to `most` values in these cases, with the cases of each value."""
    found = []
    names = [name for name in (suite.axes[cases[0]] if cases else ()) if name != suite.x_axis]
    for name in names:
        groups = {word(v): [c for c in cases if suite.axes[c].get(name) == v] for v in values(suite, cases, name)}
        if 2 <= len(groups) <= most:
            found.append((name, groups))
    return found


def values(suite: SuiteRows, cases: Sequence[str], name: str) -> list[Any]:
    """The values of an axis in these cases, in order."""
    return in_order({suite.axes[case].get(name) for case in cases})


def word(value: Any) -> str:
    """A value of an axis in words."""
    return str(value).lower() if isinstance(value, bool) else plain(value)
