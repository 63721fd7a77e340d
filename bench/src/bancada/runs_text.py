"""What the commands over runs print: two runs side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from bancada import runs
from bancada.compare import FEWEST, Change, Compared, Side
from bancada.comparisons import Outcome
from bancada.figures import say_time
from bancada.rows import Row
from bancada.shell import print_table

MOST_CHANGES = 40
SAID: dict[Outcome, str] = {"slower": "slower", "faster": "faster", "tie": "level", "open": "not decided"}


def show_compared(console: Console, found: Compared, whole: bool = False) -> None:
    """Two runs as text: what stands against what, the cells (the worst first), what only one of them holds.

    Args:
        console: where to.
        found: the comparison.
        whole: every cell; otherwise all that are slower, and others up to `MOST_CHANGES`.
    """
    for one in (found.a, found.b):
        for problem in one.problems:
            console.print(f"{one.name}: {problem}", markup=False)
    console.print(f"A: {_side(found.a)}\nB: {_side(found.b)}", markup=False)
    if found.across:
        console.print("Two machines: the times compare them, not two versions of the code.")
    if found.changes:
        slower = sum(change.times.outcome == "slower" for change in found.changes)
        most = len(found.changes) if whole else max(MOST_CHANGES, slower)
        console.print()
        print_table(console, _table(found.changes[:most]))
        if len(found.changes) > most:
            console.print(f"and {len(found.changes) - most} more cells (--all prints them)", markup=False)
    console.print()
    for line in summary(found):
        console.print(line, markup=False)


def show_failed(console: Console, found: Compared, limit: float) -> bool:
    """Says whether B is too slow: a cell beyond `limit` (0.05: 5%) with its whole interval, or one that failed."""
    slower, broken, share = found.slower_than(limit), found.broken, f"{limit * 100:.3g}%"
    if not slower and not broken:
        console.print(
            f"Passed: no cell is slower by more than {share} with its whole interval, and none fails.", markup=False
        )
        return False
    told = [f"{_count(len(slower), 'cell')} slower by more than {share} with the whole interval"] if slower else []
    told += [f"{_count(len(broken), 'cell')} that A has measured and that fails in B"] if broken else []
    console.print(f"Failed: {' and '.join(told)}.", markup=False)
    return True


def summary(found: Compared) -> list[str]:
    """The comparison in sentences."""
    counted = Counter(change.times.outcome for change in found.changes)
    words = ", ".join(f"{counted[outcome]} {word}" for outcome, word in SAID.items())
    said = [f"{_count(len(found.changes), 'cell')} measured in both; in B: {words}."]
    if found.changes and not found.across:
        said.append(_how_sure(found))
    for before, after in found.lost:
        place = f"{after['suite']} {after['case']} {after['contender']}"
        said.append(
            f"Measured in A ({say_time(before['time_s'])}), not in B: {place}: {after['status']}, {after['reason']}"
        )
    for name, only in (("A", found.only_a), ("B", found.only_b)):
        if only:
            said.append(f"Only in {name}: {_count(len(only), 'cell')} ({_by_suite(only)}).")
    return said


def _how_sure(found: Compared) -> str:
    width = f"Intervals are {found.widening:.1f}x as wide as those within one run"
    if not found.controls:
        return f"{width}: no peer was measured in both, so how much the runs differ as wholes is not known."
    those = f"{_count(found.controls, 'cell')} whose code is the same in both (peers)"
    few = " (too few to go by alone)" if found.controls < FEWEST else ""
    return f"{width}, by the {those}{few}; in B these take {found.shift:.2f} times as long, in the median."


def _side(one: Side) -> str:
    head = one.head
    told = [str(head.get("time", ""))[:16].replace("T", " "), f"commit {head['commit']}" if head.get("commit") else ""]
    return ", ".join([one.name, runs.machine_words(head), *(text for text in told if text)])


def _table(changes: Sequence[Change]) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("suite", "case", "contender"):
        table.add_column(title)
    for title in ("A", "B", "B / A"):
        table.add_column(title, justify="right")
    table.add_column("interval")
    table.add_column("B is")
    for change in changes:
        row, ratio = change.after, change.times
        table.add_row(
            row["suite"],
            row["case"],
            str(row.get("label") or row["contender"]),
            say_time(change.before["time_s"]),
            say_time(row["time_s"]),
            f"{ratio.ratio:.3f}",
            f"[{ratio.low:.3f}, {ratio.high:.3f}]".replace("[", r"\["),
            SAID[ratio.outcome],
        )
    return table


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _by_suite(found: Sequence[Row]) -> str:
    return ", ".join(f"{suite} {number}" for suite, number in Counter(row["suite"] for row in found).items())
