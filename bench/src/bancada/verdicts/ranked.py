"""What ranks say, in sentences: parity with one process, bytes kept and sent, step times by technique."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

from bancada.rows import Row
from bancada.verdicts.clauses import interval
from bancada.verdicts.comparisons import Mean, Outcome, SuiteRows, geometric_mean
from bancada.verdicts.figures import SAME, say_bytes
from bancada.verdicts.outcomes import Kind, Said

COLLECTIVES = ("all_gather", "reduce_scatter", "all_to_all", "broadcast", "gather", "scatter", "reduce")
Twin = tuple[str, str, Mean]
"""One of ours, a peer of the same technique, and the ratio of their step times over the cases of both."""


def ranks(suite: SuiteRows) -> Said | None:
    """Whether ranks give what one process gives, who keeps and sends least, and step times by technique."""
    cases = [case for case in suite.cells if suite.ok(case)]
    if not cases:
        return None
    rows = [suite.cells[case][one] for case in cases for one in suite.ok(case)]
    wrong = sorted({row["contender"] for case in suite.cells.values() for row in case.values()
                    if row["status"] == "incorrect"})  # fmt: skip
    sizes = sorted({int(suite.axes[case]["world_size"]) for case in cases if "world_size" in suite.axes[case]})
    twins = _twins(suite, cases)
    least, kinds = _least(suite, cases)
    clauses = [_parity(suite, rows, wrong, sizes), *least[1:], _step_times(suite, twins)]
    named = f"{' and '.join(map(str, sizes))} ranks" if sizes else "the ranks"
    headline = least[0] if least else f"One result on {named}"
    if wrong:
        label = ", ".join(suite.entrants[one].label for one in wrong)
        headline = f"Not everybody gives one process's result on {named}: {label}"
    ours = next((one for one in suite.entrants if suite.entrants[one].ours), "")
    told = tuple(text for text in clauses if text)
    kind = next((kind for kind in BEST_FIRST if kind in kinds), _kind(twins))
    return Said(kind, headline, told, False, ours, tuple(row["row_id"] for row in rows))


def _kind(twins: Sequence[Twin]) -> Kind:
    """`win` where one of ours takes less time a step than every peer of its technique, and so on: see `Verdict`.

    It counts where all keep and send the same.
    """
    peers: dict[str, list[Outcome]] = {}
    for mine, _, mean in twins:
        peers.setdefault(mine, []).append(mean.outcome)
    said = [set(outcomes) for outcomes in peers.values()]
    if not said:
        return "no data"
    if {"faster"} in said:
        return "win"
    if all("slower" in outcomes for outcomes in said):
        return "peer wins"
    return "tie" if all(outcomes == {"tie"} for outcomes in said) else "not decided"


def _parity(suite: SuiteRows, rows: Sequence[Row], wrong: Sequence[str], sizes: Sequence[int]) -> str:
    most = max((float(row["error_rel"]) for row in rows if "error_rel" in row), default=None)
    number = len({row["contender"] for row in rows})
    far = "" if most is None else f"; the largest difference is {most:.1e} of a tensor's norm"
    size = " and ".join(map(str, sizes)) or "several"
    text = f"{number} contenders leave on {size} ranks what one process leaves{far}."
    return text + (f" Wrong: {', '.join(suite.entrants[one].label for one in wrong)}." if wrong else "")


def _sum(row: Row, prefix: str) -> float | None:
    found = [value for name, value in row.items() if name.startswith(prefix) and isinstance(value, (int, float))]
    return float(sum(found)) if found else None


def model_state(row: Row) -> float | None:
    """Bytes kept between steps; activations are held within one."""
    return _sum({name: value for name, value in row.items() if name != "measure.bytes.activations"}, "measure.bytes.")


def link_bytes(row: Row, ranks: int) -> float:
    """What a step sends over one rank's link, where collectives run as rings over all ranks.

    Rows count the payload handed over, which is not what travels: of an all-reduce each rank sends 2 (n - 1) / n of it,
    of any other collective half as much, of a message all (Rajbhandari et al., ZeRO, section 7, arXiv 1910.02054).
    """
    share = (ranks - 1) / ranks
    factors = dict.fromkeys(COLLECTIVES, share) | {"all_reduce": 2 * share, "send": 1.0}
    return sum(factor * float(row.get(f"measure.comm.{name}.bytes", 0)) for name, factor in factors.items())


BEST_FIRST: tuple[Kind, ...] = ("win", "tie", "peer wins")


def _least(suite: SuiteRows, cases: Iterable[str]) -> tuple[list[str], set[Kind]]:
    """Of the case with most ranks: who keeps and sends least, as a headline and a sentence, and whether it is ours."""
    case = max(cases, key=lambda one: (suite.axes[one].get("world_size", 0), len(suite.ok(one))))
    ranks = int(suite.axes[case].get("world_size", 0))
    if not ranks:
        return [], set()
    rows = {one: suite.cells[case][one] for one in suite.ok(case)}
    kept = {one: size for one, row in rows.items() if (size := model_state(row))}
    sent = {one: size for one, row in rows.items() if (size := link_bytes(row, ranks))}
    found = [_smallest(suite, kept, "model state a rank", sent), _smallest(suite, sent, "traffic a rank and step", {})]
    said = [both for both in found if both is not None]
    headline, sentence = ("; ".join(texts) for texts in zip(*said, strict=True)) if said else ("", "")
    kinds = {kind for values in (kept, sent) if (kind := _kind_of_least(suite, values))}
    return [f"On {ranks} ranks: {headline}", f"On {ranks} ranks, {sentence}."] if said else [], kinds


def _best(values: Mapping[str, float]) -> list[str]:
    least = min(values.values())
    return [one for one, value in values.items() if value <= (1 + SAME) * least]


def _kind_of_least(suite: SuiteRows, values: Mapping[str, float]) -> Kind | None:
    """Whether the least is ours alone, ours and a peer's, or a peer's; None where it is everybody's."""
    if len(values) < 2 or len(best := _best(values)) == len(values):
        return None
    whose = {suite.entrants[one].ours for one in best}
    return "tie" if len(whose) == 2 else "win" if True in whose else "peer wins"


