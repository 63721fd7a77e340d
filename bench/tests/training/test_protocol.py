"""The protocol of a training case: equal tuning, turns in shuffled order, timed windows that hold updates alone."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import torch
from _bench import CPU, cells, job, measure, of_kind, read, worker
from _regression import LR, Regression, altered, contender, momentum, sgd, suite
from torch import Tensor

from bancada import rows
from bancada.clock import CpuClock
from bancada.settings import Settings
from bancada.suite import Case
from bancada.training import Budget, Learner
from bancada.training.estimate import estimate_s
from bancada.training.item import PlainTrainingItem, TrainingItem
from bancada.training.train import MOST_TURNS, TURN, goals

PAIR = (contender("sgd", sgd, LR), contender("momentum", momentum, LR))


class SpyClock(CpuClock):
    """Notes its readings among the calls that a task gets."""

    def __init__(self, calls: list[str]) -> None:
        self.calls = calls

    def __call__(self) -> float:
        self.calls.append("clock")
        return super().__call__()


@pytest.fixture(scope="module")
def spied(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[rows.Row], list[str], dict[int, Regression]]:
    """One case measured: its rows, every call of clock, tasks and contenders in order, the tasks by seed."""
    calls: list[str] = []
    tasks: dict[int, Regression] = {}

    def task(case: Case, device: str, seed: int) -> Regression:
        return tasks.setdefault(seed, Regression(seed, calls))

    def noted(name: str) -> Any:
        def update(inner: Learner, number: int, batch: Mapping[str, Tensor]) -> Tensor:
            calls.append(f"update {name}")
            return inner.update(batch)

        return altered(update)

    pair = tuple(contender(name, noted(name), LR) for name in ("a", "b"))
    made = suite("regression.spied", pair, task=task, target=0.5)
    planned = job(tmp_path_factory.mktemp("spied"), made, {"updates": 60})
    with worker(planned) as found:
        found.clock = SpyClock(calls)
        TrainingItem(found, made, planned.cases[0]).run(None)
    return read(planned.run_dir), calls, tasks


Spied = tuple[list[rows.Row], list[str], dict[int, Regression]]


def test_every_contender_gets_equally_many_trials_of_equal_length(spied: Spied) -> None:
    """Cases of optimizers: unequally tuned comparisons mislead (arXiv 2509.02046)."""
    trials = of_kind(spied[0], "trial")
    by_name = {name: [row for row in trials if row["contender"] == name] for name in ("a", "b")}
    assert [row["hyper.lr"] for row in by_name["a"]] == [row["hyper.lr"] for row in by_name["b"]]
    assert {len(found) for found in by_name.values()} == {3} and {row["updates"] for row in trials} == {30}
    assert {row["seed"] for row in trials} == {0}, "the tuning seed"
    for name, cell in cells(spied[0]).items():
        best = min(by_name[name], key=lambda row: row["metric.loss"])
        assert cell["hyper.lr"] == best["hyper.lr"] and cell["measure.tuning_trials"] == 3
        assert cell["measure.tuning_s"] == pytest.approx(sum(row["seconds"] for row in by_name[name]))


def test_tuning_never_sees_the_held_out_split_nor_results_the_validation_split(spied: Spied) -> None:
    calls = spied[1]
    assert calls.count("validation") == 2 * 3
    last_trial = len(calls) - 1 - calls[::-1].index("validation")
    assert "held_out" not in calls[:last_trial] and "validation" not in calls[last_trial + 1 :]
    assert set(spied[2]) == {0, 1, 2}, "one seed for tuning, two others for results"


def test_the_timed_window_holds_one_update_and_nothing_else(spied: Spied) -> None:
    calls = spied[1]
    places = [place for place, call in enumerate(calls) if call == "clock"]
    assert places and len(places) % 2 == 0
    for start, end in zip(places[::2], places[1::2], strict=True):
        assert end == start + 2 and calls[start + 1].startswith("update")
    watched = calls.count("update a") + calls.count("update b") - len(places) // 2
    assert watched == 2, "one update of each is watched for its memory, untimed"


def test_contenders_take_turns_in_shuffled_order(spied: Spied) -> None:
    calls = spied[1]
    trained = calls[len(calls) - calls[::-1].index("validation") :]
    turns: list[str] = []
    for call in (call for call in trained if call.startswith("update")):
        if not turns or turns[-1] != call:
            turns.append(call)
    assert len(turns) > 20, "turns of five updates, not one run after the other"
    runs = [call for call in trained if call.startswith("update")]
    first = [runs[start] for start in range(0, len(runs), 10)]
    assert {"update a", "update b"} == set(first), "not always the same one first"
    assert all(runs[start : start + 10].count("update a") == 5 for start in range(0, len(runs), 10))


def test_curves_say_where_they_were_evaluated_and_what_it_took(spied: Spied) -> None:
    curves = of_kind(spied[0], "curve")
    assert [(row["contender"], row["seed"]) for row in curves] == [("a", 1), ("b", 1), ("a", 2), ("b", 2)]
    for row in curves:
        assert row["evaluated"] == [0, 15, 30, 45, 60] and row["updates"] == list(range(5, 61, 5))
        assert set(row["evaluated"][1:]) <= set(row["updates"])
        assert row["seconds"] == sorted(row["seconds"]) and len(row["train"]) == len(row["samples"]) == 12
        assert row["metric.loss"][-1] < 0.1 * row["metric.loss"][0]


def test_equal_contenders_learn_the_same_and_nothing_is_won(spied: Spied) -> None:
    """The same code under two names: same curves to the last bit, and every contrast is level."""
    first, second = of_kind(spied[0], "curve")[:2]
    assert first["metric.loss"] == second["metric.loss"] and first["train"] == second["train"]
    contrasts = of_kind(spied[0], "contrast")
    assert [row["measure"] for row in contrasts] == [
        "final.loss", "final.distance", "updates_to_target", "seconds_to_target"
    ]  # fmt: skip
    assert {row["verdict"] for row in contrasts if row["measure"] != "seconds_to_target"} == {"too close to call"}


def test_a_cell_carries_quality_time_memory_and_state(spied: Spied) -> None:
    row = cells(spied[0])["a"]
    curves = [one for one in of_kind(spied[0], "curve") if one["contender"] == "a"]
    finals = [one["metric.loss"][-1] for one in curves]
    assert row["measure.final.loss"] == pytest.approx(statistics.fmean(finals))
    assert row["measure.final.loss.low"] <= row["measure.final.loss"] <= row["measure.final.loss.high"]
    assert row["measure.start.loss"] == pytest.approx(statistics.fmean(one["metric.loss"][0] for one in curves))
    assert row["measure.bytes.parameters"] == row["measure.bytes.optimizer"] == 4 * 17
    assert row["peak_bytes"] > 0 and row["first_call_s"] > 0 and row["measure.updates"] == 60
    samples = [value for one in curves for value in one["samples"]]
    assert row["time_s"] == pytest.approx(statistics.median(samples)) and row["rounds"] == len(samples)


class MadeUpClock(CpuClock):
    """Moves on only where a contender says that its update took time."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_seconds_are_those_of_updates_with_the_first_counted_as_a_usual_one(tmp_path: Path) -> None:
    """Compilation is in `first_call_s`, not in the curve; the update watched for memory is no sample either."""
    clock = MadeUpClock()

    def taking(seconds: float) -> Any:
        def update(inner: Learner, number: int, batch: Mapping[str, Tensor]) -> Tensor:
            clock.now += 100.0 if number == 0 else 50.0 if number == 1 else seconds
            return inner.update(batch)

        return altered(update)

    pair = (contender("one", taking(2.0), {"lr": (0.1,)}), contender("two", taking(3.0), {"lr": (0.1,)}))
    made = suite("regression.clocked", pair, target=0.5)
    planned = job(tmp_path, made, {"updates": 20}, seeds=3)
    with worker(planned) as found:
        found.clock = clock
        TrainingItem(found, made, planned.cases[0]).run(None)
    for row in of_kind(read(tmp_path), "curve"):
        usual = {"one": 2.0, "two": 3.0}[row["contender"]]
        slow_second = row["seed"] > 1  # in the first seed it is watched, and no sample
        assert row["seconds"][0] == (5 * usual if not slow_second else 4 * usual + 50.0)
        assert row["seconds"][-1] - row["seconds"][0] == 15 * usual and row["samples"] == [usual] * 4
    told = cells(read(tmp_path))
    assert (told["one"]["time_s"], told["two"]["time_s"]) == (2.0, 3.0)
    assert told["one"]["first_call_s"] == told["two"]["first_call_s"] == 100.0
    (pair_row,) = of_kind(read(tmp_path), "pair")
    assert pair_row["ratio"] == pytest.approx(2 / 3) and pair_row["verdict"] == "faster"


