"""What a reader chooses on the page and what it says then: whom to light, axes, regions, crossings, means, rows."""

from __future__ import annotations

import csv
import io
import itertools
import math
from pathlib import Path
from typing import Any

import _synthetic as made
import pytest
from _pages import CROSSING, HOSTILE, MANY, ONE, Seen, cells_of, rows_of

from bancada import rows as schema
from bancada.report import build
from bancada.verdicts.comparisons import Comparison, geometric_mean

pytestmark = pytest.mark.browser
COLORS = "[...new Set(document.querySelector(%r).data.filter(t => t.customdata).map(t => t.%s.color))]"


def test_in_a_crowd_few_are_lit_and_the_legend_lights_others(browser: Any, pages: Any) -> None:
    seen = Seen(browser, pages("crowd"))
    line = "#families .facet .chart"
    seen.drawn(line)
    lit = f"document.querySelector({line!r}).layout.annotations.map(a => a.text)"
    named = seen.get(lit)
    assert 3 <= len(named) <= 7 and "way 0" in named and "eager attention" in named
    assert len(seen.get(COLORS % (line, "line"))) == len(named) + 1  # and one grey for all others
    assert seen.get(f"document.querySelector({line!r}).data.filter(t => t.customdata).length") == MANY + 1
    seen.page.get_by_role("button", name="way 11").first.click()
    assert seen.page.url.endswith("#lit=attention%2Fway-11")
    assert seen.get(lit) == ["way 11"]
    fragment = seen.page.url[seen.page.url.index("#") :]
    seen.close()
    again = Seen(browser, pages("crowd"), fragment=fragment)
    again.drawn(line)
    assert again.get(lit) == ["way 11"]
    assert again.page.get_by_role("button", name="way 11").first.get_attribute("aria-pressed") == "true"
    again.page.locator(".unlight").click()
    assert again.get(lit) == named and "#" not in again.page.url
    again.close()


def test_colours_repeat_only_where_there_are_more_contenders_than_colours(browser: Any, pages: Any) -> None:
    for name, most in (("demo", 5), ("crowd", 12)):
        seen = Seen(browser, pages(name))
        legend = seen.page.locator(".equal").first
        legend.locator("summary").click()
        marks = seen.get(
            "[...document.querySelector('.equal').querySelectorAll('.swatch')].map(s => "
            "[s.firstChild.getAttribute('stroke'), s.lastChild.getAttribute('points')].join())"
        )
        colours = {mark.split(",")[0] for mark in marks}
        assert len(marks) == len(set(marks)) and len(colours - {"#888888"}) == most, name
        seen.close()


def unbeaten(cells: list[dict[str, Any]], names: tuple[str, str]) -> list[tuple[float, float]]:
    """Points that no other is clearly better than in one figure and no worse in the other, by the first of the two."""
    points = [(float(cell[names[0]]), float(cell[names[1]])) for cell in cells]

    def beats(q: tuple[float, float], p: tuple[float, float]) -> bool:
        pairs = list(zip(q, p, strict=True))
        return all(a < b * 1.02 for a, b in pairs) and any(a < b * 0.98 for a, b in pairs)

    return sorted(p for p in points if not any(beats(q, p) for q in points))


def test_who_is_not_beaten_is_joined_and_named_and_selects_choose_the_axes(browser: Any, pages: Any) -> None:
    seen = Seen(browser, pages("trade"))
    chart = ".pareto[data-pareto=first] .chart"
    seen.drawn(chart)
    cells = cells_of(pages("trade"))
    stairs = f"document.querySelector({chart!r}).data[0]"
    xs, ys = seen.get(f"[{stairs}.x, {stairs}.y]")
    best = unbeaten(cells, ("time_s", "peak_bytes"))
    assert len(best) == 2
    assert xs == pytest.approx([x for x, _ in best], rel=1e-3) and ys == pytest.approx([y for _, y in best], rel=1e-3)
    assert seen.get(f"{stairs}.line.shape") == "hv"
    said = seen.page.locator(".pareto[data-pareto=first] .note").inner_text()
    assert "Not beaten: fast, large (" in said and "; small, slower (" in said and "The other 2 are beaten" in said
    seen.page.select_option(".pareto[data-pareto=first] select >> nth=0", "error")
    seen.page.select_option(".pareto[data-pareto=first] select >> nth=1", "memory")
    assert seen.page.url.endswith("#v.attention.forward.first.y=error&v.attention.forward.first.x=memory")
    seen.drawn(chart)
    xs = seen.get(f"{stairs}.x")
    assert xs == sorted(xs) and set(xs) <= {cell["peak_bytes"] for cell in cells}
    ys = seen.get(f"{stairs}.y")
    assert ys == sorted(ys, reverse=True)
    fragment = seen.page.url[seen.page.url.index("#") :]
    seen.close()
    again = Seen(browser, pages("trade"), fragment=fragment)
    assert again.get("[...document.querySelectorAll('.pareto[data-pareto=first] select')].map(s => s.value)") == [
        "error",
        "memory",
    ]
    again.close()


