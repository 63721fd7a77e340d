"""What a case's curves come to: the facts of each contender's cell, pairs of times, contrasts of outcomes.

Everything is computed from `curve` and `trial` rows, so that a run that was interrupted ends in the same rows.
A target is reached at the first evaluation at or beyond it; a contender that misses it in one seed has no
`updates_to_target`, only the number of seeds that reached it.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from bancada import stats
from bancada.rows import Row
from bancada.suite import Metric
from bancada.training.seeds import Interval, contrast, interval
from bancada.training.tune import Tuned

Better = Literal["lower", "higher"]
FACTS = ("build_s", "first_call_s", "peak_bytes", "host_peak_bytes")


def final(curve: Row, metric: str) -> float:
    """A run's last evaluation."""
    return float(curve[f"metric.{metric}"][-1])


def to_target(curve: Row, metric: Metric, target: float) -> tuple[int, float] | None:
    """Updates and seconds of updates at the first evaluation at or beyond a target; None where there is none."""
    for updates, value in zip(curve["evaluated"], curve[f"metric.{metric.name}"], strict=True):
        if value <= target if metric.better == "lower" else value >= target:
            return updates, _seconds(curve, updates)
    return None


def _seconds(curve: Row, updates: int) -> float:
    """Seconds of updates after some number of them: every evaluation but the first ends a turn."""
    return float(curve["seconds"][curve["updates"].index(updates)]) if updates else 0.0


def samples(curves: Sequence[Row]) -> stats.Floats:
    """The median update of every turn, over all seeds, in seconds."""
    return np.array([value for curve in curves for value in curve["samples"]], dtype=np.float64)


def trains_a_part(curves: Sequence[Row]) -> bool:
    """Whether a contender says that some of its parameters stay as they are."""
    kept = curves[-1]
    parameters, trainable = (kept.get(f"measure.bytes.{kind}") for kind in ("parameters", "trainable"))
    return parameters is not None and trainable is not None and trainable < parameters


def facts(curves: Sequence[Row], metrics: Sequence[Metric], target: float | None, tuned: Tuned) -> dict[str, Any]:
    """The fields of a contender's cell beside its times, from its curves over the seeds."""
    found: dict[str, Any] = {
        "measure.seeds": len(curves),
        "measure.updates": statistics.fmean(curve["updates"][-1] for curve in curves),
        "measure.seconds": statistics.fmean(curve["seconds"][-1] for curve in curves),
        "measure.tuning_trials": tuned.trials,
        "measure.tuning_s": tuned.seconds,
    }
    for metric in metrics:
        over = interval([final(curve, metric.name) for curve in curves])
        found[f"measure.start.{metric.name}"] = statistics.fmean(curve[f"metric.{metric.name}"][0] for curve in curves)
        found[f"measure.final.{metric.name}"] = over.mean
        if over.seeds > 1:
            found[f"measure.final.{metric.name}.low"] = over.low
            found[f"measure.final.{metric.name}.high"] = over.high
    for name in FACTS:
        known = [curve[name] for curve in curves if name in curve]
        if known:
            found[name] = known[0]
    found |= {name: value for name, value in curves[-1].items() if name.startswith("measure.bytes.")}
    found |= {f"hyper.{name}": value for name, value in tuned.hyper.items()}
    if target is not None:
        found |= _target(curves, metrics[0], target)
    return found


def _target(curves: Sequence[Row], metric: Metric, target: float) -> dict[str, Any]:
    hits = [hit for curve in curves if (hit := to_target(curve, metric, target)) is not None]
    found: dict[str, Any] = {"measure.target": target, "measure.seeds_on_target": len(hits)}
    if len(hits) == len(curves):
        found["measure.updates_to_target"] = statistics.fmean(updates for updates, _ in hits)
        found["measure.seconds_to_target"] = statistics.fmean(seconds for _, seconds in hits)
    return found


def pairs(curves: Mapping[str, Sequence[Row]]) -> list[stats.Comparison]:
    """Every two contenders' update times, turn by turn: the turns that both had, seed by seed."""
    found: list[stats.Comparison] = []
    for a, b in itertools.combinations(curves, 2):
        both = [
            np.array([first["samples"][:count], second["samples"][:count]], dtype=np.float64)
            for first, second in zip(curves[a], curves[b], strict=True)
            if (count := min(len(first["samples"]), len(second["samples"])))
        ]
        if both:
            found += stats.compare(np.concatenate(both, axis=1), [a, b])
    return found


def contrasts(
    curves: Mapping[str, Sequence[Row]], metrics: Sequence[Metric], target: float | None
) -> list[dict[str, Any]]:
    """Every two contenders' outcomes, paired over the seeds, as fields of `contrast` rows.

    `final.METRIC` for each metric; `updates_to_target` and `seconds_to_target` where both reached it in every seed.
    """
    measures: list[tuple[str, Better, Callable[[Row], float | None]]] = [
        (f"final.{metric.name}", metric.better, _final_of(metric.name)) for metric in metrics
    ]
    if target is not None:
        measures += [(f"{unit}_to_target", "lower", _hit_of(metrics[0], target, place))
                     for place, unit in enumerate(("updates", "seconds"))]  # fmt: skip
    found: list[dict[str, Any]] = []
    for (a, b), (measure, better, of) in itertools.product(itertools.combinations(curves, 2), measures):
        first, second = ([of(curve) for curve in curves[name]] for name in (a, b))
        known = [value for value in (*first, *second) if value is not None]
        if len(known) < len(first) + len(second):
            continue
        said = contrast(known[: len(first)], known[len(first) :], better)
        found.append({"a": a, "b": b, "measure": measure, "verdict": said.verdict, **_fields(said.difference)})
    return found


def _final_of(metric: str) -> Callable[[Row], float | None]:
    return lambda curve: final(curve, metric)


def _hit_of(metric: Metric, target: float, place: int) -> Callable[[Row], float | None]:
    def of(curve: Row) -> float | None:
        hit = to_target(curve, metric, target)
        return None if hit is None else float(hit[place])

    return of


def _fields(difference: Interval) -> dict[str, Any]:
    return {
        "difference": difference.mean,
        "low": difference.low,
        "high": difference.high,
        "seeds": difference.seeds,
    }
