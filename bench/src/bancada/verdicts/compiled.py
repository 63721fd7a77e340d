"""What compiled configurations say, in sentences: how many are worth a run on the GPU, and which comes first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bancada.compiled.ranking import Place, groups, placed
from bancada.rows import Row
from bancada.verdicts.comparisons import SuiteRows
from bancada.verdicts.figures import say_bytes
from bancada.verdicts.outcomes import Said
from bancada.verdicts.phrases import below

MOST_CLAUSES = 4
NOT_TIMED = "Compiled, not measured: nothing here was timed, and no GPU was asked."


def compiled(suite: SuiteRows) -> Said | None:
    """What is left to try for each target, and what the first choice looks like; None where nothing was compiled."""
    rows = [row for case in suite.cells.values() for row in case.values()]
    places = placed(rows, suite.configuration, suite.metrics)
    if not places:
        return None
    by_target: dict[str, list[Row]] = {}
    for row in rows:
        by_target.setdefault(str(row["axis.target"]), []).append(row)
    said = "; ".join(f"{target}, {_left(mine, places)} of {len(mine)}" for target, mine in by_target.items())
    every = [group for group in groups(rows, suite.configuration) if any(row["row_id"] in places for row in group)]
    clauses = [NOT_TIMED, *(_clause(suite, group, every, places) for group in every[:MOST_CLAUSES])]
    clauses += below(len(every) - MOST_CLAUSES)
    return Said("compiled", f"Configurations worth a run: {said}", tuple(clauses), False, "", tuple(places))


def _left(rows: Sequence[Row], places: dict[str, Place]) -> int:
    return sum(row["row_id"] in places and not places[row["row_id"]].dominated_by for row in rows)


def _clause(suite: SuiteRows, group: Sequence[Row], every: Sequence[Sequence[Row]], places: dict[str, Place]) -> str:
    """`sm_90, forward: of 24 configurations 3 do not compile or fit, ... First in the order: 128 x 64, ...`."""
    ok = [row for row in group if row["row_id"] in places]
    left = _left(group, places)
    first = min(ok, key=lambda row: places[row["row_id"]].rank)
    lost = len(group) - len(ok)
    told = [f"{lost} {'does' if lost == 1 else 'do'} not compile or fit"] if lost else []
    if worse := len(ok) - left:
        told.append(f"{worse} {'is' if worse == 1 else 'are'} dominated")
    told.append(f"{left} {'is' if left == 1 else 'are'} left to try")
    place = _place(suite, group[0], [other[0] for other in every])
    number = f"{len(group)} configuration{'' if len(group) == 1 else 's'}"
    return f"{place}: of {number} {', '.join(told)}. First in the order: {_looks(first)}."


def _place(suite: SuiteRows, row: Row, others: Sequence[Row]) -> str:
    """The target, then the contender and the values of the axes, where they differ between the groups."""
    names = [name for name in row if name.startswith("axis.") and name[5:] not in ("target", *suite.configuration)]
    differing = [name for name in names if len({str(other.get(name)) for other in others}) > 1]
    who = [str(row["label"])] if len({other["contender"] for other in others}) > 1 else []
    return ", ".join([str(row["axis.target"]), *who, *(_axis(name[5:], row[name]) for name in differing)])


def _axis(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return name if value else f"not {name}"
    return str(value) if isinstance(value, str) else f"{name} {value}"


def _looks(row: Row) -> str:
    """`128 x 64, 8 warps, 3 stages (16 warps resident, 25% of the most, no stack, 96 KiB of shared memory)`."""
    stack = row["measure.stack_bytes"]
    spilled = f"a stack of {say_bytes(stack)} a thread" if stack else "no stack"
    return (
        f"{row.get('note.configuration', row['case'])} ({row['measure.resident_warps']:.0f} warps resident, "
        f"{row['measure.occupancy']:.0%} of the most, {spilled}, "
        f"{say_bytes(row['measure.shared_bytes'])} of shared memory a block)"
    )