def test_regions_of_win_over_any_two_axes(browser: Any, pages: Any) -> None:
    seen = Seen(browser, pages("demo"))
    region = seen.page.locator(".region").first
    region.locator("select[aria-label='which axis stands upright']").select_option("dtype")
    region.locator("select[aria-label='which axis lies across']").select_option("causal")
    assert "v.attention.forward.map.upright=dtype" in seen.page.url
    heads = region.locator("thead th").all_inner_texts()
    assert heads == ["causal", "false", "true"]
    assert region.locator("tbody th").all_inner_texts() == ["bf16", "fp32"]
    tiles = region.locator("tbody button").all_inner_texts()
    assert len(tiles) == 4 and all(tile.startswith("torch SDPA") and "7 of 7 cases" in tile for tile in tiles), tiles
    region.locator("select[aria-label='what is compared']").select_option("error")
    assert region.locator("h4").inner_text() == "Who is best where: error, max |x − ref|"
    seen.close()


def test_an_empty_place_says_why_and_stronger_colour_means_further_ahead(browser: Any, tmp_path: Path) -> None:
    everyone = [contender.id for contender in made.CONTENDERS]
    run = made.write(tmp_path / "run", made.Recipe(grid=ONE, suites=("attention.forward",), failures=False))
    rows = schema.read(run / "rows.jsonl").rows
    for row in rows:
        if row["kind"] == "cell" and row["axis.seq_len"] == 128:
            row |= {"status": "timeout", "reason": "no answer in 60 s"}
    (run / "rows.jsonl").unlink()
    schema.append(run / "rows.jsonl", rows)
    seen = Seen(browser, build([run]))
    first = seen.page.locator(".region tbody button").first
    assert first.inner_text() == "none ran\ntimeout"
    assert "no answer in 60 s" in (first.get_attribute("title") or "") and len(everyone) == 6
    tiles = seen.get(
        "[...document.querySelectorAll('.region tbody button[style*=\"--m\"]')].map(t => "
        "[parseFloat(t.innerText.split('\\n')[1]), parseInt(t.style.getPropertyValue('--m'))])"
    )
    assert len(tiles) >= 4
    for (lead, strength), (other, weaker) in itertools.combinations(sorted(tiles, reverse=True), 2):
        assert strength >= weaker, (lead, other)
    seen.close()


def crossing_length() -> float:
    """Where `early` and `late` are equally fast: overheads and rates of the made-up run, causal, 8 heads of 64."""
    _, early, late = CROSSING
    flops = (late.overhead - early.overhead) / (1 / early.rate - 1 / late.rate)
    return math.sqrt(2 * flops / (4 * 8 * 64))


def test_crossings_are_drawn_and_said_and_vanish_with_them(browser: Any, pages: Any, tmp_path: Path) -> None:
    seen = Seen(browser, pages("crossing"))
    said = seen.page.locator(".crossing").first.inner_text()
    assert said.startswith("Fastest: early up to 256; late from 512 on (seq_len, tokens). ")
    assert "Crossing: early and late at about " in said
    told = float(said.rstrip(".").rsplit(" ", 1)[1].replace(",", ""))
    assert told == pytest.approx(crossing_length(), rel=0.15)
    chart = "#families .facet .chart"
    seen.drawn(chart)
    (shape,) = seen.get(f"document.querySelector({chart!r}).layout.shapes")
    assert shape["x0"] == shape["x1"] == pytest.approx(told, rel=0.05)
    seen.close()
    never = made.Recipe(grid=ONE, suites=("attention.forward",), contenders=CROSSING, noise=0.002, speed={"late": 0.01})
    other = Seen(browser, build([made.write(tmp_path / "never", never)]))
    said = other.page.locator(".crossing").first.inner_text()
    assert said == "Fastest: late at every seq_len measured, 128 to 8,192 (tokens)."
    other.close()


