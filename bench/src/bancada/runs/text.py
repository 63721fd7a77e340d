"""What the commands over runs print: two runs side by side, and a row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bancada import runs
from bancada.rows import Row
from bancada.runs.compare import FEWEST, Change, Compared, Side
from bancada.runs.show import Found
from bancada.shell import print_table
from bancada.verdicts.comparisons import Outcome, high_s, low_s, said_of
from bancada.verdicts.figures import say_bytes, say_time

MOST_CHANGES = 40
_OWN = ("measure.", "hyper.", "note.")
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
        word = "unstable in B, so not compared" if after["status"] == "unstable" else "not in B"
        said.append(f"Measured in A ({say_time(before['time_s'])}), {word}: {place}: {_why(after)}")
    for name, only in (("A", found.only_a), ("B", found.only_b)):
        if only:
            said.append(f"Only in {name}: {_count(len(only), 'cell')} ({_by_suite(only)}).")
    return said


def _why(row: Row) -> str:
    """The reason of a row that is not ok, after its time where it was measured all the same, else after its status."""
    timed = row["status"] == "unstable" and "time_s" in row
    told = say_time(row["time_s"]) if timed else row["status"].replace("_", " ")
    return f"{told}, {row['reason']}"


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
            *(escape(str(text)) for text in (row["suite"], row["case"], row.get("label") or row["contender"])),
            say_time(change.before["time_s"]),
            say_time(row["time_s"]),
            f"{ratio.ratio:.3f}",
            f"[{ratio.low:.3f}, {ratio.high:.3f}]",
            SAID[ratio.outcome],
        )
    return table


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _by_suite(found: Sequence[Row]) -> str:
    return ", ".join(f"{suite} {number}" for suite, number in Counter(row["suite"] for row in found).items())


def show_row(console: Console, found: Found) -> None:
    """A row with what it was compared with, and the command that measures it again."""
    row = found.row
    console.print(f"{row.get('label') or row['contender']}  {row['status'].replace('_', ' ')}", markup=False)
    facts = [(name, value) for name, value in _facts(row, found.of) if value]
    width = max(len(name) for name, _ in facts)
    for name, value in facts:
        console.print(f"{name:<{width}}  {value}", markup=False)
    if found.pairs:
        console.print("\nIn the same rounds:")
        labels = {one["contender"]: one.get("label") or one["contender"] for one in found.of.cells.values()}
        for pair in sorted(found.pairs, key=lambda pair: float(pair["ratio"])):
            console.print(f"  {_against(pair, str(labels.get(pair['b'], pair['b'])))}", markup=False)
    if found.others:
        console.print(f"\nThe same cell stands in: {', '.join(found.others)}", markup=False)
    console.print(f"\nMeasure it again:\n{row['command']}", markup=False)


def _facts(row: Row, of: Side) -> list[tuple[str, str]]:
    def figure(name: str, say: Callable[[float], str]) -> str:
        return say(float(row[name])) if name in row else ""

    ends = f" [{say_time(low_s(row))}, {say_time(high_s(row))}]" if "time_low_s" in row else ""
    limit = f", {row['compute_share']:.0%} of the matrix-product ceiling" if "compute_share" in row else ""
    return [
        ("row", row["row_id"]),
        ("run", f"{of.name}, {row['time'][:16].replace('T', ' ')}, commit {row['commit']}"),
        ("suite", row["suite"]),
        ("case", row["case"]),
        ("reason", row["reason"]),
        ("time", f"{say_time(row['time_s'])}{ends}{_sampled(row)}" if "time_s" in row else ""),
        ("warm caches", figure("warm_s", say_time)),
        ("host's clock", figure("host_s", say_time)),
        ("peak memory", figure("peak_bytes", say_bytes)),
        ("first call", figure("first_call_s", say_time)),
        ("energy", figure("energy_j", lambda joules: f"{joules:.3g} J a call")),
        ("clock", figure("clock_mhz", lambda mhz: f"{mhz:.0f} MHz")),
        ("slowed by", str(row.get("slowed_by", ""))),
        ("rate", figure("flops_per_s", lambda rate: f"{rate / 1e9:,.3g} GFLOP/s{limit}")),
        (
            "error",
            figure("error_max", lambda error: f"{error:.2g} at most, {row.get('error_rel', 0.0):.2g} of the norm"),
        ),
        *[(name.partition(".")[2], str(value)) for name, value in row.items() if name.startswith(_OWN)],
        ("precision", str(row.get("precision", ""))),
        ("backend", str(row.get("backend", ""))),
        ("machine", f"{runs.machine_words(of.head or row)}; {_count(row['threads'], 'thread')} for this cell"),
        ("driver", row["driver"]),
        ("versions", row["versions"]),
    ]


def _sampled(row: Row) -> str:
    """How many samples a row's time is of, and what one is."""
    if "rounds" not in row or "loops" not in row:
        return ""
    told = f", {_count(row['rounds'], 'sample')} of {_count(row['loops'], 'call')}"
    alone = f", each the median of {row.get('block_rounds')} in a process of its own"
    return told + (alone if row.get("isolate") == "process" else "")


def _against(pair: Row, label: str) -> str:
    """`0.625 [0.595, 0.658] of the time of torch SDPA: faster than it`."""
    low, high = (f"{pair[end]:.3f}" for end in ("low", "high"))
    said = {"tie": "level with", "open": "not decided against"}.get(outcome := said_of(pair), f"{outcome} than")
    return f"{pair['ratio']:.3f} [{low}, {high}] of the time of {label}: {said} it"
