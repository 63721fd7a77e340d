"""What the rows say, in sentences a person would say aloud: used at the end of a sweep and on the report's cards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bancada.rows import Row
from bancada.verdicts import outcomes, ranked, regions
from bancada.verdicts.clauses import against_words, amounts, clause, comparable, share, times, top_cases
from bancada.verdicts.comparisons import MOST_CASES, SuiteRows, geometric_mean, joint, suites
from bancada.verdicts.compiled import compiled
from bancada.verdicts.figures import figures_of_its_own, say_bytes
from bancada.verdicts.headline import headline
from bancada.verdicts.outcomes import Kind
from bancada.verdicts.phrases import below
from bancada.verdicts.regions import where
from bancada.verdicts.weighed import weighed

MOST_CLAUSES = 3


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
    if not decided:
        return Verdict(*place, "no data", "Nothing to compare", (_no_data(suite),), clear=False)
    champions = regions.champions(suite)
    kind = _kind(suite, champions)
    clauses = _clauses(suite, champions, kind) if champions else (_without_ours(suite),)
    alone = Counter(winners[0] for case in decided if len(winners := suite.unbeaten(case)) == 1)
    clear = max(alone.values(), default=0) >= MOST_CASES * len(decided)
    ours = champions[0][1] if champions else ""
    facts = _facts(suite, ours) if len(champions) == 1 else ()
    evidence = tuple(suite.cells[case][one]["row_id"] for case in decided for one in suite.ok(case))
    clauses += figures_of_its_own(suite)
    return Verdict(*place, kind, headline(suite), clauses, clear, ours, facts, evidence)


def _parts(suite: SuiteRows, ours: str) -> list[regions.Part]:
    chosen = regions.yardstick(suite, ours), regions.top_peer(suite, ours)
    rivals = [rival for rival in chosen if rival and suite.common(ours, rival)]
    return regions.parts(suite, ours, rivals) if rivals else [regions.Part("", suite)]


def _kind(suite: SuiteRows, champions: Sequence[regions.Champion]) -> Kind:
    """The best that can be said of one of ours."""
    if not regions.rivals(suite):
        return "only ours"
    said = {_kind_of(part.suite, ours) for part, ours in champions}
    order: tuple[Kind, ...] = ("win", "tie", "not decided", "peer wins")
    return next((kind for kind in order if kind in said), "no data" if champions else "peer wins")


def _kind_of(suite: SuiteRows, ours: str) -> Kind:
    rivals = [rival for rival in regions.rivals(suite) if suite.common(ours, rival)]
    if any(regions.region(part.suite, ours, rivals) for part in _parts(suite, ours)):
        return "win"
    found = suite.common(ours, regions.fastest(suite, rivals))
    mean = geometric_mean(found)
    kinds: dict[str, Kind] = {"faster": "win", "slower": "peer wins", "tie": "tie"}
    if mean is None:
        return "no data"
    return "not decided" if joint(found) == "open" else kinds.get(mean.outcome, "not decided")


def _clauses(suite: SuiteRows, champions: Sequence[regions.Champion], kind: Kind) -> tuple[str, ...]:
    said = [text for champion in champions for text in _champion(*champion)]
    said[MOST_CLAUSES:] = below(len(said) - MOST_CLAUSES)
    return (*said, *_last(suite, kind))


def _last(suite: SuiteRows, kind: Kind) -> list[str]:
    """What no clause says: that none of ours is fastest, or not for certain; that nobody else was measured."""
    if kind == "only ours":
        return ["Only ours were measured here."]
    if kind != "peer wins":
        return []
    ahead = any(suite.entrants[one].ours for x in suite.xs() for one in regions.holders(suite, x))
    return [f"Nothing of ours is {'shown to be ' if ahead else ''}fastest here."]


def _champion(part: regions.Part, ours: str) -> Iterator[str]:
    """What is said of the best of ours where it ran."""
    suite = part.suite
    if not regions.yardstick(suite, ours):
        name = suite.entrants[ours].label
        yield f"{part.prefix}{name} was never measured at the same case as another."
        return
    for smaller in [part] if part.prefix else _parts(suite, ours):
        yield clause(smaller, ours, regions.yardstick(smaller.suite, ours))


def _facts(suite: SuiteRows, ours: str) -> tuple[Fact, ...]:
    against = regions.yardstick(suite, ours)
    cases = top_cases(suite, ours, against, suite.cells) if against else []
    found = suite.common(ours, against, cases)
    if (mean := geometric_mean(found)) is None:
        return ()
    words = {"tie": "level", "open": "not decided"}
    place = f"{where(suite, suite.xs(cases))}, {suite.entrants[ours].label} against {suite.entrants[against].label}"
    facts = [Fact("time", words.get(joint(found) or "", words.get(mean.outcome, times(mean.value))), place)]
    if (memory := amounts(suite, ours, against, cases, "peak_bytes")) is not None:
        ratio, mine, its = memory
        said = share(ratio) if comparable(ratio) else f"{say_bytes(mine)} in place of {say_bytes(its)}"
        facts.append(Fact("memory", said, place))
    if (error := amounts(suite, ours, against, cases, "error_max")) is not None:
        ratio, mine, its = error
        facts.append(Fact("error", times(ratio) if comparable(ratio) else f"{mine:.1e} in place of {its:.1e}", place))
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