def test_a_target_is_reached_at_the_first_evaluation_at_or_under_it(spied: Spied) -> None:
    row = cells(spied[0])["a"]
    curves = [one for one in of_kind(spied[0], "curve") if one["contender"] == "a"]
    hits = [next(at for at, loss in zip(one["evaluated"], one["metric.loss"], strict=True) if loss <= 0.5)
            for one in curves]  # fmt: skip
    assert row["measure.seeds_on_target"] == row["measure.seeds"] == 2
    assert row["measure.updates_to_target"] == statistics.fmean(hits)
    took = [one["seconds"][one["updates"].index(hit)] for one, hit in zip(curves, hits, strict=True)]
    assert row["measure.seconds_to_target"] == pytest.approx(statistics.fmean(took))


def test_a_miss_stays_a_miss(tmp_path: Path) -> None:
    """A target that only one contender reaches: the other has no `updates_to_target`, and no contrast is made of it."""
    quick, slow = contender("quick", sgd, {"lr": (0.2,)}), contender("slow", sgd, {"lr": (0.001,)})
    found = measure(tmp_path, suite("regression.missed", (quick, slow), target=0.1), {"updates": 25}, seeds=3)
    hit, missed = cells(found)["quick"], cells(found)["slow"]
    assert hit["measure.seeds_on_target"] == 3 and "measure.updates_to_target" in hit
    assert missed["measure.seeds_on_target"] == 0 and "measure.updates_to_target" not in missed
    assert {row["measure"] for row in of_kind(found, "contrast")} == {"final.loss", "final.distance"}
    (loss,) = [row for row in of_kind(found, "contrast") if row["measure"] == "final.loss"]
    assert (loss["a"], loss["b"], loss["verdict"], loss["seeds"]) == ("quick", "slow", "better", 3)
    assert loss["low"] <= loss["difference"] <= loss["high"] < 0


