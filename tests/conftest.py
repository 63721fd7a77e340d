"""Shared by the tests that look at a report in a browser."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
BENCH = HERE.parent / "bench" / "tests"
for folder in (HERE, BENCH, BENCH / "compiled"):  # where the made-up runs are
    sys.path.insert(0, str(folder))


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        if os.environ.get("CI"):
            pytest.fail("CI must have chromium: .ci/run installs it")
        pytest.skip("chromium is not installed")
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=found, args=flags)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Builds a named page once."""
    import _pages as named
    import _synthetic as made

    from bancada.report import build

    built: dict[str, Path] = {}

    def get(name: str) -> Path:
        if name not in built:
            run = made.write(tmp_path_factory.mktemp("runs") / name, named.RECIPES[name])
            built[name] = build([run])
        return built[name]

    return get
