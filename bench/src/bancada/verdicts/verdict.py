"""What the rows say, in sentences a person would say aloud: used at the end of a sweep and on the report's cards."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bancada.rows import Row
from bancada.verdicts import outcomes, ranked, regions
from bancada.verdicts.clauses import against_words, clause, median_ratio, share, times, top_cases
from bancada.verdicts.comparisons import MOST_CASES, SuiteRows, geometric_mean, joint, suites
from bancada.verdicts.compiled import compiled
from bancada.verdicts.figures import figures_of_its_own
from bancada.verdicts.outcomes import Kind
from bancada.verdicts.regions import cases_at, lower, where
from bancada.verdicts.weighed import weighed


@dataclass(frozen=True)
class Fact:
    """One figure of a card: what it is, the figure, and where and against whom."""

    name: str
    value: str
    against: str


@dataclass(frozen=True)
class Verdict:
    """What one suite on one device says.

    Args:
        kind: `win` where one of ours beats all others at some size, `tie` where the best of ours is level
            with the best of the others, `not decided` where the intervals are too wide even for that, `peer wins`
            where it is slower, `only ours` where nobody else was measured, `no data` where nothing can be compared,
            `compiled` where a compiler was asked and no clock.
        headline: who is fastest where.
        clauses: the best of ours against the reference and the best peer, with intervals: one sentence, or one
            for each value of the axis on which the answer depends.
        clear: one contender is fastest, with no other level, in two thirds of the cases.
        ours: the contender the sentence is about, or ''.
        evidence: the ids of the cell rows that the sentence rests on.
    """

    suite: str
    title: str
    family: str
    run: str
    device: str
    kind: Kind
    headline: str
    clauses: tuple[str, ...]
    clear: bool
    ours: str = ""
    facts: tuple[Fact, ...] = ()
    evidence: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """All of it in one go."""
        return " ".join(self.clauses)


def verdicts(rows: Iterable[Row], plan: Mapping[str, Any], catalogue: Mapping[str, Any]) -> list[Verdict]:
    """One verdict for each suite and device that has a cell row, in the catalogue's order."""
    return [_verdict(suite) for suite in suites(rows, plan, catalogue)]


def as_text(found: Sequence[Verdict]) -> str:
    """The verdicts for a terminal: a title, the headline and the sentence each."""
    several = len({verdict.device for verdict in found}) > 1
    parts = []
    for verdict in found:
        where = f" on {verdict.device}" if several else ""
        parts.append(f"{verdict.title}{where} [{verdict.kind}]\n  {verdict.headline}\n  {verdict.sentence}")
    return "\n\n".join(parts)


def _verdict(suite: SuiteRows) -> Verdict:
    place = suite.id, suite.title, suite.family, suite.run, suite.device_name
    speakers = {"training": outcomes.training, "ranks": ranked.ranks, "compile": compiled}
    speaker = weighed if suite.weighs else speakers.get(suite.kind)
    if speaker is not None and (said := speaker(suite)) is not None:
        told = said.kind, said.headline, said.clauses, said.clear, said.ours
        return Verdict(*place, *told, evidence=said.evidence)
    decided = [case for case in suite.cells if len(suite.ok(case)) > 1]
    ours = regions.best_of_ours(suite)
    kind = _kind(suite, ours, decided)
    clauses: tuple[str, ...] = (_no_data(suite),)
    if decided:
        clauses = _clauses(suite, ours, kind) if ours else (_without_ours(suite),)
        clauses += figures_of_its_own(suite)
    headline = _headline(suite) if decided else "Nothing to compare"
    alone = Counter(winners[0] for case in decided if len(winners := suite.unbeaten(case)) == 1)
    clear = bool(decided) and max(alone.values(), default=0) >= MOST_CASES * len(decided)
    facts = _facts(suite, ours) if ours and decided else ()
    evidence = tuple(row["row_id"] for case in decided for row in suite.cells[case].values() if row["status"] == "ok")
    return Verdict(*place, kind, headline, clauses, clear, ours, facts, evidence)


def _parts(suite: SuiteRows, ours: str) -> list[regions.Part]:
    chosen = regions.yardstick(suite, ours), regions.top_peer(suite, ours)
    rivals = [rival for rival in chosen if rival and suite.common(ours, rival)]
    return regions.parts(suite, ours, rivals) if rivals else [regions.Part("", suite)]


