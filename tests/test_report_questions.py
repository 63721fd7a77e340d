"""The questions people ask, in a browser: sentences first, a chart when one is opened, by mouse, key and address."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import _synthetic_kinds as kinds
import pytest
from _asked import raced
from _pages import Seen

from bancada import rows as schema
from bancada.report import build

pytestmark = pytest.mark.browser
ATTENTION = {"torch-eager": "exact-attention", "flash-tiled": "flash-attention"}
METHODS = {"full": "full-fine-tuning", "lora": "lora", "head": "freezing"}
KINDS = {"flash-attention": "lines", "muon": "curves", "fsdp-or-deepspeed": "bars", "forgetting": "scatter"}
OPEN = "document.querySelector('#q-%s').open"
DRAWN = "document.querySelector('#q-%s .chart')?.bancada.drawn"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that answers with a chart of each kind."""
    run = kinds.write(tmp_path_factory.mktemp("asked") / "run")
    found: list[Any] = []
    for seq_len, ratio in ((128, 1.5), (512, 0.6), (2048, 0.2)):
        times = {"torch-eager": seq_len**2 * 1e-8, "flash-tiled": seq_len**2 * 1e-8 * ratio}
        fields: Any = {one: {"error_max": 1e-6, "peak_bytes": seq_len * 64} for one in times}
        axes = {"seq_len": seq_len, "dtype": "fp32"}
        found += raced("attention.forward", axes, times, ATTENTION, reference="torch-eager", ours=["flash-tiled"],
                       fields=fields)  # fmt: skip
    figures = {"full": (3.0, 0.6), "lora": (2.5, 0.2), "head": (1.0, 0.9)}
    fields = {
        one: {"measure.updates": 100.0, "measure.final.trained": 10.0, "measure.final.gain": gain,
              "measure.final.forgetting": lost, "measure.final.forgetting.low": lost - 0.1,
              "measure.final.forgetting.high": lost + 0.1}
        for one, (gain, lost) in figures.items()
    }  # fmt: skip
    axes = {"task": "kjv", "updates": 100}
    found += raced("peft.quality", axes, dict.fromkeys(figures, 0.05), METHODS, reference="full", fields=fields)
    schema.append(run / "rows.jsonl", found)
    return build([run])


def test_sentences_come_first_and_charts_are_made_when_opened(browser: Any, page: Path) -> None:
    seen = Seen(browser, page)
    before = seen.get("Number(document.documentElement.dataset.charts)")
    boxes = seen.get("[...document.querySelectorAll('details[data-question]')].map(box => box.id)")
    assert boxes == ["q-flash-attention", "q-muon", "q-forgetting", "q-fsdp-or-deepspeed"]
    assert not any(seen.get(OPEN % box[2:]) for box in boxes)
    said = seen.get("[...document.querySelectorAll('.qa .say')].filter(s => s.getBoundingClientRect().height).length")
    assert said == len(boxes)
    for name, kind in KINDS.items():
        seen.page.click(f"#q-{name} summary")
        seen.get(f"document.querySelector('#q-{name}').scrollIntoView({{behavior: 'instant'}})")
        seen.until(DRAWN % name)
        traces = seen.get(f"document.querySelector('#q-{name} .chart').data.length")
        assert traces >= {"lines": 1, "curves": 4, "bars": 3, "scatter": 3}[kind]
    assert seen.get("Number(document.documentElement.dataset.charts)") == before + len(KINDS)
    seen.close()


def test_a_line_at_even_and_a_point_opens_its_row(browser: Any, page: Path) -> None:
    seen = Seen(browser, page, fragment="#q-flash-attention")
    assert seen.get(OPEN % "flash-attention") and seen.get("document.activeElement.id") == "q-flash-attention"
    seen.until(DRAWN % "flash-attention")
    chart = "document.querySelector('#q-flash-attention .chart')"
    assert [shape["y0"] for shape in seen.get(f"{chart}.layout.shapes")] == [1]
    line = seen.get(
        f"{chart}.data.filter(trace => trace.mode.includes('markers')).map(trace => [trace.y, trace.customdata])"
    )
    [[ys, rows]] = line
    assert ys == pytest.approx([1.5, 0.6, 0.2]) and all(isinstance(row, int) for row in rows)
    seen.get(f"{chart}.emit('plotly_click', {{points: [{{customdata: {rows[0]}}}]}})")
    assert "flash-tiled" in seen.get("document.getElementById('detail').textContent")
    seen.close()


def test_by_key_and_on_a_narrow_screen_and_in_the_dark(browser: Any, page: Path) -> None:
    seen = Seen(browser, page, width=390, scheme="dark")
    seen.get("document.querySelector('#q-muon summary').focus()")
    seen.page.keyboard.press("Enter")
    seen.until(OPEN % "muon")
    seen.page.keyboard.press("Tab")
    assert seen.get("document.activeElement.closest('.qa')?.id") == "q-muon"  # its links come next
    seen.get("document.querySelector('#q-muon figure').scrollIntoView({behavior: 'instant'})")
    seen.until(DRAWN % "muon")
    for name in KINDS:
        seen.get(f"document.querySelector('#q-{name}').open = true")
    seen.get("document.querySelector('.rest').open = true")
    assert seen.get("document.documentElement.scrollWidth") <= 390
    seen.close()


def test_all_are_printed(browser: Any, page: Path) -> None:
    seen = Seen(browser, page)
    seen.get("dispatchEvent(new Event('beforeprint'))")
    for name in KINDS:
        assert seen.get(OPEN % name) and seen.get(DRAWN % name), name
    seen.get("dispatchEvent(new Event('afterprint'))")
    assert not any(seen.get(OPEN % name) for name in KINDS)  # as the reader had them
    seen.close()


def test_an_address_names_an_answer_beside_filters(browser: Any, page: Path) -> None:
    seen = Seen(browser, page)
    seen.get("location.hash = '#dtype=fp32&q-muon'")
    seen.until(OPEN % "muon")
    assert seen.get("document.activeElement.id") == "q-muon"
    seen.page.locator("#q-muon a", has_text="Link to this answer").click()
    assert seen.page.url.endswith("#q-muon") or seen.page.url.endswith("&q-muon")
    seen.get("location.hash = '#coverage'")
    seen.until("document.activeElement.id === 'coverage'")
    seen.get("location.hash = '#detail'")  # no place to go to
    seen.until("location.hash === '#detail'")
    assert not seen.get("document.querySelector('dialog').open")
    seen.close()
