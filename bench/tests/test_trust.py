"""What `bancada trust` makes of the rows it raced, and its command line over recorded races."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from bancada import rows, traces, trust
from bancada._suites import CONTENDERS, PLANTED, planted, spin
from bancada.cli import app
from bancada.settings import Settings
from bancada.suite import Device
from bancada.sweep import Planned

TIE = "too close to call"


def pair(a: str, b: str, verdict: str, parts: int = 20) -> rows.Row:
    case = planted().case(parts=parts).id
    return {"kind": "pair", "suite": "harness.planted", "case": case, "a": a, "b": b, "verdict": verdict}


def test_pairs_are_counted_by_what_is_known_of_them(tmp_path: Path) -> None:
    found = [
        pair("same-0", "same-1", TIE),
        pair("same-0", "same-2", "faster"),
        pair("slow-0", "slow-1", TIE),
        pair("same-0", "slow-0", "faster"),
        pair("same-1", "slow-0", TIE),
        pair("same-1", "slow-1", "slower"),
        pair("same-0", "slow-0", TIE, parts=200),
        pair("same-0", "slow-1", "faster", parts=200),
        pair("same-1", "slow-1", "slower", parts=200),
        {"kind": "cell", "suite": "harness.spin", "status": "crashed", "axis.microseconds": 100},
        {"kind": "cell", "suite": "harness.spin", "status": "ok", "axis.microseconds": 1000, "time_s": 1.01e-3},
    ]
    told = trust.count(found, tmp_path)
    five, half = told.slower
    assert (told.false.part, told.false.whole) == (1, 3)
    assert (five.found.part, five.turned.part, five.found.whole) == (1, 1, 3)
    assert (half.found.part, half.turned.part, half.found.whole) == (1, 1, 3)
    assert told.spins == {1000: pytest.approx(1010.0)}
    console = Console(record=True, width=120)
    trust.show(console, told)
    text = console.export_text()
    for line in ("called different", "33.3%", "planted slowdown of 0.5% called", "66.7%", "1,010.0 us", "within 3%"):
        assert line in text


def test_the_planted_contenders_do_exactly_a_part_more(cpu: Device) -> None:
    """One call in 20 more is 5%, one in 200 is 0.5%."""
    for name, parts in PLANTED.items():
        calls = []
        for contender in (planted().contenders[0], planted().contenders[-1]):
            counted = Counting(np.ones(1))
            contender.build(planted().case(operation="copy", size=512, parts=parts), {"x": counted})()  # type: ignore[dict-item]
            calls.append(counted.clones)
        assert calls == [parts, parts + 1] and f"{calls[1] / calls[0] - 1:.1%}".replace(".0%", "%") == name


class Counting:
    """A tensor as far as a copy of it needs one."""

    def __init__(self, value: object) -> None:
        self.value, self.clones = value, 0

    def clone(self) -> object:
        self.clones += 1
        return self.value


@pytest.mark.parametrize("comparisons", [1, 150])
def test_at_least_so_many_comparisons_of_each_kind_are_raced(
    comparisons: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Planned] = []

    def no_race(planned: list[Planned], settings: Settings, *_: object) -> Path:
        asked.extend(planned)
        return tmp_path

    monkeypatch.setattr(trust, "_race", no_race)
    trust.measure(tmp_path, tmp_path, "cpu", 1, comparisons, Console())
    same = [one for one in asked if one.suite.id == "harness.aa"]
    assert len(same) * trust._pairs() >= comparisons
    for parts in PLANTED.values():
        crossed = [one for one in asked if one.suite.id == "harness.planted" and one.case.number("parts") == parts]
        assert len(crossed) * (CONTENDERS // 2) ** 2 >= comparisons


def test_a_spin_takes_the_time_that_its_case_says() -> None:
    import time

    import torch

    run = spin().contenders[0].build(spin().case(microseconds=3_000), {"x": torch.ones(8)})
    start = time.perf_counter()
    run()
    assert time.perf_counter() - start >= 0.003


def test_the_figures_of_recorded_races_are_printed_without_racing(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["trust", "--no-race", "--out", str(tmp_path / "runs")])
    assert done.exit_code == 0, done.output
    found = traces.figures(traces.load(), Settings())
    for share in (found.false, found.found, found.called, found.unstable):
        assert str(share) in done.output and str(share.whole) in done.output
    assert not (tmp_path / "runs").exists()


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    nowhere = CliRunner().invoke(app, ["trust", "--no-race", "--replay", str(tmp_path / "none.npz")])
    assert nowhere.exit_code == 2
    with pytest.raises(ValueError, match="comparisons=0"):
        trust.measure(tmp_path, tmp_path, "cpu", 1, 0, Console())
    with pytest.raises(ValueError, match="comparisons=0"):
        trust.record(tmp_path, tmp_path, "cpu", 1, 0, tmp_path / "x.npz", Console())
