"""The section of compiled configurations in a browser: what to try first, why, and what was ruled out."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from _compiled_rows import row, write
from _pages import Seen
from _planted_compiled import SOUND, suite

from bancada.report import build

pytestmark = pytest.mark.browser
SUITE = suite(SOUND)
SM_90 = {"target": "sm_90"}
FOUND = [
    row(SUITE, SM_90 | {"block": 64}),
    row(SUITE, SM_90 | {"block": 128}, stack_bytes=96, instructions=20.0),
    row(SUITE, SM_90 | {"block": 32}, instructions=25.0, resident_warps=48),
    row(SUITE, SM_90 | {"block": 256}, "unsupported", "needs 400,000 bytes of shared memory", shared_bytes=400_000),
    row(SUITE, SM_90 | {"block": 16}, "crashed", "CompilationError: at 1:0"),
    row(SUITE, {"target": "sm_80", "block": 64}, stack_bytes=8, resident_warps=8, occupancy=0.125),
]
SECTION = "document.querySelector('[data-suite=\"planted.compile\"]')"
TEXTS = "[...%s.querySelectorAll(%r)].map(node => node.textContent)"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build([write(tmp_path_factory.mktemp("compiled") / "runs" / "x", SUITE, FOUND)])


def texts(seen: Seen, selector: str) -> Any:
    return seen.get(TEXTS % (SECTION, selector))


def test_what_to_try_first_comes_first_and_nothing_looks_measured(browser: Any, page: Path) -> None:
    seen = Seen(browser, page)
    assert "nothing here was timed" in texts(seen, ".caution")[0]
    assert texts(seen, ".win") == [
        "64, 4 warps2 of 5 left to try16 warps resident, no stack",
        "64, 4 warps1 of 1 left to try8 warps resident, 8 B of stack",
    ]
    order = seen.get(f"[...{SECTION}.querySelectorAll('.configurations tbody tr')].map(r => "
                     "[...r.children].slice(0, 4).map(c => c.textContent.trim()))")  # fmt: skip
    assert order == [
        ["1", "64, 4 warps", "left to try", "16"],
        ["2", "32, 4 warps", "left to try", "48"],
        ["3", "128, 4 warps", "dominated by 1", "16"],
    ]
    assert texts(seen, ".gaps") == [
        "Ruled out: 256, 4 warps (unsupported: needs 400,000 bytes of shared memory).",
        "Not compiled: 16, 4 warps (crashed: CompilationError: at 1:0).",
    ]
    notes = " ".join(texts(seen, ".note"))
    assert "somewhere better in stack (spilled registers), missing" in notes
    assert notes.startswith("All with fp16, length 1,024. One configuration")
    assert texts(seen, ".wins thead th") == ["", "sm_90 a chip", "sm_80 a chip"]
    assert texts(seen, ".wins tbody th") == ["all"]
    heads = seen.get("[...document.querySelectorAll('.figures dd')].map(node => node.textContent.trim())")
    assert heads == ["0 of 6", "–", "–"]
    assert "compiled: 4" in seen.get("document.querySelector('#coverage-body .legend').textContent")
    seen.close()


def test_a_target_is_chosen_by_a_click_and_by_the_filter(browser: Any, page: Path) -> None:
    seen = Seen(browser, page)
    seen.page.locator("[data-suite='planted.compile'] .win").nth(1).click()
    assert texts(seen, ".configurations h4") == ["Configurations: sm_80"]
    seen.page.locator(".configurations tbody button").first.click()
    assert "resident_warps 8" in seen.get("document.querySelector('#detail').textContent")
    seen.close()
    filtered = Seen(browser, page, fragment="#target=sm_80")
    assert texts(filtered, ".win") == ["64, 4 warps1 of 1 left to try8 warps resident, 8 B of stack"]
    filtered.close()


def test_a_filter_that_hides_the_better_one_leaves_the_worse_dominated(browser: Any, page: Path) -> None:
    seen = Seen(browser, page, fragment="#block=128")
    assert texts(seen, ".win") == ["128, 4 warps0 of 1 left to try16 warps resident, 96 B of stack"]
    assert "dominated by 64, 4 warps" in texts(seen, ".configurations tbody tr")[0]
    seen.close()
    alone = Seen(browser, page, fragment="#block=16")
    assert texts(alone, ".win") == ["none compiledcrashed"] and not texts(alone, ".configurations table")
    alone.close()


def test_what_sets_choices_apart_names_them(browser: Any, tmp_path: Path) -> None:
    """Contender, dtype, length: each question has a row of its own, with the best of its own."""
    both = suite(SOUND, dataclasses.replace(SOUND, id="second", label="the second"))
    found = [
        row(both, SM_90 | more | {"block": block}, contender=one, stack_bytes=stack)
        for one, more, best in (
            (0, {}, 64), (1, {}, 128), (0, {"dtype": "fp32"}, 256), (0, {"length": 99}, 512),
        )
        for block, stack in ((best, 0), (1024, 8))
    ]  # fmt: skip
    seen = Seen(browser, build([write(tmp_path / "runs" / "x", both, found)]))
    titles = ["sound, fp16, length 1,024", "the second, fp16, length 1,024", "sound, fp32, length 1,024",
              "sound, fp16, length 99"]  # fmt: skip
    assert texts(seen, ".wins tbody th") == titles
    firsts = [f"{best}, 4 warps1 of 2" for best in (64, 128, 256, 512)]
    assert [text.split(" left")[0] for text in texts(seen, ".win")] == firsts
    seen.page.locator("[data-suite='planted.compile'] .win").nth(1).click()
    assert texts(seen, ".configurations h4") == [f"Configurations: sm_90, {titles[1]}"]
    seen.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_narrow_screen(browser: Any, page: Path, scheme: str) -> None:
    seen = Seen(browser, page, width=390, scheme=scheme)
    assert seen.get("document.documentElement.scrollWidth") <= 390
    seen.close()
