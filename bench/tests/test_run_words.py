"""What the commands over runs say, whole: two runs side by side, a row; and the arithmetic of two runs at its edges."""

from __future__ import annotations

import io
import math
from typing import Any

import pytest
from rich.console import Console

from bancada import rows
from bancada.runs import text
from bancada.runs.compare import FAILED, Compared, Side, compare, limit_of, widening
from bancada.runs.show import Found

HEAD: rows.Row = {
    "device": "cpu",
    "device_name": "C[red]",
    "env.cores": 4,
    "time": "2026-01-05T10:00:00",
    "commit": "c0",
}


def cell(contender: str, time_s: float = 1.0, wide: float = 0.0, **more: Any) -> rows.Row:
    """A peer's cell, its interval `wide` to both sides in logarithms."""
    ends = {"time_low_s": time_s * math.exp(-wide), "time_high_s": time_s * math.exp(wide)}
    named = {"suite": "s", "case": "[/c]", "contender": contender, "origin": "peer", "versions": "v", "label": ""}
    return named | {"kind": "cell", "status": "ok", "reason": "", "time_s": time_s} | ends | more


def side(name: str, *cells: rows.Row, head: rows.Row = HEAD, problems: tuple[str, ...] = ()) -> Side:
    return Side(name, head, {rows.cell_key(row): row for row in cells}, problems)


def printed(found: Compared, whole: bool = False) -> str:
    console = Console(file=(file := io.StringIO()), width=200)
    text.show_compared(console, found, whole)
    return file.getvalue()


def ours(contender: str, time_s: float, wide: float = 0.0, **more: Any) -> rows.Row:
    return cell(contender, time_s, wide, origin="bancada", **more)


def test_two_runs_are_told_whole() -> None:
    a = side(
        "a", cell("p"), ours("slow", 1.0, label="Slow [/ours]"), ours("worse", 1.0), ours("fast", 1.0),
        ours("wide", 1.0), ours("wider", 1.0), ours("gone", 1.5), ours("shaky", 2.5), ours("bare", 1.0),
        ours("lost", 1.0),
        problems=("rows.jsonl: line 3, not JSON: dropped [x]",),
    )  # fmt: skip
    b = side(
        "b", cell("p"), ours("slow", 1.1, label="Slow [/ours]"), ours("worse", 1.2), ours("fast", 0.5),
        ours("wide", 1.01, 0.5), ours("wider", 1.02, 0.5),
        ours("gone", 1.0, status="out_of_memory", reason="killed [9]"),
        ours("shaky", 0.5, status="unstable", reason="it drifted"),
        {name: value for name, value in ours("bare", 1.0, status="unstable", reason="odd").items() if name != "time_s"},
        *(ours(f"new{number}", 1.0, case=str(number)) for number in range(1100)),
        head=HEAD | {"commit": ""},
    )  # fmt: skip
    found = compare(a, b)
    assert [one.after["contender"] for one in found.changes] == ["worse", "slow", "wider", "wide", "p", "fast"]
    lines = [line.rstrip() for line in printed(found).splitlines()]
    assert lines[:3] == [
        "a: rows.jsonl: line 3, not JSON: dropped [x]",
        "A: a, C[red] (4 cores), 2026-01-05 10:00, commit c0",
        "B: b, C[red] (4 cores), 2026-01-05 10:00",
    ]
    assert [line.split() for line in lines[4:7]] == [
        ["suite", "case", "contender", "A", "B", "B", "/", "A", "interval", "B", "is"],
        ["s", "[/c]", "worse", "1.00", "s", "1.20", "s", "1.200", "[1.171,", "1.230]", "slower"],
        ["s", "[/c]", "Slow", "[/ours]", "1.00", "s", "1.10", "s", "1.100", "[1.073,", "1.128]", "slower"],
    ]
    assert [line.rsplit("  ")[-1] for line in lines[7:11]] == ["not decided", "not decided", "level", "faster"]
    assert lines[12:] == [
        "6 cells measured in both; in B: 2 slower, 1 faster, 1 level, 2 not decided.",
        "Intervals are 2.5x as wide as those within one run, by the 1 cell whose code is the same in both (peers) "
        "(too few to go by alone); in B these take 1.00 times as long, in the median.",
        "Measured in A (1.50 s), not in B: s [/c] gone: out of memory, killed [9]",
        "Measured in A (2.50 s), unstable in B, so not compared: s [/c] shaky: 500 ms, it drifted",
        "Measured in A (1.00 s), unstable in B, so not compared: s [/c] bare: unstable, odd",
        "Only in A: 1 cell (s 1).",
        "Only in B: 1,100 cells (s 1100).",
    ]