def test_contenders_that_draw_random_numbers_do_not_disturb_each_other(tmp_path: Path) -> None:
    """Dropout's masks follow seed and update, not who had its turn before."""

    def noisy(inner: Learner, number: int, batch: Mapping[str, Tensor]) -> Tensor:
        return inner.update({"x": torch.nn.functional.dropout(batch["x"], 0.2), "y": batch["y"]})

    one = contender("noisy", altered(noisy))
    curves = []
    for folder, crowd in (("alone", (one,)), ("crowd", (*PAIR, one, replace(one, id="again")))):
        (tmp_path / folder).mkdir()
        found = measure(tmp_path / folder, suite("regression.noisy", crowd, evaluations=1), seeds=1, trials=1)
        curves += [row for row in of_kind(found, "curve") if row["contender"] in ("noisy", "again")]
    assert len(curves) == 3 and curves[0]["metric.loss"] == curves[1]["metric.loss"] == curves[2]["metric.loss"]


def test_a_budget_of_seconds_stops_every_contender_after_its_own_seconds(tmp_path: Path) -> None:
    def slower(inner: Learner, number: int, batch: Mapping[str, Tensor]) -> Tensor:
        time.sleep(0.004)
        return inner.update(batch)

    pair = (contender("quick", sgd), contender("slow", altered(slower)))
    found = measure(tmp_path, suite("regression.seconds", pair, budget=Budget(seconds=0.25)), seeds=1)
    curves = {row["contender"]: row for row in of_kind(found, "curve")}
    assert curves["quick"]["updates"][-1] > 1.5 * curves["slow"]["updates"][-1] > 0
    for row in curves.values():
        assert row["seconds"][-1] >= 0.24 and row["evaluated"][0] == 0 and row["evaluated"][-1] == row["updates"][-1]
        assert set(row["evaluated"][1:]) <= set(row["updates"]) and len(row["updates"]) <= rows.MOST_SAMPLES


