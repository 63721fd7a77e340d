"""What tables and notes of the page reckon: who is not beaten, when compiling and tuning have paid, equal work."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import _synthetic as made
import _synthetic_kinds as kinds
import pytest
from _pages import ONE, Seen, cells_of, rows_of

from bancada import report
from bancada import rows as schema
from bancada.report import build
from bancada.verdicts import weighed

pytestmark = pytest.mark.browser
METRIC = {"name": "v", "better": "lower"}


def test_equal_work_is_declared_and_compiling_is_paid_back_or_not(browser: Any, tmp_path: Path) -> None:
    run = made.write(tmp_path / "run", made.Recipe())
    found = schema.read(run / "rows.jsonl").rows
    (run / "rows.jsonl").unlink()
    schema.append(run / "rows.jsonl", [row | {"build_s": 9.0} if row.get("contender") == "flex" else row
                                       for row in found])  # fmt: skip
    path = build([run])
    seen = Seen(browser, path)
    equal = seen.page.locator(".equal").first
    equal.locator("summary").click()
    text = equal.inner_text()
    assert "inputs' dtype, fp32 accumulation" in text and "at its first call" in text and "warm" in text
    case, name = "b1-h8-s8192-d64-causal-fp32", "flex"
    rows = {
        row["contender"]: row for row in cells_of(path) if row["suite"] == "attention.forward" and row["case"] == case
    }
    [ratio] = [
        row["ratio"] if row["a"] == name else 1 / row["ratio"] for row in rows_of(path)
        if row["kind"] == "pair" and row["suite"] == "attention.forward" and row["case"] == case
        and {row["a"], row["b"]} == {name, "eager"}
    ]  # fmt: skip
    start = {one: row["build_s"] + row["first_call_s"] for one, row in rows.items()}  # some compile as they are built
    usual = min(took for one, took in start.items() if one not in (name, "eager-compiled"))
    calls = math.ceil((start[name] - usual) / (rows["eager"]["time_s"] * (1 - ratio)))
    table = seen.page.locator("#families .cells table.data").first
    heads = table.locator("thead th").all_inner_texts()
    place = next(i for i, head in enumerate(heads) if head.startswith("compiling pays"))
    seen.page.locator("#families .cells .more button").first.click()
    line = table.locator("tbody tr", has_text="FlexAttention").filter(has_text="8,192").filter(has_text="fp32")
    said = line.filter(has_text="true").locator("th, td").nth(place).inner_text()
    assert float(said.replace(",", "")) == pytest.approx(calls, rel=0.01)
    seen.close()


def test_what_is_0_beats_others_though_it_has_no_place_on_the_axis(browser: Any, tmp_path: Path) -> None:
    """It cannot be drawn on a logarithmic axis; to be left out of who is not beaten made the beaten look best."""
    seen = Seen(browser, build([kinds.write(tmp_path / "run")]))
    notes = seen.page.locator(f"[data-suite='{kinds.QUALITY}'] .pareto .note").all_inner_texts()
    assert len(notes) == 2 and all("; dense (" in note or ": dense (" in note for note in notes), notes
    gaps = seen.page.locator(f"[data-suite='{kinds.QUALITY}'] .pareto .gaps").all_inner_texts()
    assert any("Exactly 0" in gap and "dense" in gap for gap in gaps)
    seen.close()


def test_when_tuning_pays_stands_in_the_table(browser: Any, tmp_path: Path) -> None:
    """What tuning took, over what a run to the target saves against the reference, where seeds show that it does."""
    run = kinds.write(tmp_path / "run")
    rows = schema.read(run / "rows.jsonl").rows
    [like] = [row for row in rows if row["kind"] == "contrast" and {row["a"], row["b"]} == {"torch-adamw", "muon"}]
    ends = {"sign": {"difference": 2.0, "low": 1.5, "high": 2.5}, "level": {"difference": 0.1, "low": -1, "high": 1.2}}
    sooner = like | {"measure": "seconds_to_target", "a": "torch-adamw", "b": "muon", "verdict": "worse"} | ends["sign"]
    level = sooner | {"b": "adamw", "verdict": "too close to call"} | ends["level"]
    schema.append(run / "rows.jsonl", [sooner, level])
    seen = Seen(browser, build([run]))
    table = seen.page.locator(f"[data-suite='{kinds.TRAINING}'] table.data").first
    heads = table.locator("thead th").all_inner_texts()
    place = next(i for i, head in enumerate(heads) if head.startswith("tuning pays"))
    assert "runs to the target, against torch AdamW, fused" in heads[place]

    def said(label: str) -> str:
        line = table.locator("tbody tr").filter(has=seen.page.get_by_role("rowheader", name=label, exact=True))
        return line.locator("th, td").nth(place).inner_text().strip()

    assert said("Muon") == "5"  # 9.1 s of tuning, 2 s less a run
    assert said("AdamW") == "not shown to be sooner there"
    assert said("torch AdamW, fused") == said("Lion") == ""
    seen.close()


def test_figures_within_one_percent_are_the_same_as_they_are_in_sentences(browser: Any) -> None:
    script = (Path(report.__file__).parent / "metrics.js").read_text(encoding="utf-8")
    elsewhere = "tickTime, sayTime, tickBytes, sayBytes, sayError, tickTimes, sayRatio"
    page = browser.new_page()
    pairs = [[100, 100.9], [100, 101.5], [101.5, 100], [0, 0], [0, 1e-9], [-1, -1.005], [-1, -1.05]]
    exact = "{get: c => c.v, low: c => c.v, high: c => c.v, linear: %s}"
    for linear in ("true", "false"):
        asked = f"{pairs}.map(([a, b]) => stands({exact % linear}, {{v: a}}, {{v: b}}))"
        found = page.evaluate(f"(() => {{ const [{elsewhere}] = []; {script}; return {asked}; }})()")
        assert found == [0, -1, 1, 0, -1, 0, 1], linear
    assert [weighed._stands(METRIC, {"measure.v": a}, {"measure.v": b}) for a, b in pairs] == found
    page.close()


def test_another_precision_than_most_is_marked(browser: Any, tmp_path: Path) -> None:
    """accelerate 2624: two libraries compared at different precisions (case 7)."""
    run = made.write(tmp_path / "run", made.Recipe(grid=ONE, suites=("attention.forward",)))
    rows = schema.read(run / "rows.jsonl").rows
    for row in rows:
        if row["kind"] == "cell" and row["contender"] == "torch-sdpa":
            row["precision"] = "bf16 products"
    (run / "rows.jsonl").unlink()
    schema.append(run / "rows.jsonl", rows)
    seen = Seen(browser, build([run]))
    equal = seen.page.locator(".equal")
    assert equal.locator("summary").inner_text() == "Equal work: 2 precision policies"
    equal.locator("summary").click()
    marked = equal.locator("tbody tr", has_text="(not as most here)").all_inner_texts()
    assert len(marked) == 1 and "torch SDPA" in marked[0] and "bf16 products" in marked[0]
    seen.close()
