"""What a reader holds on to: the focus, names that can be read, rows that say something, every run counted once."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from _pages import ONE, Seen
from _synthetic import Recipe, write

from bancada.report import build
from bancada.rows import append, read

pytestmark = pytest.mark.browser
SMALL = Recipe(grid=ONE | {"seq_len": [512, 1024]}, suites=("attention.forward",), noise=0.01)
BOXES = """(() => {
  const chart = document.querySelector('.pareto .chart');
  const boxes = (what) => [...chart.querySelectorAll(what)].map((e) => e.getBoundingClientRect());
  const hit = (a, b) => a.left < b.right && b.left < a.right && a.top + 3 < b.bottom && b.top < a.bottom - 3;
  const names = boxes('.annotation-text');
  const struck = names.filter((name) => boxes('path.xerror').some((bar) => hit(name, bar)));
  return [names.length, boxes('path.xerror').length, struck.length];
})()"""


def test_the_focus_stays_where_something_was_chosen(browser: Any, pages: Any) -> None:
    seen = Seen(browser, pages("demo"))
    focus = "document.activeElement"
    for select in (".region select", ".pareto select"):
        name = seen.page.locator(select).first.get_attribute("data-view")
        seen.page.locator(select).first.focus()
        seen.page.locator(select).first.select_option(index=1)
        assert seen.get(f"{focus}.dataset.view") == name
    seen.page.locator(".toggle [data-y=speed]").first.focus()
    seen.page.keyboard.press("Enter")
    assert seen.get(f"[{focus}.dataset.y, {focus}.ariaPressed]") == ["speed", "true"]
    for more in (".cells .more button", "#families .more button"):
        seen.page.locator(more).first.focus()
        seen.page.keyboard.press("Enter")
        assert seen.get(f"{focus} !== document.body")
    seen.close()


def test_names_stand_clear_of_intervals_and_measured_rows_come_first(browser: Any, tmp_path: Path) -> None:
    noisy = replace(SMALL, grid=ONE, noise=0.4)
    seen = Seen(browser, build([write(tmp_path / "run", noisy)]))
    seen.drawn(".pareto .chart")
    names, bars, struck = seen.get(BOXES)
    assert names > 3 and bars > 3 and struck == 0
    seen.page.locator(".cells .more button").first.click()
    rows = seen.page.locator(".cells table").first.locator("tbody tr").all_inner_texts()
    measured = [row.endswith("measured") for row in rows]
    assert measured == sorted(measured, reverse=True) and len(set(measured)) == 2
    seen.close()


def test_a_reason_is_told_once_with_all_whom_it_stops(browser: Any, pages: Any) -> None:
    seen = Seen(browser, pages("hostile"))
    told = seen.page.locator("#families .gaps").first.inner_text()
    assert re.match(r"Never measured here: y \(unsupported: ", told) and " at " not in told.split("(")[0]
    seen.close()


def test_a_run_named_twice_counts_once(browser: Any, tmp_path: Path) -> None:
    run = write(tmp_path / "run", SMALL)
    once = figures(browser, build([run], tmp_path / "once.html"))
    assert figures(browser, build([run, tmp_path / "." / "run"], tmp_path / "twice.html")) == once


def figures(browser: Any, page: Path) -> Any:
    seen = Seen(browser, page)
    told = seen.page.locator(".figures").inner_text(), seen.page.locator(".machine").count()
    seen.close()
    return told


def test_a_row_of_joined_runs_costs_what_its_own_run_did(browser: Any, tmp_path: Path) -> None:
    cheap, dear = ONE | {"seq_len": [512]}, ONE | {"seq_len": [1024]}
    runs = [write(tmp_path / name, replace(SMALL, grid=grid, run=name)) for name, grid in (("a", cheap), ("b", dear))]
    for run, price in zip(runs, (1.0, 100.0), strict=True):
        rows = read(run / "rows.jsonl").rows
        (run / "rows.jsonl").unlink()
        append(run / "rows.jsonl", [row | {"price_per_hour": price} if row["kind"] == "run" else row for row in rows])
    seen = Seen(browser, build(runs, tmp_path / "both.html"))
    shown = seen.page.locator("#families .cells table").first
    heads = shown.locator("thead th").all_inner_texts()
    time, cost = (next(i for i, head in enumerate(heads) if head.startswith(name)) for name in ("time", "cost"))
    lines = [line.split("\t") for line in shown.locator("tbody tr").all_inner_texts() if "eager attention" in line]
    found = [number(line[cost]) / number(line[time]) for line in lines]
    assert found[1] / found[0] == pytest.approx(100, rel=0.02)
    seen.close()


def number(text: str) -> float:
    return float(re.sub(r"[^\d.]", "", text))
