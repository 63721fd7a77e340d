"""What made-up curves come to: targets at their edge, seeds that miss, both directions of better."""

from __future__ import annotations

from typing import Any

import pytest

from bancada.rows import Row
from bancada.suite import Metric
from bancada.training.outcomes import contrasts, facts, pairs, to_target, trains_a_part
from bancada.training.tune import Tuned

LOSS, ACCURACY = Metric("loss", "loss"), Metric("accuracy", "accuracy", better="higher")
TUNED = Tuned({"lr": 0.1, "nesterov": True}, 4, 2.5)


def curve(losses: list[float], step_s: float = 0.5, seed: int = 1, **more: Any) -> Row:
    """A run evaluated every ten updates."""
    evaluated = [10 * number for number in range(len(losses))]
    turns = evaluated[1:]
    return {
        "seed": seed, "updates": turns, "seconds": [step_s * at for at in turns], "samples": [step_s] * len(turns),
        "evaluated": evaluated, "metric.loss": losses, "metric.accuracy": [1 - loss for loss in losses], **more,
    }  # fmt: skip


def test_a_target_counts_from_the_first_evaluation_that_is_at_it_or_beyond() -> None:
    run = curve([0.9, 0.6, 0.5, 0.7, 0.4])
    assert to_target(run, LOSS, 0.5) == (20, 10.0), "equal is reached, and what comes later does not undo it"
    assert to_target(run, LOSS, 0.49) == (40, 20.0) and to_target(run, LOSS, 0.39) is None
    assert to_target(run, LOSS, 0.95) == (0, 0.0)
    assert to_target(run, ACCURACY, 0.5) == (20, 10.0) and to_target(run, ACCURACY, 0.61) is None


def test_reached_in_some_seeds_is_not_reached() -> None:
    runs = [curve([0.9, 0.4]), curve([0.9, 0.6], seed=2), curve([0.9, 0.3], seed=3)]
    some = facts(runs, (LOSS,), 0.5, TUNED)
    assert some["measure.seeds_on_target"] == 2 and some["measure.seeds"] == 3 and some["measure.target"] == 0.5
    assert "measure.updates_to_target" not in some and "measure.seconds_to_target" not in some
    every = facts(runs, (LOSS,), 0.6, TUNED)
    assert (every["measure.updates_to_target"], every["measure.seconds_to_target"]) == (10, 5.0)
    assert "measure.seeds_on_target" not in facts(runs, (LOSS,), None, TUNED)


def test_facts_tell_start_end_tuning_and_hyperparameters() -> None:
    runs = [curve([0.8, 0.4], first_call_s=7.0, peak_bytes=99, **{"measure.bytes.optimizer": 64}),
            curve([0.6, 0.2], seed=2, first_call_s=1.0, **{"measure.bytes.optimizer": 64})]  # fmt: skip
    found = facts(runs, (LOSS, ACCURACY), None, TUNED)
    assert found["measure.start.loss"] == pytest.approx(0.7) and found["measure.final.loss"] == pytest.approx(0.3)
    assert found["measure.final.accuracy.low"] < found["measure.final.accuracy"] == pytest.approx(0.7)
    assert (found["measure.tuning_trials"], found["measure.tuning_s"], found["hyper.lr"]) == (4, 2.5, 0.1)
    assert found["hyper.nesterov"] is True and found["measure.bytes.optimizer"] == 64
    assert found["first_call_s"] == 7.0 and found["peak_bytes"] == 99, "of the first seed: there it was measured"
    assert "measure.final.loss.low" not in facts(runs[:1], (LOSS,), None, TUNED)


def test_contrasts_are_paired_by_seed_and_left_out_where_one_missed_the_target() -> None:
    good = [curve([0.9, 0.3 + 0.1 * seed], seed=seed) for seed in (1, 2, 3)]
    poor = [curve([0.9, 0.4 + 0.1 * seed], seed=seed) for seed in (1, 2, 3)]
    found = {row["measure"]: row for row in contrasts({"good": good, "poor": poor}, (LOSS, ACCURACY), 0.65)}
    assert set(found) == {"final.loss", "final.accuracy"}, "poor misses 0.65 in its third seed"
    assert found["final.loss"]["verdict"] == found["final.accuracy"]["verdict"] == "better"
    assert found["final.loss"]["difference"] == pytest.approx(-0.1)
    assert found["final.accuracy"]["difference"] == pytest.approx(0.1)
    turned = contrasts({"poor": poor, "good": good}, (LOSS,), 0.71)
    assert turned[0]["verdict"] == "worse" and len(turned) == 3


def test_times_are_paired_turn_by_turn_within_each_seed() -> None:
    """Where a budget of seconds gave one of them fewer turns, the common ones count; seeds are not mixed."""
    a = [curve([1.0] * 7, 1.0), curve([1.0] * 7, 10.0, seed=2)]
    b = [curve([1.0] * 5, 2.0), curve([1.0] * 9, 20.0, seed=2)]
    (pair,) = pairs({"a": a, "b": b})
    assert pair.rounds == 4 + 6 and pair.ratio == pytest.approx(0.5) and pair.verdict == "faster"
    assert pair.low == pytest.approx(pair.high), "the same ratio in every turn"


def test_who_trains_a_part_says_so_by_its_bytes() -> None:
    kinds = ("measure.bytes.parameters", "measure.bytes.trainable")
    assert trains_a_part([curve([1.0, 0.5], **dict(zip(kinds, (100, 40), strict=True)))])
    assert not trains_a_part([curve([1.0, 0.5], **dict(zip(kinds, (100, 100), strict=True)))])
    assert not trains_a_part([curve([1.0, 0.5])])