def test_what_two_runs_differ_by_as_wholes_is_said_as_far_as_it_is_known() -> None:
    one = ours("x", 1.0)
    assert text.summary(compare(side("a", one), side("b", one)))[1] == (
        "Intervals are 2.5x as wide as those within one run: no peer was measured in both, so how much the runs differ "
        "as wholes is not known."
    )
    peers = [cell(str(number)) for number in range(20)]
    twice = [cell(str(number), 2.0) for number in range(20)]
    said = text.summary(compare(side("a", *peers), side("b", *twice)))[1]
    assert said == (
        "Intervals are 69.7x as wide as those within one run, by the 20 cells whose code is the same in both (peers); "
        "in B these take 2.00 times as long, in the median."
    )
    across = compare(side("a", one), side("b", one, head={}), across_machines=True)
    assert len(text.summary(across)) == 1
    assert "\nB: b, an unknown device\nTwo machines: the times compare them, not two versions" in printed(across)
    assert "Two machines" not in printed(compare(side("a", one), side("b", one)))
    none = compare(side("a", one), side("b", one | {"status": "crashed", "reason": "x"}))
    assert len(text.summary(none)) == 2 and "B is" not in printed(none)


@pytest.mark.parametrize(("slower", "shown", "more"), [(0, 40, 20), (45, 45, 15), (60, 60, 0)])
def test_every_slower_cell_is_printed_and_others_up_to_forty(slower: int, shown: int, more: int) -> None:
    names = [str(number) for number in range(60)]
    a = side("a", *(ours(name, 1.0) for name in names))
    b = side("b", *(ours(name, 3.0 if place < slower else 1.0) for place, name in enumerate(names)))
    said, all_of_them = printed(compare(a, b)), printed(compare(a, b), whole=True)
    assert said.count("\ns ") == shown and all_of_them.count("\ns ") == 60
    assert (f"and {more} more cells (--all prints them)" in said) == (more > 0)
    assert "more cells" not in all_of_them


def failed(*after: rows.Row, limit: float = 0.05) -> tuple[bool, str]:
    a = side("a", *(ours(row["contender"], 1.0) for row in after))
    console = Console(file=(file := io.StringIO()), width=200)
    return text.show_failed(console, compare(a, side("b", *after)), limit), file.getvalue().strip()


def test_ci_is_told_how_many_cells_and_why() -> None:
    crash = ours("z", 1.0, status="crashed", reason="x")
    assert failed(ours("x", 1.02)) == (
        False, "Passed: no cell is slower by more than 5% with its whole interval, and none fails."
    )  # fmt: skip
    assert failed(ours("x", 2.0), limit=0.125) == (
        True, "Failed: 1 cell slower by more than 12.5% with the whole interval."
    )  # fmt: skip
    assert failed(crash) == (True, "Failed: 1 cell that A has measured and that fails in B.")
    assert failed(ours("x", 2.0), ours("y", 2.0), crash)[1] == (
        "Failed: 2 cells slower by more than 5% with the whole interval and "
        "1 cell that A has measured and that fails in B."
    )


@pytest.mark.parametrize("status", [one for one in rows.STATUSES if one != "ok"])
def test_a_cell_that_fails_in_b_is_broken_and_one_that_is_only_not_there_is_not(status: str) -> None:
    after = ours("x", 1.0, status=status, reason="r")
    assert failed(after)[0] == (status in FAILED) == (status not in ("unsupported", "unstable"))