def _kind(suite: SuiteRows, ours: str, decided: Sequence[str]) -> Kind:
    rivals = regions.rivals(suite)
    if not decided:
        return "no data"
    if not rivals:
        return "only ours"
    if not ours:
        return "peer wins"
    if any(regions.region(part.suite, ours, rivals) for part in _parts(suite, ours)):
        return "win"
    found = suite.common(ours, regions.fastest(suite, rivals))
    mean = geometric_mean(found)
    kinds: dict[str, Kind] = {"faster": "win", "slower": "peer wins", "tie": "tie"}
    if mean is None:
        return "no data"
    return "not decided" if joint(found) == "open" else kinds.get(mean.outcome, "not decided")


def _headline(suite: SuiteRows) -> str:
    runs: list[tuple[tuple[str, ...], list[Any]]] = []
    for x in suite.xs():
        if not any(suite.ok(case) for case in cases_at(suite, [x])):
            continue
        holders = regions.holders(suite, x)
        if runs and runs[-1][0] == holders:
            runs[-1][1].append(x)
        else:
            runs.append((holders, [x]))
    names = [_named(suite, holders, xs) or regions.depends(suite, xs) for holders, xs in runs]
    if len(runs) == 1:
        return f"Fastest: {names[0]}"
    if len(runs) > 3:
        return f"Fastest: it changes with size; {lower(where(suite, runs[-1][1]))}, {names[-1]}"
    return "Fastest: " + "; ".join(
        f"{lower(where(suite, xs))}, {name}" for name, (_, xs) in zip(names, runs, strict=True)
    )


def _named(suite: SuiteRows, holders: Sequence[str], xs: Sequence[Any]) -> str:
    """Who is fastest at these sizes; where it is several, whether they are level or nothing is decided among them."""
    cases = cases_at(suite, xs)
    said = {joint(suite.common(a, b, cases)) for a, b in itertools.combinations(holders, 2)}
    if len(holders) > 3:
        return f"{len(holders)} are level" if said == {"tie"} else f"not decided between {len(holders)}"
    word = "" if len(holders) < 2 else " (level)" if said == {"tie"} else " (not decided)"
    return " or ".join(suite.entrants[holder].label for holder in holders) + word


def _clauses(suite: SuiteRows, ours: str, kind: Kind) -> tuple[str, ...]:
    if not regions.yardstick(suite, ours):
        return (f"{suite.entrants[ours].label} was never measured at the same case as another.",)
    said = tuple(clause(part, ours, regions.yardstick(part.suite, ours)) for part in _parts(suite, ours))
    last = {"peer wins": ("Nothing of ours is fastest here.",), "only ours": ("Only ours were measured here.",)}
    return (*said, *last.get(kind, ()))


def _facts(suite: SuiteRows, ours: str) -> tuple[Fact, ...]:
    against = regions.yardstick(suite, ours)
    cases = top_cases(suite, ours, against, suite.cells) if against else []
    found = suite.common(ours, against, cases)
    if (mean := geometric_mean(found)) is None:
        return ()
    words = {"tie": "level", "open": "not decided"}
    place = f"{where(suite, suite.xs(cases))}, {suite.entrants[ours].label} against {suite.entrants[against].label}"
    facts = [Fact("time", words.get(joint(found) or "", words.get(mean.outcome, times(mean.value))), place)]
    if (memory := median_ratio(suite, ours, against, cases, "peak_bytes")) is not None:
        facts.append(Fact("memory", share(memory), place))
    if (error := median_ratio(suite, ours, against, cases, "error_max")) is not None:
        facts.append(Fact("error", times(error), place))
    return tuple(facts)


def _reasons(rows: Iterable[Row]) -> str:
    counted = Counter((row["status"].replace("_", " "), row["reason"]) for row in rows if row["status"] != "ok")
    return "; ".join(f"{number} {status} ({reason})" for (status, reason), number in counted.most_common(2))


def _no_data(suite: SuiteRows) -> str:
    rows = [row for case in suite.cells.values() for row in case.values()]
    ran = [suite.entrants[i].label for i in regions.measured(suite, suite.entrants)]
    why = f": {reasons}" if (reasons := _reasons(rows)) else ""
    if ran:
        return f"Measured: {', '.join(ran)}. No case has two contenders to compare{why}."
    return f"None of the {len(rows)} cells could be measured{why}."


def _without_ours(suite: SuiteRows) -> str:
    every = (row for case in suite.cells.values() for row in case.values())
    rows = [row for row in every if row["origin"] == "bancada" and not row.get("reference")]
    why = f"Nothing of ours was measured here: {_reasons(rows)}." if rows else "Nothing of ours takes part here."
    reference, best = regions.yardstick(suite, ""), regions.fastest(suite, regions.rivals(suite))
    if reference == best or not suite.common(best, reference):
        return f"{why} {suite.entrants[best].label} is the fastest of the others."
    return (
        f"{why} Of the others, {suite.entrants[best].label} {against_words(suite, best, reference, list(suite.cells))}."
    )
