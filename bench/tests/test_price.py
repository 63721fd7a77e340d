"""The price of a device-hour: given at the sweep or at the report, told on the page, refused where it is none."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from test_report import payload_of, write

from bancada import price
from bancada.console import Choices
from bancada.report import build


def test_a_report_takes_the_price_it_is_given(tmp_path: Path) -> None:
    run = write(tmp_path / "run")
    (none,) = payload_of(build([run]).read_text(encoding="utf-8"))["runs"]
    (priced,) = payload_of(build([run], price=2.5).read_text(encoding="utf-8"))["runs"]
    assert price.FIELD not in none["head"] and priced["head"][price.FIELD] == 2.5


@pytest.mark.parametrize("wrong", [0.0, -1.0, math.inf, math.nan])
def test_what_is_no_price_is_refused_before_any_work(wrong: float, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"price=.*must be a finite number above 0"):
        build([write(tmp_path / "run")], price=wrong)
    with pytest.raises(ValueError, match="price="):
        Choices("smoke", price=wrong, device="cpu").campaign(Path(__file__).parents[2], "command", aa=False)
    assert not (tmp_path / "run" / "report.html").exists()


def test_a_sweep_keeps_its_price_for_the_report() -> None:
    made = Choices("smoke", price=2.5, device="cpu").campaign(Path(__file__).parents[2], "command", aa=False)
    other = Choices("smoke", device="cpu").campaign(Path(__file__).parents[2], "command", aa=False)
    assert made.price == 2.5 and other.price is None
    assert made.key == other.key, "an assumption of the reader's measures nothing anew"