def test_what_was_only_compiled_has_no_time_to_compare() -> None:
    compiled = {name: value for name, value in ours("x", 1.0).items() if not name.startswith("time_")}
    found = compare(side("a", compiled), side("b", compiled))
    assert not found.changes and not found.lost


def test_a_run_without_a_cell_says_why_where_its_lines_cannot_be_read() -> None:
    one, none = side("a", ours("x", 1.0)), side("n", problems=("line 1: schema=7: too new: skipped", "y", "z"))
    for pair in ((one, none), (none, one)):
        with pytest.raises(ValueError, match=r"run='n': it holds no cell \(line 1: schema=7.* and 2 more\), so"):
            compare(*pair)
    with pytest.raises(ValueError, match=r"it holds no cell \(y\), so"):
        compare(one, side("n", problems=("y",)))
    with pytest.raises(ValueError, match="it holds no cell, so"):
        compare(one, side("n"))


EDGE = math.log(1.01)


def test_an_interval_between_runs_is_the_half_widths_in_squares_with_one_percent_as_the_least() -> None:
    (one,) = compare(side("a", ours("x", 1.0, 0.03)), side("b", ours("x", 1.2, 0.04))).changes
    half = 2.5 * math.hypot(0.03, 0.04, EDGE)
    assert math.log(one.times.high / 1.2) == pytest.approx(half) == math.log(1.2 / one.times.low)


def test_the_widening_at_its_numbers_of_cells() -> None:
    alike, apart = (cell("x"), cell("x")), (cell("x"), cell("x", 1.5))
    slower = (cell("x", 1.05), cell("x"))
    assert widening([alike] * 19) == 2.5 and widening([alike] * 20) == 1.0
    assert widening([alike] * 19 + [slower]) == pytest.approx(math.log(1.05) / EDGE)
    assert widening([alike] * 18 + [slower]) == pytest.approx(2 * math.log(1.05) / EDGE)
    assert widening([alike] * 97 + [apart]) > 20 and widening([alike] * 98 + [apart]) == 1.0


def test_times_whose_ratio_no_float_holds_are_compared() -> None:
    first = [cell(name, 1e-300 if name == "x" else 1e300, wide) for name, wide in (("x", 0), ("y", 0), ("z", 3))]
    second = [cell(name, 1e300 if name == "x" else 1e-300, wide) for name, wide in (("x", 0), ("y", 0), ("z", 3))]
    for a, b in ((first, second), (first[:1], second[:1]), (first[1:], second[1:])):
        found = compare(side("a", *a), side("b", *b))
        for one in found.changes:
            assert 0 < one.times.low <= one.times.ratio <= one.times.high < math.inf
        assert 0 < found.shift < math.inf and math.isfinite(found.widening)
    far = cell("x") | {"time_low_s": 1e-300, "time_high_s": 1e300}
    assert compare(side("a", far), side("b", far)).changes[0].times.outcome == "open"


def test_the_shift_is_the_median_over_cells_of_unchanged_code_alone() -> None:
    times = {"x": 1.1, "y": 1.2, "z": 9.0}
    a = side("a", *(cell(name) for name in times), ours("o", 1.0), cell("v"))
    b = side("b", *(cell(name, time_s) for name, time_s in times.items()), ours("o", 1.0), cell("v", versions="w"))
    found = compare(a, b)
    assert found.controls == 3 and found.shift == pytest.approx(1.2)


@pytest.mark.parametrize("text", ["1", "1.0", "inf", "-0.1"])
def test_a_limit_of_one_or_more_needs_its_percent_sign(text: str) -> None:
    with pytest.raises(ValueError, match="write a share, as 5% or"):
        limit_of(text)
    assert limit_of("100%") == 1.0 and limit_of(" 0% ") == 0.0