def test_means_are_over_common_cases_only_with_their_number(browser: Any, pages: Any) -> None:
    """tritonbench 1224: an average over different sets of inputs."""
    path = pages("demo")
    pairs = [row for row in rows_of(path) if row["kind"] == "pair" and row["suite"] == "attention.forward"]
    against = [row for row in pairs if {row["a"], row["b"]} == {"eager", "flex"}]
    turned = [
        Comparison(1 / row["ratio"], 1 / row["high"], 1 / row["low"], "open") if row["a"] == "eager" else None
        for row in against
    ]
    found = geometric_mean([one for one in turned if one is not None])
    assert found is not None and found.cases == 24  # of 28: it failed at 128 and 256 in bf16
    seen = Seen(browser, path)
    table = seen.page.locator(".summary table").first
    texts = table.locator("tbody tr", has_text="FlexAttention").locator("td").all_text_contents()
    clean = [text.strip("\u2007\u2008 ") for text in texts]
    assert float(clean[0]) == pytest.approx(1 / found.value, rel=6e-3)
    assert clean[2] == "24" and "over the 24 cases all ran" in table.locator("thead").inner_text()
    seen.close()


def test_the_csv_holds_the_filtered_rows_and_any_text(browser: Any, pages: Any) -> None:
    seen = Seen(browser, pages("demo"), fragment="#dtype=fp32&causal=true")
    with seen.page.expect_download() as waited:
        seen.page.click("#csv")
    text = Path(waited.value.path()).read_bytes().decode("utf-8-sig")
    found = list(csv.DictReader(io.StringIO(text)))
    wanted = [row for row in rows_of(pages("demo")) if row["kind"] == "cell"]
    wanted = [row for row in wanted if row["axis.dtype"] == "fp32" and row["axis.causal"]]
    assert [row["row_id"] for row in found] == [row["row_id"] for row in wanted]
    assert float(found[0]["time_s"]) == pytest.approx(wanted[0]["time_s"], rel=1e-4)
    assert waited.value.suggested_filename == "bancada-demo.csv"
    seen.close()
    hostile = Seen(browser, pages("hostile"))
    with hostile.page.expect_download() as waited:
        hostile.page.click("#csv")
    text = Path(waited.value.path()).read_bytes().decode("utf-8-sig")
    assert {row["label"] for row in csv.DictReader(io.StringIO(text))} == {HOSTILE, "y", "eager attention"}
    hostile.close()


def test_keys_do_what_the_mouse_does(browser: Any, pages: Any) -> None:
    seen = Seen(browser, pages("demo"))
    seen.page.keyboard.press("Tab")
    assert seen.page.evaluate("document.activeElement.className") == "skip"
    assert seen.get("document.activeElement.getBoundingClientRect().left >= 0")  # seen once it has the focus
    chart = "#families .facet .chart"
    seen.drawn(chart)
    seen.page.locator(chart).first.focus()
    seen.page.keyboard.press("ArrowRight")
    seen.until(f"document.querySelector({chart!r}).querySelector('.hovertext')")
    seen.page.keyboard.press("Enter")
    assert seen.get("document.getElementById('detail').open")
    seen.page.keyboard.press("Escape")
    seen.page.locator("#coverage-body tbody tr button").first.focus()
    seen.page.keyboard.press("Enter")
    assert seen.get("document.getElementById('detail').open")
    seen.page.keyboard.press("Escape")
    unreachable = "[...document.querySelectorAll('tr.opens')].filter(r => !r.querySelector('button'))"
    assert seen.get(f"{unreachable}.length") == 0
    seen.close()


def test_printed_charts_fit_a_sheet(browser: Any, pages: Any) -> None:
    seen = Seen(browser, pages("demo"), scheme="dark")
    seen.get("dispatchEvent(new Event('beforeprint'))")
    seen.page.emulate_media(media="print")
    assert seen.get("window.bancadaDrawn === Number(document.documentElement.dataset.charts)")
    assert seen.get("[...document.querySelectorAll('.chart .main-svg')].every(s => s.clientWidth <= 680)")
    assert seen.get("[...document.querySelectorAll('.equal')].every(one => one.open)")
    assert seen.get("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    seen.get("dispatchEvent(new Event('afterprint'))")
    assert not seen.get("[...document.querySelectorAll('.equal')].some(one => one.open)")  # as the reader had them
    seen.page.emulate_media(media="screen")
    seen.close()
