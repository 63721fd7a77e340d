"""A case on one rank, in this process and by a clock that steps move: drift, and the time that a race may take."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from bancada import rows
from bancada.clock import Clock
from bancada.ranks import Ranks, RanksContender, RanksSuite
from bancada.ranks.control import Control
from bancada.ranks.item import Place, RankedCase
from bancada.settings import Job, JobCase, Settings
from bancada.suite import Axis, Device, Technique, Tensors, Work

CARD = Technique("planted", "Planted", "Plantado", "parallelism", "For tests.", "y = x", "-")
STEADY_S = 0.01


class Alone:
    """What ranks tell each other where there is one."""

    def barrier(self) -> None: ...

    def decide(self, value: Any) -> Any:
        return value

    def all(self, value: Any) -> list[Any]:
        return [value]

    def slowest(self, seconds: Sequence[float]) -> list[float]:
        return list(seconds)


class Watch:
    """Time as the steps of the contenders move it; it can be read where `time` is."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


class Paced:
    """Its step takes what `pace` says of the number of steps before it."""

    def __init__(self, watch: Watch, pace: Callable[[int], float]) -> None:
        self.watch, self.pace, self.steps = watch, pace, 0

    def step(self) -> None:
        self.watch.now += self.pace(self.steps)
        self.steps += 1

    def reset(self) -> None: ...

    def outputs(self) -> Tensors:
        return {"y": torch.ones(4)}

    def state_bytes(self) -> Mapping[str, int]:
        return {}

    def close(self) -> None: ...


def measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paces: dict[str, Callable[[int], float]], budget_s: float,
            **settings: Any) -> list[rows.Row]:  # fmt: skip
    """The rows of one case whose contenders take these times."""
    watch = Watch()
    for module in ("bancada.ranks.race", "bancada.ranks.item", "bancada.looks"):
        monkeypatch.setattr(f"{module}.time", watch)

    def build(pace: Callable[[int], float]) -> Callable[..., Paced]:
        return lambda case, inputs, ranks: Paced(watch, pace)

    suite = RanksSuite(
        id="planted.paced", title="Paced", family="parallelism", question="?",
        axes=(Axis("world_size", "n{}", int, minimum=1),), defaults={"world_size": 1},
        inputs=lambda case, device, seed: {"x": torch.ones(4)}, oracle=lambda case, given: {"y": torch.ones(4)},
        tolerance=lambda case: 1e-6, checked_steps=1, expected=lambda case, one: None, work=lambda case: Work(1.0, 1.0),
        techniques=(CARD,), x_axis="world_size",
        contenders=tuple(RanksContender(one, "planted", "peer", build(pace)) for one, pace in paces.items()),
    )  # fmt: skip
    found: list[rows.Row] = []
    device = Device("cpu", "test CPU", 8 * 2**30, threads=1)
    stamp: dict[str, str | int] = {"run": "test", "driver": "", "commit": "0", "versions": "torch=0"}
    place = Place(
        job=Job(tmp_path, (), device, Settings(sample_s=STEADY_S, **settings), stamp),
        ranks=Ranks(0, 1, torch.device("cpu"), "gloo"),
        control=cast(Control, Alone()),
        clock=cast(Clock, SimpleNamespace(synchronise=lambda: None)),
        threads=1,
        beat=lambda *told: None,
        write=found.extend,
        part=lambda name: contextlib.nullcontext(),
    )
    RankedCase(place, suite, JobCase(suite.id, {"world_size": 1}, tuple(paces), budget_s)).run()
    return found


def steady(step: int) -> float:
    return STEADY_S


def moving(step: int) -> float:
    return STEADY_S * (1 if step < 40 else 1.1)


def test_a_contender_that_drifts_is_unstable_and_compared_with_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """nvbench 206: clocks drop in a run (case 5)."""
    paces = {"a": steady, "b": steady, "moving": moving}
    found = measure(tmp_path, monkeypatch, paces, 1e3, rounds=60, most_rounds=60)
    cells = {row["contender"]: row for row in found if row["kind"] == "cell"}
    assert {one: row["status"] for one, row in cells.items()} == {"a": "ok", "b": "ok", "moving": "unstable"}
    assert "between the first and the last third of 60 rounds" in cells["moving"]["reason"]
    drifts = [cells[one]["drift_share"] for one in ("moving", "a")]
    assert drifts == [pytest.approx(0.1, abs=0.01), pytest.approx(0)]
    assert [(row["a"], row["b"]) for row in found if row["kind"] == "pair"] == [("a", "b")]
    for row in found:
        rows.validate(row)


def test_a_race_that_turns_out_slower_than_its_estimate_ends_when_its_time_is_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Screened at 10 ms a step, raced at 100 ms: 30 rounds of two would take 6 s, and 2 s are given."""

    def slower(step: int) -> float:
        return STEADY_S if step < 20 else 10 * STEADY_S

    found = measure(tmp_path, monkeypatch, {"a": slower, "b": slower}, 2.0, rounds=30, most_rounds=90)
    assert {row["rounds"] for row in found if row["kind"] == "cell"} <= set(range(8, 16))
    never = measure(tmp_path, monkeypatch, {"a": slower, "b": slower}, 1e-6, rounds=30, most_rounds=90, least_rounds=5)
    assert {row["rounds"] for row in never if row["kind"] == "cell"} == {5}