ROW: rows.Row = {
    "kind": "cell", "row_id": "0123", "suite": "s", "case": "[/c]", "contender": "x", "label": "X [b]", "status": "ok",
    "reason": "", "time_s": 2e-3, "time_low_s": 1e-3, "time_high_s": 3e-3, "rounds": 1200, "loops": 1, "warm_s": 4e-3,
    "host_s": 5e-3, "peak_bytes": 2**20, "first_call_s": 1.5, "energy_j": 0.25, "clock_mhz": 1980.4,
    "slowed_by": "heat [1]", "flops_per_s": 2e12, "compute_share": 0.5, "error_max": 1e-6, "error_rel": 2e-7,
    "measure.bits": 4, "hyper.lr": 0.1, "note.kernel": "k", "precision": "fp32", "backend": "torch", "device": "cpu",
    "device_name": "Row's", "threads": 1, "driver": "d1", "versions": "torch=2", "time": "2026-01-05T10:00:00+00:00",
    "commit": "c0", "command": "python -m bancada [again]",
}  # fmt: skip


def row_text(row: rows.Row, *pairs: rows.Row, head: rows.Row = HEAD, others: tuple[str, ...] = ()) -> list[str]:
    console = Console(file=(file := io.StringIO()), width=200)
    of = side("r", row, cell("p", label="P [q]"), cell("q"), head=head)
    text.show_row(console, Found(row, of, pairs, others))
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_a_row_is_told_whole() -> None:
    pair = {"verdict": "too close to call", "ratio": 1.5, "low": 0.5, "high": 2.0, "b": "p"}
    level = pair | {"ratio": 1.01, "low": 0.99, "high": 1.02, "b": "gone"}
    faster = pair | {"ratio": 0.5, "low": 0.4, "high": 0.6, "verdict": "faster", "b": "q"}
    assert row_text(ROW, pair, faster, level, others=("old", "[older]")) == [
        "X [b]  ok",
        "row           0123",
        "run           r, 2026-01-05 10:00, commit c0",
        "suite         s",
        "case          [/c]",
        "time          2.00 ms [1.00 ms, 3.00 ms], 1,200 samples of 1 call",
        "warm caches   4.00 ms",
        "host's clock  5.00 ms",
        "peak memory   1 MiB",
        "first call    1.50 s",
        "energy        0.25 J a call",
        "clock         1980 MHz",
        "slowed by     heat [1]",
        "rate          2e+03 GFLOP/s, 50% of the matrix-product ceiling",
        "error         1e-06 at most, 2e-07 of the norm",
        "bits          4",
        "lr            0.1",
        "kernel        k",
        "precision     fp32",
        "backend       torch",
        "machine       C[red] (4 cores); 1 thread for this cell",
        "driver        d1",
        "versions      torch=2",
        "",
        "In the same rounds:",
        "  0.500 [0.400, 0.600] of the time of q: faster than it",
        "  1.010 [0.990, 1.020] of the time of gone: level with it",
        "  1.500 [0.500, 2.000] of the time of P [q]: not decided against it",
        "",
        "The same cell stands in: old, [older]",
        "",
        "Measure it again:",
        "python -m bancada [again]",
    ]


def test_a_row_of_little_is_told_without_empty_lines() -> None:
    bare = {
        name: ROW[name] for name in ("row_id", "suite", "case", "contender", "time", "commit", "command", "versions")
    }
    failed = bare | {"status": "out_of_memory", "reason": "killed", "threads": 2, "driver": "", "device": "cuda"}
    assert row_text(failed | {"device_name": "Row's"}, head={}) == [
        "x  out of memory",
        "row       0123",
        "run       r, 2026-01-05 10:00, commit c0",
        "suite     s",
        "case      [/c]",
        "reason    killed",
        "machine   Row's; 2 threads for this cell",
        "versions  torch=2",
        "",
        "Measure it again:",
        "python -m bancada [again]",
    ]
    assert "time      1.00 s, 3 samples of 2 calls" in row_text(
        failed | {"time_s": 1.0, "rounds": 3, "loops": 2, "block_rounds": 9, "isolate": "none"}
    )
    for missing in ("rounds", "loops"):
        told = {name: value for name, value in {"rounds": 3, "loops": 2}.items() if name != missing}
        assert "time      1.00 s" in row_text(failed | {"time_s": 1.0} | told)
