"""A row among runs by its id: how many are named, how comparisons are turned, what odd lines do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from _planted import sound
from test_show import CPU, row_of

from bancada import cells, rows, stats
from bancada.runs.show import find
from bancada.settings import Settings

(SUITE,) = sound()


def run(folder: Path, name: str, ids: list[str], *more: rows.Row) -> Path:
    """The rows of a run: a cell for each id, each of a case of its own."""
    path = folder / name / "rows.jsonl"
    path.parent.mkdir()
    made = [row_of(SUITE, "honest-a", Settings(), repeat=place) | {"row_id": one} for place, one in enumerate(ids)]
    rows.append(path, [*made, *more])
    return path


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (0, "searched no run, for there is none)"),
        (5, "searched r0, r1, r2, r3, r4)"),
        (7, "searched r0, r1, r2, r3, r4 and 2 more)"),
    ],
)
def test_up_to_five_of_the_runs_that_were_searched_are_named(tmp_path: Path, number: int, said: str) -> None:
    files = [run(tmp_path, f"r{place}", ["abc"]) for place in range(number)]
    with pytest.raises(ValueError, match="row 'qqqqqq' is not known: no id is near it") as error:
        find("qqqqqq", files)
    assert str(error.value).endswith(said)


@pytest.mark.parametrize(("number", "others"), [(2, False), (5, False), (6, True)])
def test_up_to_five_of_the_rows_that_begin_so_are_named(tmp_path: Path, number: int, others: bool) -> None:
    files = [run(tmp_path, "none", ["zz"]), run(tmp_path, "r", [f"a{place}" for place in range(number)])]
    with pytest.raises(ValueError, match=f"row 'a': {number} rows begin so: a0 ") as error:
        find("a", files)
    said = str(error.value)
    assert ("and others" in said) == others and said.count("honest-a)") == min(number, 5)
    assert "a1 (r1-fp32 honest-a)" in said


def test_a_row_counts_in_the_newest_file_that_holds_it_and_older_ones_are_named(tmp_path: Path) -> None:
    files = [run(tmp_path, name, ids) for name, ids in (("new", ["x"]), ("mid", ["a"]), ("old", ["a"]), ("not", ["b"]))]
    found = find("a", files)
    assert (found.of.name, found.others, found.row["row_id"]) == ("mid", ["old"], "a")
    assert find("b", files).others == [] and find("x", files).of.name == "new"


@pytest.mark.parametrize(
    ("verdict", "turned"), [("faster", "slower"), ("slower", "faster"), *[("too close to call",) * 2]]
)
def test_comparisons_are_turned_so_that_the_row_is_their_first(
    tmp_path: Path, verdict: stats.Verdict, turned: str
) -> None:
    def pair(a: str, b: str, case: str = "r0-fp32", suite: str = SUITE.id) -> rows.Row:
        made = stats.Comparison(a, b, 0.5, 0.4, 0.8, 9, verdict)
        return cells.pair(suite, case, CPU, "r", made)

    mine = [pair("before", "honest-a"), pair("honest-a", "after")]
    others = [pair("x", "y"), pair("honest-a", "x", "r1-fp32"), pair("honest-a", "y", suite="other")]
    path = run(tmp_path, "r", ["a"], *mine, *others)
    first, second = find("a", [path]).pairs
    assert (first["a"], first["b"], first["verdict"]) == ("honest-a", "before", turned)
    assert (first["ratio"], first["low"], first["high"]) == (2.0, 1.25, 2.5)
    assert (second["a"], second["b"], second["verdict"], second["ratio"]) == ("honest-a", "after", verdict, 0.5)


def test_lines_of_other_writers_and_broken_bytes_are_read_as_far_as_they_go(tmp_path: Path) -> None:
    path = run(tmp_path, "r", ["a"])
    (row,) = rows.read(path).rows
    compact = json.dumps(row | {"row_id": "b", "case": "other"}, separators=(",", ":"))
    path.write_bytes(path.read_bytes() + compact.encode() + b'\n{"row_id": "a\xff"}\n{"row_id": "c')
    assert find("b", [path]).row["case"] == "other" and find("a", [path]).row["row_id"] == "a"
    with pytest.raises(ValueError, match=r"in r no line of it can be read \(rows.jsonl: line 3"):
        find("a\ufffd", [path])


def test_rows_that_cannot_be_read_are_counted_and_not_named_and_the_newest_file_names_the_others(
    tmp_path: Path,
) -> None:
    new, old = run(tmp_path, "new", ["a0", "a1"]), run(tmp_path, "old", ["a1", "a0"])
    with new.open("a") as file:
        file.write('{"row_id": "a2"}\n')
    said = r"3 rows begin so: a0 \(r0-fp32 honest-a\), a1 \(r1-fp32 honest-a\); give"
    with pytest.raises(ValueError, match=said):
        find("a", [new, old])