def _smallest(
    suite: SuiteRows, values: Mapping[str, float], what: str, sent: Mapping[str, float]
) -> tuple[str, str] | None:
    """`least model state a rank, ZeroStage3 (3.52 MiB)`; and beside the reference, with the bytes that it sends."""
    if len(values) < 2:
        return None
    least, best = min(values.values()), _best(values)
    if len(best) == len(values):
        return f"the same {what} for all ({say_bytes(least)})", f"all have the same {what}, {say_bytes(least)}"
    best.sort(key=lambda one: not suite.entrants[one].ours)
    label = {one: suite.entrants[one].label for one in values}
    who = " and ".join(label[one] for one in best) if len(best) < 3 else f"{label[best[0]]} and {len(best) - 1} more"
    text = f"{who} {'has' if len(best) == 1 else 'have'} the least {what}, {say_bytes(least)}"
    reference = next((one for one in values if suite.entrants[one].reference and one not in best), "")
    if reference:
        text += f" ({least / values[reference]:.2f}x {label[reference]}'s)"
        if reference in sent and best[0] in sent:
            text += f", for which {label[best[0]]} sends {sent[best[0]] / sent[reference]:.2f}x its bytes a step"
    return f"least {what}, {who} ({say_bytes(least)})", text


def _twins(suite: SuiteRows, cases: Sequence[str]) -> list[Twin]:
    """(ours, peer, ratio of step times) for each of ours raced with a peer of the same technique, over common cases."""
    technique = {one: row["technique"] for case in cases for one, row in suite.cells[case].items()}
    found: list[Twin] = []
    for mine, other in itertools.product(technique, technique):
        if not suite.entrants[mine].ours or suite.entrants[other].ours or technique[mine] != technique[other]:
            continue
        raced = [case for case in cases if (case, mine, other) in suite.pairs]
        if (mean := geometric_mean(suite.common(mine, other, raced))) is not None:
            found.append((mine, other, mean))
    return found


def _step_times(suite: SuiteRows, twins: Sequence[Twin]) -> str:
    """Those that are told apart, then how many are not."""
    if not twins:
        return ""
    label = {one: entrant.label for one, entrant in suite.entrants.items()}
    apart = [twin for twin in twins if twin[2].outcome in ("faster", "slower")]
    parts = [f"{label[mine]} {interval(mean)} {label[other]}'s" for mine, other, mean in apart]
    level, rest = sum(mean.outcome == "tie" for *_, mean in twins), len(twins) - len(apart)
    if rest:
        word = "level" if level == rest else "not decided" if not level else "level or not decided"
        pairs = "the one pair" if len(twins) == 1 else f"{rest} of {len(twins)} pairs"
        parts.append(f"{pairs} of one technique {word}")
    return f"Step times in one race: {'; '.join(parts)}. Ranks that share cores say nothing of scaling."
