"""What ranks say, in sentences: parity with one process, bytes kept and sent, step times by technique."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence

from bancada.rows import Row
from bancada.verdicts.comparisons import Mean, SuiteRows, geometric_mean
from bancada.verdicts.figures import say_bytes
from bancada.verdicts.outcomes import Kind, Said


def ranks(suite: SuiteRows) -> Said | None:
    """Whether ranks give what one process gives, who keeps and sends least, and step times by technique."""
    cases = [case for case in suite.cells if suite.ok(case)]
    if not cases:
        return None
    rows = [suite.cells[case][one] for case in cases for one in suite.ok(case)]
    wrong = sorted({row["contender"] for case in suite.cells.values() for row in case.values()
                    if row["status"] == "incorrect"})  # fmt: skip
    sizes = sorted({int(suite.axes[case]["world_size"]) for case in cases if "world_size" in suite.axes[case]})
    clauses = [_parity(suite, rows, wrong, sizes)]
    twins = _twins(suite, cases)
    clauses += [text for text in (_least(suite, cases), _step_times(suite, twins)) if text]
    counted = Counter(mean.outcome for _, _, mean in twins)
    kind: Kind = "tie"
    if not counted:
        kind = "no data"
    elif counted["faster"] != counted["slower"]:
        kind = "win" if counted["faster"] > counted["slower"] else "peer wins"
    named = f"{' and '.join(map(str, sizes))} ranks" if sizes else "the ranks"
    label = suite.entrants[wrong[0]].label if wrong else ""
    headline = f"Not everybody gives one process's result on {named}: {label}" if wrong else f"One result on {named}"
    ours = next((one for one in suite.entrants if suite.entrants[one].ours), "")
    return Said(kind, headline, tuple(clauses), False, ours, tuple(row["row_id"] for row in rows))


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


def _model_state(row: Row) -> float | None:
    """Bytes kept between steps; activations are held within one."""
    return _sum({name: value for name, value in row.items() if name != "measure.bytes.activations"}, "measure.bytes.")


def _by_messages(row: Row) -> bool:
    """Whether it sends message by message, whose bytes count at both ends: not to be set beside a collective's."""
    return any(name.startswith(("measure.comm.send.", "measure.comm.recv.")) for name in row)


def _least(suite: SuiteRows, cases: Iterable[str]) -> str:
    """Of the case with most ranks: who keeps least, and what that costs in bytes sent."""
    case = max(cases, key=lambda one: (suite.axes[one].get("world_size", 0), len(suite.ok(one))))
    kept = {one: size for one in suite.ok(case) if (size := _model_state(suite.cells[case][one]))}
    reference = next((one for one in kept if suite.entrants[one].reference), "")
    if not reference or len(kept) < 2:
        return ""
    best = min(kept, key=lambda one: (kept[one], not suite.entrants[one].ours))
    if best == reference:
        return ""
    sent, usual = (float(suite.cells[case][one].get("measure.comm.bytes", 0)) for one in (best, reference))
    alike = _by_messages(suite.cells[case][best]) == _by_messages(suite.cells[case][reference])
    more = f" and sends {sent / usual:.2f}x its bytes a step" if sent and usual and alike else ""
    share = f"{kept[best] / kept[reference]:.2f}x {suite.entrants[reference].label}'s"
    return (f"On {suite.axes[case].get('world_size')} ranks {suite.entrants[best].label} keeps the least model state, "
            f"{say_bytes(kept[best])} on the fullest rank ({share}){more}.")  # fmt: skip


def _twins(suite: SuiteRows, cases: Sequence[str]) -> list[tuple[str, str, Mean]]:
    """(ours, peer, ratio of step times) for each of ours raced with a peer of the same technique, over common cases."""
    technique = {one: row["technique"] for case in cases for one, row in suite.cells[case].items()}
    found: list[tuple[str, str, Mean]] = []
    for mine, other in itertools.product(technique, technique):
        if not suite.entrants[mine].ours or suite.entrants[other].ours or technique[mine] != technique[other]:
            continue
        raced = [case for case in cases if (case, mine, other) in suite.pairs]
        if (mean := geometric_mean(suite.common(mine, other, raced))) is not None:
            found.append((mine, other, mean))
    return found


def _step_times(suite: SuiteRows, twins: Sequence[tuple[str, str, Mean]]) -> str:
    if not twins:
        return ""
    label = {one: entrant.label for one, entrant in suite.entrants.items()}
    parts = [
        f"{label[mine]} {mean.value:.2f}x [{mean.low:.2f}, {mean.high:.2f}] {label[other]}'s"
        for mine, other, mean in twins
    ]
    return f"Step times in one race: {'; '.join(parts)}. Ranks that share cores say nothing of scaling."
