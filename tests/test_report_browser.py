"""The report as a person meets it: in headless Chromium, from made-up runs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import _synthetic as made
import _synthetic_kinds as kinds
import pytest
from _pages import GRID, HOSTILE, Seen

from bancada.report import build
from bancada.runs import baselines

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def opened(browser: Any, pages: Any) -> Iterator[Seen]:
    seen = Seen(browser, pages("demo"))
    yield seen
    seen.close()


@pytest.fixture
def demo(opened: Seen) -> Seen:
    """The page of four panels a suite, opened once, as it was at first."""
    opened.get("document.getElementById('detail').close()")
    opened.get("location.hash = ''")
    opened.until("document.getElementById('shown').textContent === '336 of 336 cells'")
    opened.get("scrollTo({top: 0, behavior: 'instant'})")
    return opened


def test_charts_are_drawn_when_they_come_into_view(browser: Any, pages: Any) -> None:
    seen = Seen(browser, pages("demo"))
    total = seen.get("Number(document.documentElement.dataset.charts)")
    assert total == 20  # a card's chart each; per suite three panels of two, and two of costs; two rooflines
    assert 0 < seen.get("window.bancadaDrawn") < total
    seen.scroll()
    assert seen.get("document.querySelectorAll('.chart .main-svg').length") >= total
    assert seen.get("[...document.querySelectorAll('.chart')].every(c => c.querySelector('.points path, .point'))")
    seen.close()


def test_the_first_screen_answers(demo: Seen) -> None:
    for text in ("Fastest: torch SDPA", "cells measured", "suites with a clear winner", "false verdicts"):
        box = demo.page.get_by_text(text).first.bounding_box()
        assert box is not None and box["y"] + box["height"] < 800, text


def test_filters_act_land_in_the_fragment_and_are_restored(browser: Any, pages: Any) -> None:
    seen = Seen(browser, pages("demo"))
    seen.page.click("details[data-dimension=dtype] summary")
    seen.page.check("input[data-filter=dtype][value=fp32]")
    seen.page.click("details[data-dimension=seq_len] summary")
    for length in ("1024", "2048"):
        seen.page.check(f"input[data-filter=seq_len][value='{length}']")
    assert seen.page.url.endswith("#dtype=fp32&seq_len=1024,2048")
    assert seen.page.inner_text("#shown") == "48 of 336 cells"
    assert seen.page.locator(".wins").first.locator("thead th").all_inner_texts() == ["seq_len", "1,024", "2,048"]
    assert "bf16" not in seen.page.inner_text("#families") and "bf16" not in seen.page.inner_text("#limits")
    assert seen.page.locator("#coverage-body .squares button").count() == 48
    seen.scroll()
    fragment = seen.page.url[seen.page.url.index("#") :]
    seen.close()
    again = Seen(browser, pages("demo"), fragment=fragment)
    assert again.page.inner_text("#shown") == "48 of 336 cells"
    assert again.page.is_checked("input[data-filter=seq_len][value='2048']")
    assert not again.page.is_checked("input[data-filter=seq_len][value='4096']")
    again.page.click("#clear")
    assert again.page.inner_text("#shown") == "336 of 336 cells" and "#" not in again.page.url
    again.close()


def test_a_mistyped_fragment_filters_nothing(browser: Any, pages: Any) -> None:
    seen = Seen(browser, pages("demo"), fragment="#dtype=fp99&%E0%A4%A=1&nonsense&y=sideways")
    assert seen.page.inner_text("#shown") == "336 of 336 cells"
    seen.close()


def test_speed_in_place_of_time_is_kept_in_the_fragment(demo: Seen) -> None:
    demo.page.click(".toggle button[data-y=speed] >> nth=0")
    assert demo.page.url.endswith("#y=speed")
    assert "Speed against eager attention, same rounds" in demo.page.inner_text("#families")
    demo.scroll()


def test_markup_in_names_stays_text(browser: Any, pages: Any) -> None:
    """Harness case 21."""
    seen = Seen(browser, pages("hostile"))
    seen.scroll()
    assert seen.get("window.pwned === undefined")
    assert seen.get("document.querySelectorAll('img, .chart script, #families script').length") == 0
    assert HOSTILE in seen.page.locator(".machine b").first.inner_text()
    labels = seen.get(
        "[...document.querySelectorAll('.chart .annotation-text, .chart .ytick text')].map(t => t.textContent)"
    )
    assert any(label.startswith("<b>x</b>") for label in labels), labels  # plotly would draw a bold x
    seen.page.locator("#families .cells table.data tbody tr").nth(1).click()
    assert HOSTILE in seen.page.inner_text("#detail")
    seen.close()


def test_a_phone_needs_no_sideways_scrolling(browser: Any, pages: Any) -> None:
    for name in ("demo", "none", "hostile"):
        seen = Seen(browser, pages(name), width=390)
        seen.scroll()
        assert seen.get("document.documentElement.scrollWidth") <= 390, name
        boxes = "[...document.querySelectorAll('.chart, figure, .scroll, .card')]"
        assert seen.get(f"{boxes}.filter(e => e.getBoundingClientRect().right > 390).length") == 0, name
        seen.close()


def test_the_filters_open_on_a_phone(browser: Any, pages: Any) -> None:
    seen = Seen(browser, pages("demo"), width=390)
    assert not seen.page.is_visible("#filters")
    seen.page.click("#openfilters")
    seen.page.click("details[data-dimension=causal] summary")
    seen.page.check("input[data-filter=causal][value=true]")
    assert seen.page.inner_text("#openfilters") == "Filters (1)" and seen.page.url.endswith("#causal=true")
    seen.close()


def test_dark_follows_the_reader_s_choice_in_charts_too(browser: Any, pages: Any) -> None:
    seen = Seen(browser, pages("one"), scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"
    ticks = "getComputedStyle(document.querySelector('.chart .xtick text')).fill"
    dark, dark_ticks = seen.get(background), seen.get(ticks)
    seen.page.emulate_media(color_scheme="light")
    seen.until(f"{ticks} !== {dark_ticks!r}")
    assert (dark, seen.get(background)) == ("rgb(20, 23, 26)", "rgb(255, 255, 255)")
    seen.close()


def test_every_figure_leads_to_its_row_and_command(demo: Seen) -> None:
    demo.page.locator("#families .cells table.data tbody tr").first.click()
    text = demo.page.inner_text("#detail")
    for part in ("30 samples", "attention.forward/b1-h8-s128-d64-causal-fp32/eager", "python -m bancada sweep"):
        assert part in text
    assert demo.page.locator("#detail circle").count() == 30
    demo.page.keyboard.press("Escape")
    assert not demo.get("document.getElementById('detail').open")


def test_a_point_of_a_chart_can_be_clicked(browser: Any, pages: Any) -> None:
    seen = Seen(browser, pages("one"))
    cost = seen.page.locator(".cost .chart").first
    cost.scroll_into_view_if_needed()
    seen.until("document.querySelectorAll('.cost .chart .point').length >= 5")
    box = cost.locator(".point").first.bounding_box()
    assert box is not None
    seen.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    seen.until("document.querySelector('.cost .hovertext')")
    seen.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    seen.until("document.getElementById('detail').open")
    seen.close()


def test_missing_is_shown_as_missing_with_its_reason(browser: Any, pages: Any) -> None:
    seen = Seen(browser, pages("stopped"))
    assert "not measured: 12" in seen.page.inner_text("#coverage-body .legend")
    square = seen.page.locator(".sq.s-not-measured[data-cell]").first
    square.click()
    text = seen.page.inner_text("#detail")
    assert "the sweep stopped before it" in text and "python -m bancada sweep demo" in text
    seen.page.keyboard.press("Escape")
    never = seen.page.locator(".gaps").first.inner_text()
    assert "flash (Triton)" in never and "needs a CUDA GPU; this machine has none" in never
    seen.close()


def test_one_case_has_dots_and_no_lines(browser: Any, pages: Any) -> None:
    seen = Seen(browser, pages("one"))
    seen.scroll()
    beside = "[...document.querySelectorAll('#families .chart')].filter(c => !c.closest('.pareto'))"
    lines = f"{beside}.filter(c => c.querySelector('.lines path'))"
    assert seen.get(f"{lines}.length") == 0
    assert seen.get("document.querySelectorAll('#families .chart .point').length") == 20
    seen.close()


def test_nothing_measured_is_said_and_nothing_is_drawn(browser: Any, pages: Any) -> None:
    seen = Seen(browser, pages("none"))
    assert seen.get("document.documentElement.dataset.charts") == "0"
    assert "No cell of this suite was measured" in seen.page.inner_text("#families")
    assert "No measured cell here" in seen.page.inner_text("#limits")
    seen.close()


def test_a_map_cell_opens_its_case_and_other_cases_are_not_joined_by_a_line(browser: Any, pages: Any) -> None:
    """Liger-Kernel 715: several configurations drawn as one line."""
    seen = Seen(browser, pages("ragged"))
    titles = seen.page.locator("[data-suite='attention.forward'] .facet h5").all_inner_texts()
    assert titles[0] == "head_dim 64, fp32, causal"
    seen.page.locator(".wins").first.get_by_role("button").last.click()
    chosen = seen.get("document.querySelector('.cost select').selectedOptions[0].textContent")
    assert chosen == "b1-h8-s2048-d64-causal-bf16"
    fragment = seen.page.url[seen.page.url.index("#") :]
    seen.close()
    again = Seen(browser, pages("ragged"), fragment=fragment)  # the address holds it
    assert again.get("document.querySelector('.cost select').value") == chosen
    again.close()


def test_two_machines_are_never_one_line(browser: Any, tmp_path: Path) -> None:
    one = GRID | {"dtype": ["fp32"], "causal": [True]}
    speed = {contender.id: 0.1 for contender in made.CONTENDERS}
    runs = [
        made.write(tmp_path / "a", made.Recipe(grid=one, run="a", suites=("attention.forward",))),
        made.write(
            tmp_path / "b",
            made.Recipe(grid=one, run="b", suites=("attention.forward",), device_name="NVIDIA H200", speed=speed),
        ),
    ]
    seen = Seen(browser, build(runs, tmp_path / "both.html"))
    assert seen.page.locator(".verdict").count() == 2
    titles = seen.page.locator("#families .facet h5").all_inner_texts()
    assert titles == ["Intel(R) Xeon(R) 6975P-C", "NVIDIA H200"]
    assert seen.page.locator("#families .cells table.data").first.locator("thead th").all_inner_texts()[1] == "device"
    seen.page.click("details[data-dimension=device] summary")
    seen.page.check("input[data-filter=device][value='NVIDIA H200']")
    assert seen.page.url.endswith("#device=NVIDIA%20H200")
    assert seen.page.locator(".verdict:visible").count() == 1
    assert seen.page.locator("#families .facet h5").count() == 0
    seen.close()


def test_level_is_said_only_where_the_interval_is_narrow(browser: Any, tmp_path: Path) -> None:
    one = GRID | {"dtype": ["fp32"], "causal": [True], "seq_len": [2048, 4096]}
    run = made.write(tmp_path / "run", made.Recipe(grid=one, suites=("attention.forward",), failures=False))
    rows = [json.loads(line) for line in (run / "rows.jsonl").read_text(encoding="utf-8").splitlines()]
    for row in (row for row in rows if row["kind"] == "pair"):
        wide = 1.8 if "s4096" in row["case"] else 1.03
        row |= {"ratio": 1.0, "low": 1 / wide, "high": wide, "verdict": "too close to call"}
    (run / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    seen = Seen(browser, build([run]))
    level, undecided = seen.page.locator(".wins").get_by_role("button").all()
    assert level.locator("small").inner_text() == "level" and " = " in level.inner_text()
    assert undecided.locator("small").inner_text() == "not decided" and " or " in undecided.inner_text()
    undecided.click()
    assert set(seen.page.locator("td.pair").all_inner_texts()) == {"not decided"}
    level.click()
    assert set(seen.page.locator("td.pair").all_inner_texts()) == {"level"}
    seen.close()


def test_tables_sort_and_numbers_stand_at_the_decimal_point(demo: Seen) -> None:
    table = demo.page.locator("#families .cells table.data").first
    table.get_by_role("button", name="time").click()
    demo.page.locator("#families .more button", has_text="rows").first.click()
    texts = table.locator("tbody td.number").all_text_contents()
    columns = table.locator("thead th.number").count()
    times = [text for text in texts[::columns] if text.strip()]
    figures = [float(text.replace(",", "").strip("\u2007\u2008 ")) for text in times]
    assert len(figures) > 100 and figures == sorted(figures)
    points = {len(text) - max(text.find("."), text.find("\u2008")) for text in times}
    assert len(points) == 1, points
    table.get_by_role("button", name="time").click()
    first = table.locator("tbody tr").first.locator("td.number").first.inner_text()
    assert float(first.replace(",", "").strip("\u2007\u2008 ")) == figures[-1]


def test_the_keyboard_reaches_filters_and_coverage(demo: Seen) -> None:
    demo.page.locator("details[data-dimension=dtype] summary").focus()
    demo.page.keyboard.press("Enter")
    demo.page.keyboard.press("Tab")
    demo.page.keyboard.press("Space")
    assert "#dtype=" in demo.page.url
    demo.page.keyboard.press("Escape")
    assert not demo.get("document.querySelector('details[data-dimension=dtype]').open")
    demo.page.locator("#coverage-body .sq[tabindex='0']").first.focus()
    demo.page.keyboard.press("ArrowRight")
    assert demo.get("[...document.activeElement.parentNode.children].indexOf(document.activeElement)") == 1
    demo.page.keyboard.press("Enter")
    assert demo.get("document.getElementById('detail').open")


@pytest.mark.parametrize("width", [1280, 390])
def test_training_and_ranks_have_sections_of_their_own(browser: Any, tmp_path: Path, width: int) -> None:
    """Curves and quality against its price; bytes a rank keeps and sends, with a word against reading it as scaling."""
    run = kinds.write(tmp_path / "runs" / "kinds", kinds.Effects(diverged=("sgd",)))
    baselines.save(run, "recorded", tmp_path / "baselines")
    seen = Seen(browser, build([run]), width=width)
    seen.scroll()
    section = f"document.querySelector('[data-suite=\"{kinds.TRAINING}\"]')"
    assert seen.get(f"{section}.querySelectorAll('.chart .main-svg').length") >= 4
    assert "SGD (incorrect: diverged at update 37" in seen.get(f"{section}.innerText")
    assert "better: " in seen.get(f"{section}.querySelector('table').innerText")
    own = f"[...document.querySelectorAll('[data-suite=\"{kinds.QUALITY}\"] .pareto select')].map(s => s.value)"
    assert seen.get(own) == ["m.kl", "m.bytes", "m.kl", "time"]  # what is lost against size, and against time
    assert seen.get("document.querySelectorAll('.barlayer .point path').length") > 10  # bars are drawn as bars
    ranks = seen.get(f"document.querySelector('[data-suite=\"{kinds.RANKS}\"]').innerText")
    assert "all-ranks" not in ranks  # a sum of the others, not a part beside them
    assert "Not scaling" in ranks and "2 all-gather" not in ranks and "4 all-gather" in ranks
    assert "12 agree, 0 undecided in one, 0 contradict" in seen.get(
        "document.querySelector('[data-baseline=recorded]').innerText"
    )
    assert seen.get("document.documentElement.scrollWidth") == width
    seen.close()


def test_printing_draws_every_chart(browser: Any, pages: Any) -> None:
    seen = Seen(browser, pages("one"))
    seen.page.emulate_media(media="print")
    seen.get("dispatchEvent(new Event('beforeprint'))")
    assert seen.get("window.bancadaDrawn === Number(document.documentElement.dataset.charts)")
    assert not seen.page.is_visible(".bar")
    seen.close()


def test_5000_cells_open_within_three_seconds(browser: Any, pages: Any) -> None:
    """evidently 1046: 100 MB of HTML crashes the browser (case 20)."""
    path = pages("large")
    busy = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))  # shared with others, seconds are longer
    best = float("inf")
    for _ in range(3):
        seen = Seen(browser, path)
        seen.until("window.bancadaDrawn >= 2")
        best = min(best, seen.get("performance.getEntriesByName('bancada-first-charts')[0].startTime") / 1e3)
        assert seen.get("window.bancadaDrawn < Number(document.documentElement.dataset.charts)")
        seen.close()
        if best <= 3:
            break
    print(
        f"first charts of {path.stat().st_size / 1e6:.1f} MB drawn after {best:.2f} s, at a load of {busy:.1f} a core"
    )
    assert best <= 3 * busy