@pytest.mark.parametrize("updates", [1, 2, 7, 20, 333, 100_000])
@pytest.mark.parametrize("evaluations", [1, 4, 10])
def test_turns_fit_in_a_row_and_evaluations_lie_evenly(updates: int, evaluations: int) -> None:
    found = goals(Budget(updates=updates), evaluations)
    amounts = [goal.amount for goal in found]
    assert amounts == sorted(set(amounts)) and amounts[-1] == updates and found[-1].evaluate
    assert len(found) <= MOST_TURNS + evaluations <= rows.MOST_SAMPLES
    lengths = [after - before for before, after in zip([0, *amounts], amounts, strict=False)]
    assert max(lengths) <= max(TURN, -(-updates // MOST_TURNS)), "long enough to have the caches to oneself, no longer"
    assert updates < 3 * TURN or min(lengths) > TURN / 2 or evaluations * TURN > updates
    marks = [goal.amount for goal in found if goal.evaluate]
    assert len(marks) == min(evaluations, updates)
    assert all(abs(mark - updates * (place + 1) / evaluations) <= 0.5 for place, mark in enumerate(marks)) or (
        updates < evaluations
    )


def test_a_cases_own_seeds_go_before_the_settings(tmp_path: Path) -> None:
    made = suite("regression.seeds", PAIR)
    planned = job(tmp_path, made, {"updates": 5}, seeds=2, trials=1)
    planned = replace(planned, cases=tuple(replace(case, seeds=4) for case in planned.cases))
    with worker(planned) as found:
        TrainingItem(found, made, planned.cases[0]).run(None)
    curves = of_kind(read(tmp_path), "curve")
    assert {row["seed"] for row in curves} == {1, 2, 3, 4}


def test_one_seed_gives_curves_and_cells_but_no_verdict(tmp_path: Path) -> None:
    found = measure(tmp_path, suite("regression.single", PAIR), seeds=1, trials=1)
    assert not of_kind(found, "trial"), "one point needs no trial"
    assert {row["verdict"] for row in of_kind(found, "contrast")} == {"too close to call"}
    assert "measure.final.loss.low" not in cells(found)["sgd"] and cells(found)["sgd"]["measure.tuning_trials"] == 0


def test_the_plain_item_times_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    class Benchmark:
        extra_info: dict[str, Any] = {}  # noqa: RUF012
        group = ""

        def pedantic(self, target: Any, setup: Any, rounds: int, iterations: int) -> None:
            self.losses = [float(target(*setup()[0])) for _ in range(rounds)]

    made, benchmark = suite("regression.plain", PAIR), Benchmark()
    PlainTrainingItem(made, made.case(), PAIR[0], CPU, Settings(rounds=8, most_rounds=8)).run(benchmark)
    assert len(benchmark.losses) == 8 and benchmark.losses[-1] < benchmark.losses[0]
    assert benchmark.extra_info["hyper.lr"] == 0.06325 and "regression.plain" in benchmark.group


def test_the_estimate_counts_trials_seeds_and_budget() -> None:
    from bancada import sweep

    made = suite("regression.estimate", PAIR, flops=1e9)
    settings = Settings(seeds=2, trials=3)

    def seconds(updates: int, chosen: Settings = settings, names: tuple[str, ...] = ("sgd", "momentum")) -> float:
        return sweep.estimate_s(sweep.Planned(made, made.case(updates=updates), names, 10.0), chosen, 1e10, CPU)

    usual = seconds(100)
    assert usual == estimate_s(
        sweep.Planned(made, made.case(updates=100), ("sgd", "momentum"), 1.0), settings, 1e10, CPU
    )
    assert usual < seconds(200) < 2 * usual
    assert usual < seconds(100, replace(settings, seeds=3)) and usual < seconds(100, replace(settings, trials=6))
    own = sweep.Planned(made, made.case(updates=100), ("sgd", "momentum"), 10.0, seeds=3)
    assert sweep.estimate_s(own, settings, 1e10, CPU) == seconds(100, replace(settings, seeds=3))
    assert seconds(100, names=("sgd",)) == pytest.approx(usual / 2)
    whole = 2 * (3 * 0.5 + 2) * 100 * (1e9 / 3.5e9)
    assert whole < usual < 2 * whole


def test_pairs_compare_update_times(spied: Spied) -> None:
    (pair,) = of_kind(spied[0], "pair")
    assert (pair["a"], pair["b"], pair["rounds"]) == ("a", "b", 24)
    assert [(row["a"], row["b"]) for row in of_kind(spied[0], "contrast")] == 4 * list(combinations("ab", 2))
