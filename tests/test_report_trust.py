"""What the page says of how it was measured: processes, prices, energy, clocks, unstable contenders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import _synthetic as made
import pytest
from _pages import GRID, Seen

from bancada.report import build

pytestmark = pytest.mark.browser
TOLD = {
    "isolate": "process", "block_rounds": 10, "energy_j": 0.0125, "drift_share": -0.04, "clock_mhz": 1755.0,
    "clock_low_mhz": 1410.0, "clock_high_mhz": 1980.0, "temperature_c": 71.0, "slowed_by": "power cap in 40% of rounds",
    "warm_s": 0.002, "host_s": 0.004, "clocks_mhz": [1980.0, 1410.0],
}  # fmt: skip


def write(folder: Path, told: dict[str, Any], unstable: str = "") -> Path:
    """A run of one suite whose measured cells hold these fields too, and one contender of which is unstable."""
    one = GRID | {"dtype": ["fp32"], "causal": [True], "seq_len": [2048, 4096]}
    run = Path(made.write(folder, made.Recipe(grid=one, suites=("attention.forward",), failures=False)))
    rows = [json.loads(line) for line in (run / "rows.jsonl").read_text(encoding="utf-8").splitlines()]
    for row in rows:
        if row["kind"] == "cell":
            row |= told
            if row["contender"] == unstable:
                row |= {"status": "unstable", "reason": "its times against the others' have two humps, 40.0% apart"}
    kept = [row for row in rows if row["kind"] != "pair" or unstable not in (row["a"], row["b"])]
    (run / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in kept), encoding="utf-8")
    return run


def heads(seen: Seen) -> list[str]:
    found: list[str] = seen.page.locator("#families .cells table.data").first.locator("thead th").all_inner_texts()
    return [" ".join(text.split()) for text in found]


def test_prices_energy_clocks_and_processes_are_declared(browser: Any, tmp_path: Path) -> None:
    seen = Seen(browser, build([write(tmp_path / "run", TOLD)], price=2.5))
    text = " ".join(seen.page.locator("#trust-body").inner_text().split())
    assert "Costs take a device-hour at 2.5, in whatever currency that was meant: it is assumed, not measured." in text
    assert "a fresh process for every contender and block of rounds" in text and "blocks of 10 rounds" in text
    assert "Energy is what the whole device used" in text
    assert "1410 to 1980 MHz" in text and "71 °C" in text and "in 2 of 2 cases" in text
    columns = heads(seen)
    for title in ("cost a million calls", "energy mJ a call", "warm caches ms", "host included ms"):
        assert title in columns, columns
    place = columns.index("cost a million calls")
    row = seen.page.locator("#families .cells table.data").first.locator("tbody tr").first
    shown = row.locator("td, th").nth(place).inner_text()
    row.click()
    told = " ".join(seen.page.locator("#detail").inner_text().split())
    assert "each the median of 10 in a process of its own" in told and "slowed by power cap" in told
    assert "12.5 mJ" in told and "−4.0%" in told
    assert float(shown.replace("\u2007", "").replace("\u2008", "").replace(",", "")) > 0
    seen.close()


def test_what_was_not_told_takes_no_room(browser: Any, tmp_path: Path) -> None:
    seen = Seen(browser, build([write(tmp_path / "run", {})]))
    text = seen.page.locator("#trust-body").inner_text()
    for word in ("device-hour", "fresh process", "whole device used", "MHz"):
        assert word not in text
    assert not [title for title in heads(seen) if title.split()[0] in ("cost", "energy", "warm", "host")]
    seen.close()


def test_an_unstable_contender_is_shown_with_its_reason_and_compared_with_nobody(browser: Any, tmp_path: Path) -> None:
    """nvbench 206: clocks drop in a run (case 5)."""
    seen = Seen(browser, build([write(tmp_path / "run", {}, unstable="flash-tiled")]))
    assert "flash (tiled)" not in seen.page.locator(".verdict").first.inner_text()
    mark = seen.page.locator("#families .status.s-unstable").first
    assert "unstable" in mark.inner_text() and "two humps" in str(mark.get_attribute("title"))
    assert "is unstable and compared with nobody" in seen.page.locator("#trust-body").inner_text()
    seen.close()
