"""rows.jsonl: schema, single writes, and what is done with rows that do not fit."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bancada import rows


def cell(**changes: Any) -> rows.Row:
    fields: rows.Row = dict.fromkeys(
        ("row_id", "suite", "family", "case", "contender", "technique", "origin", "reason", "device", "device_name",
         "driver", "commit", "versions", "command"), "x",
    )  # fmt: skip
    return (
        {"schema": 1, "kind": "cell", "run": "r", "time": "t", "status": "ok", "threads": 2, "time_s": 1.0}
        | fields
        | changes
    )


def curve(**changes: Any) -> rows.Row:
    head = {"schema": 1, "kind": "curve", "run": "r", "time": "t", "suite": "s", "case": "c", "contender": "a"}
    lists = {"updates": [1, 2], "seconds": [0.1, 0.2], "train": [2.0, 1.5], "evaluated": [0, 2]}
    return (
        head | {"seed": 0, "status": "ok", "reason": "", "device": "cpu", "metric.loss": [2.0, 1.4]} | lists | changes
    )


def test_curves_hold_lists_of_numbers(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    rows.append(path, [curve()])
    assert rows.read(path) == rows.Read([curve()], [])


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"train": [math.nan]}, "train"),
        ({"train": 1.0}, "train"),
        ({"updates": [0] * 201}, "updates"),
        ({"metric.loss": ["low"]}, "metric.loss"),
        ({"other": [1.0]}, "other"),
        ({"status": "incorrect"}, "reason"),
        ({"status": "diverged", "reason": "x"}, "status='diverged'"),
    ],
)
def test_a_curve_that_does_not_fit_is_refused_and_named(changes: rows.Row, named: str) -> None:
    with pytest.raises(rows.RowError, match=named):
        rows.validate(curve(**changes))


def test_a_contrast_has_a_verdict_of_its_own_words() -> None:
    fields = {"suite": "s", "case": "c", "a": "x", "b": "y", "measure": "final.loss", "seeds": 3, "device": "cpu"}
    row = {"schema": 1, "kind": "contrast", "run": "r", "time": "t", "difference": -1.0, "low": -2.0, "high": -0.5}
    rows.validate(row | fields | {"verdict": "better"})
    with pytest.raises(rows.RowError, match="verdict='faster'"):
        rows.validate(row | fields | {"verdict": "faster"})


def test_rows_come_back_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    first, second = cell(case="a", samples=[1.0, 2.0]), cell(case="b", **{"axis.seq_len": 4, "error.out.max": 1e-7})
    rows.append(path, [first])
    rows.append(path, [second])
    assert rows.read(path) == rows.Read([first, second], [])


@given(text=st.text(max_size=50))
def test_any_text_survives(text: str) -> None:
    """Case 21: names and parameters may hold quotes, `<script>` or line breaks; a row stays one line."""
    line = json.dumps(cell(reason=text or "-", label=text), ensure_ascii=False)
    assert "\n" not in line
    rows.validate(json.loads(line))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"status": "fine"}, "status='fine'"),
        ({"threads": "two"}, "threads='two'"),
        ({"threads": True}, "threads=True"),
        ({"time_s": math.nan}, "time_s"),
        ({"error_max": math.inf}, "error_max"),
        ({"samples": [1.0] * 201}, "samples"),
        ({"samples": "fast"}, "samples"),
        ({"axis.shape": [1, 2]}, "axis.shape"),
        ({"measure.bytes": "n/a"}, "measure.bytes='n/a': must be float or int"),
        ({"measure.bytes": None}, "measure.bytes=None"),
        ({"error.out": True}, "error.out=True"),
        ({"colour": "red"}, "colour"),
        ({"status": "crashed", "reason": ""}, "reason"),
        ({"schema": 0}, "schema=0"),
        ({"kind": "sell"}, "kind='sell'"),
    ],
)
def test_what_does_not_fit_is_refused_by_name_and_nothing_is_written(
    changes: dict[str, Any], named: str, tmp_path: Path
) -> None:
    """pytest-benchmark 96: scalars only, raw samples capped (case 16); cccl 507: a status, never NaN (case 13)."""
    path = tmp_path / "rows.jsonl"
    with pytest.raises(rows.RowError, match=named.replace(".", r"\.")):
        rows.append(path, [cell(), cell(**changes)])
    assert not path.exists()


def test_a_measured_cell_needs_a_time() -> None:
    row = cell()
    del row["time_s"]
    with pytest.raises(rows.RowError, match="needs time_s"):
        rows.validate(row)


def test_a_half_written_last_line_an_older_schema_and_rubbish_are_told_and_lose_nothing_else(tmp_path: Path) -> None:
    """Case 22."""
    path = tmp_path / "rows.jsonl"
    good = cell()
    old = json.dumps(cell(schema=0))
    path.write_text(
        "\n".join([json.dumps(good), old, "{not json", "[1]", json.dumps(good)]) + "\n" + json.dumps(good)[:40]
    )
    found = rows.read(path)
    assert found.rows == [good, good]
    assert len(found.problems) == 4
    assert "line 2" in found.problems[0] and "schema" in found.problems[0]
    assert "cut short" in found.problems[-1]


def test_rows_of_an_older_schema_are_read_step_by_step_and_a_newer_one_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 22."""
    path = tmp_path / "rows.jsonl"
    written = [cell(schema=version, case=f"v{version}") for version in (1, 2, 3, 4, 0)]
    for row in written[:2]:
        row["seconds_a_call"] = row.pop("time_s") * (1_000 if row["schema"] == 1 else 1)
    path.write_text("".join(json.dumps(row) + "\n" for row in written))
    monkeypatch.setattr(rows, "SCHEMA", 3)
    steps = {
        1: lambda row: row | {"seconds_a_call": row["seconds_a_call"] / 1_000},
        2: lambda row: {("time_s" if name == "seconds_a_call" else name): value for name, value in row.items()},
    }
    monkeypatch.setattr(rows, "UPGRADES", steps)
    found = rows.read(path)
    assert found.rows == [cell(schema=3, case=f"v{version}") for version in (1, 2, 3)]
    assert found.problems == [
        "rows.jsonl: line 4: schema=4: written by a newer Bancada; this one reads up to 3: skipped",
        "rows.jsonl: line 5: schema=0: too old: read are 1 to 3: skipped",
    ]


