"""Made-up runs by name, and a page opened in a browser with all that it said."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import _synthetic as made

from bancada import rows as schema

HOSTILE = "<b>x</b><script>window.pwned=1</script><img src=x onerror=window.pwned=1>\"'&lt;b&gt;"
GRID = made.Recipe().grid
ONE = GRID | {"dtype": ["fp32"], "causal": [True]}
MANY = 18
"""Contenders beside the reference on the crowded page."""
CROSSING = (
    made.CONTENDERS[0],
    made.Made("early", "early", "bancada", "flash", 1e-4, 40e9),
    made.Made("late", "late", "peer", "flash", 4e-3, 120e9),
)
"""`early` starts at once and `late` is three times as fast: they cross where the work is 2.34e8 operations."""


def _way(i: int) -> Any:
    origin = "peer" if i % 3 else "bancada"
    return made.Made(f"way-{i}", f"way {i}", origin, "flash", 1e-4 * (1 + i), 9e10 / (1 + i))


TRADE = (
    made.CONTENDERS[0],
    made.Made("fast", "fast, large", "peer", "exact", 1e-5, 1e12, scores=True),
    made.Made("small", "small, slower", "bancada", "flash", 1e-5, 40e9),
    made.Made("neither", "neither", "bancada", "flash", 1e-5, 25e9),
)
"""At 4,096 one is fastest and writes all scores, one takes twice as long and a hundredth of the memory."""
RECIPES = {
    "demo": made.Recipe(),
    "ragged": made.ragged(),
    "one": made.Recipe(grid=ONE | {"seq_len": [4096]}, suites=("attention.forward",)),
    "none": made.Recipe(grid=ONE, all_unsupported=("attention.forward", "attention.training")),
    "stopped": made.Recipe(grid=ONE, drop=2, end=False),
    "large": made.large(),
    "crowd": made.Recipe(
        grid=ONE,
        suites=("attention.forward",),
        contenders=(
            made.CONTENDERS[0],
            *(_way(i) for i in range(MANY)),
        ),
    ),
    "trade": made.Recipe(grid=ONE | {"seq_len": [4096]}, suites=("attention.forward",), contenders=TRADE),
    "crossing": made.Recipe(grid=ONE, suites=("attention.forward",), contenders=CROSSING, noise=0.002),
    "hostile": made.Recipe(
        grid=ONE,
        suites=("attention.forward",),
        device_name=HOSTILE,
        run=HOSTILE,
        contenders=(
            made.CONTENDERS[0],
            made.Made("x", HOSTILE, "bancada", "flash", 1e-4, 1e11),
            made.Made("y", "y", "peer", "flash", 1e-4, 1e11, reason=HOSTILE),
        ),
    ),
}


class Seen:
    """A page, with everything it said, threw and asked for."""

    def __init__(self, browser: Any, path: Path, width: int = 1280, scheme: str = "light", fragment: str = "") -> None:
        self.context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri() + fragment, wait_until="commit")
        self.until("document.documentElement.dataset.ready === '1'")

    def get(self, script: str) -> Any:
        return self.page.evaluate(script)

    def until(self, condition: str, seconds: float = 90.0) -> None:
        """Polls from outside: the page's policy forbids evaluating text inside it."""
        end = time.monotonic() + seconds
        while not self.get(condition):
            assert time.monotonic() < end, f"{condition} did not come true; the page said {self.said}"
            time.sleep(0.05)

    def scroll(self) -> None:
        """Through the whole page, as a reader would, waiting for the charts of each screen."""
        seen = "r => r.width && r.bottom > 0 && r.top < innerHeight"
        here = f"[...document.querySelectorAll('.chart')].filter(c => ({seen})(c.getBoundingClientRect()))"
        y = 0
        while y < self.get("document.documentElement.scrollHeight"):
            self.get(f"scrollTo({{top: {y}, behavior: 'instant'}})")
            self.until(f"{here}.every(chart => chart.bancada.drawn)")
            y += 700
        self.until("window.bancadaDrawn === Number(document.documentElement.dataset.charts)")

    def drawn(self, selector: str) -> None:
        """Scrolls the first chart that fits to where it is drawn."""
        self.page.locator(selector).first.scroll_into_view_if_needed()
        self.until(f"document.querySelector({selector!r}).bancada.drawn")

    def close(self) -> None:
        outside = [url for url in self.asked if not url.startswith(("file:", "data:", "blob:"))]
        self.context.close()
        assert self.said == [] and outside == []


def rows_of(page: Path) -> list[dict[str, Any]]:
    return schema.read(page.parent / "rows.jsonl").rows


def cells_of(page: Path) -> list[dict[str, Any]]:
    return [row for row in rows_of(page) if row["kind"] == "cell" and row["status"] == "ok"]
