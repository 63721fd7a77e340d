"""Several runs, recorded runs and published figures on the page, and the index of runs, in headless Chromium."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from _pages import GRID, HOSTILE, ONE, Seen
from _synthetic import CONTENDERS, Recipe, write

from bancada.cli import root
from bancada.report import build, index
from bancada.runs import PUBLISHED, baselines

pytestmark = pytest.mark.browser
SMALL = Recipe(grid=ONE | {"seq_len": [512, 1024]}, suites=("attention.forward",), noise=0.01)
GPU = tuple(replace(made, rate=made.rate * 3_000, scores=False, reason="") for made in CONTENDERS)
H200 = replace(
    SMALL,
    grid=GRID | {"seq_len": [8192, 16384], "head_dim": [128], "dtype": ["bf16"], "causal": [True]},
    contenders=GPU,
    run="gpu",
    device_name="NVIDIA H200",
)


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A folder of baselines with the repository's published figures, and a recorded run."""
    folder = tmp_path / "baselines"
    baselines.save(write(tmp_path / "then", replace(SMALL, run="then")), "then", folder)
    (folder / PUBLISHED).write_bytes((root() / "reports" / "baselines" / PUBLISHED).read_bytes())
    return folder


def text(seen: Seen, selector: str) -> str:
    return " ".join(seen.page.locator(selector).inner_text().split())


def test_joined_runs_are_one_machine_and_another_stands_beside_it(browser: Any, tmp_path: Path) -> None:
    """Liger-Kernel 715: several GPUs drawn as one line (case 18)."""
    longer = replace(SMALL, grid=ONE | {"seq_len": [2048]}, run="longer")
    other = replace(SMALL, grid=ONE | {"seq_len": [512, 1024, 2048]}, run="other", device_name="NVIDIA H200")
    runs = [write(tmp_path / one.run, one) for one in (replace(SMALL, run="first"), longer, other)]
    seen = Seen(browser, build(runs))
    seen.scroll()
    assert seen.page.locator("#families .facet h5").all_inner_texts() == ["Intel(R) Xeon(R) 6975P-C", "NVIDIA H200"]
    lengths = seen.get("[...document.querySelectorAll('#families .facet .chart')].map(c => c.data.at(-1).x.length)")
    assert set(lengths) == {3}  # each machine's lines go through all three lengths, of whichever run they are
    assert seen.page.locator("details[data-dimension=run]").count() == 0
    seen.page.click("details[data-dimension=device] summary")
    seen.page.check("input[data-filter=device][value='NVIDIA H200']")
    seen.until("document.getElementById('shown').textContent === '18 of 36 cells'")
    seen.page.uncheck("input[data-filter=device][value='NVIDIA H200']")
    seen.get("document.querySelector('[data-cell]').click()")
    assert "first" in text(seen, "#detail")  # a row says in which run it was measured, though another names the line
    assert "Run first" in text(seen, "#trust-body") and "Run longer" in text(seen, "#trust-body")
    seen.close()


@pytest.mark.parametrize("width", [1280, 390])
def test_times_beside_a_recorded_run_are_compared_where_the_machine_is_the_same(
    browser: Any, tmp_path: Path, kept: Path, width: int
) -> None:
    run = write(tmp_path / "runs" / "now", replace(SMALL, run="now", seed=1, speed={"flash-tiled": 1.1}))
    seen = Seen(browser, build([run]), width)
    said = text(seen, "[data-baseline=then]")
    assert "Times here against the recorded ones: 2 slower, 0 faster" in said and "the 8 cells of peers" in said
    first = seen.page.locator("[data-baseline=then] tbody tr").first.inner_text()
    assert "flash (tiled)" in first and "slower" in first
    assert seen.get("document.documentElement.scrollWidth") <= width
    seen.close()


def test_another_machine_s_times_are_not_compared(browser: Any, tmp_path: Path, kept: Path) -> None:
    run = write(tmp_path / "runs" / "now", replace(SMALL, device_name="Another CPU"))
    seen = Seen(browser, build([run]))
    said = text(seen, "[data-baseline=then]")
    assert "It is another machine" in said and "here / recorded" not in said and "Times here" not in said
    seen.close()


def test_published_figures_stand_apart_and_no_cpu_is_drawn_beside_them(
    browser: Any, tmp_path: Path, kept: Path
) -> None:
    seen = Seen(browser, build([write(tmp_path / "runs" / "now", SMALL)]))
    box = seen.page.locator("[data-published]")
    assert box.count() == 1 and box.get_attribute("data-published") == "attention"
    assert box.locator(".chart").count() == 0 and "none is drawn beside a measured one" in box.inner_text()
    assert "nothing of this was measured here" in box.inner_text()
    box.get_by_role("button", name="Show all").click()
    assert box.locator("tbody tr").count() == 34
    row = box.locator("tbody tr", has_text="block-sparse").inner_text()
    assert "1.1 to 1.24 x" in row and "not stated" in row and "arXiv 2512.07011" in row
    seen.close()


def test_on_the_same_architecture_they_are_drawn_beside_the_same_case_alone(
    browser: Any, tmp_path: Path, kept: Path
) -> None:
    seen = Seen(browser, build([write(tmp_path / "runs" / "gpu", H200)]))
    seen.scroll()
    box = seen.page.locator("[data-published=attention]")
    assert box.locator("figcaption").all_inner_texts() == [
        "Forward, fp16, 16,384 tokens, head size 128, causal; here in bf16 on NVIDIA H200"
    ]
    drawn = seen.get(
        "(c => [c.layout.yaxis.ticktext, c.data.map(t => t.x[0])])(document.querySelector('[data-published] .chart'))"
    )
    names, values = drawn
    published = [name for name in names if "published" in name]
    assert len(names) == 4 + 6 and len(published) == 4 and values == sorted(values)
    assert values[next(i for i, name in enumerate(names) if name.startswith("FlashAttention-3"))] == 616e12
    seen.close()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_the_index_leads_to_pages_and_rows(browser: Any, tmp_path: Path, width: int, scheme: str) -> None:
    run = write(tmp_path / "runs" / "a", replace(SMALL, device_name=HOSTILE))
    build([run])
    page = index.write(tmp_path / "runs")
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    here = context.new_page()
    said: list[str] = []
    here.on("console", lambda message: said.append(message.text))
    here.on("pageerror", lambda error: said.append(str(error)))
    here.goto(page.as_uri())
    assert here.locator("tbody tr").count() == 1 and HOSTILE in here.locator("tbody tr").inner_text()
    assert here.evaluate("window.pwned === undefined && document.documentElement.scrollWidth") <= width
    here.get_by_role("link", name="report", exact=True).click()
    assert here.url == (run / "report.html").as_uri()
    context.close()
    assert said == []