@pytest.mark.parametrize("version", [None, True, "1", 1.5, -1])
def test_a_version_that_is_none_is_told(tmp_path: Path, version: Any) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(cell(schema=version)) + "\n" + json.dumps(cell()) + "\n")
    found = rows.read(path)
    assert found.rows == [cell()] and len(found.problems) == 1 and "schema=" in found.problems[0]


@pytest.mark.parametrize(
    "line",
    [
        '{"schema": 1, "kind": []}',
        json.dumps(cell()).replace('"threads": 2', '"threads": 2' + "0" * 5_000),
        json.dumps(cell(samples=[1])).replace("[1]", "[1" + "0" * 400 + "]"),
        json.dumps(cell(time_s=1)).replace('"time_s": 1', '"time_s": 1' + "0" * 400),
        "[" * 100_000,
    ],
)
def test_odd_lines_are_told_and_lose_nothing_else(tmp_path: Path, line: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(f"{line}\n{json.dumps(cell())}\n")
    found = rows.read(path)
    assert found.rows == [cell()] and len(found.problems) == 1


def test_a_row_that_no_step_can_upgrade_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(cell()) + "\n" + json.dumps(cell(schema=2)) + "\n")
    monkeypatch.setattr(rows, "SCHEMA", 2)
    monkeypatch.setattr(rows, "UPGRADES", {1: lambda row: row | {"time_s": row["milliseconds"] / 1_000}})
    found = rows.read(path)
    assert found.rows == [cell(schema=2)] and found.problems[0].startswith(
        "rows.jsonl: line 1: schema=1: its row lacks"
    )


def test_times_and_ratios_are_above_0() -> None:
    pair = {"schema": 1, "kind": "pair", "run": "r", "time": "t", "suite": "s", "case": "c", "a": "x", "b": "y"}
    pair |= {"ratio": 1.0, "low": 0.9, "high": 1.1, "verdict": "faster", "rounds": 3, "device": "cpu"}
    rows.validate(pair)
    for name in ("ratio", "low", "high"):
        with pytest.raises(rows.RowError, match=rf"{name}=0\.0: must be above 0"):
            rows.validate(pair | {name: 0.0})
    with pytest.raises(rows.RowError, match="time_low_s=-1: must be above 0"):
        rows.validate(cell(time_low_s=-1))


def test_a_line_cut_short_spoils_no_row_that_is_appended_later(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    rows.append(path, [cell(case="a")])
    with path.open("a") as file:
        file.write('{"schema": 1, "kind": "ce')
    rows.append(path, [cell(case="b")])
    found = rows.read(path)
    assert [row["case"] for row in found.rows] == ["a", "b"] and len(found.problems) == 1


def test_a_file_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert rows.read(tmp_path / "rows.jsonl") == rows.Read([], [])


def test_long_texts_are_cut_not_refused(tmp_path: Path) -> None:
    rows.append(tmp_path / "rows.jsonl", [cell(reason="x" * 100_000)])
    assert len(rows.read(tmp_path / "rows.jsonl").rows[0]["reason"]) == rows.LONGEST_TEXT
