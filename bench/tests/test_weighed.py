"""Suites whose question is not time: who is not beaten in the figures they weigh, and sentences that turn with them."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from _asked import raced

from bancada._suites import identical
from bancada.verdicts import Verdict, verdicts

SUITE = "compression.size"
BYTES = {"name": "bytes", "title": "bytes of the weight", "unit": "bytes", "better": "lower", "scale": "log"}
NOISE = {"name": "sqnr_db", "title": "Signal to noise", "unit": "dB", "better": "higher", "scale": "linear"}
TECHNIQUE = {"plain": "linear", "int8": "int8", "their-int8": "int8", "int4": "int4", "their-int4": "int4"}
KIB = 1024.0


def judge(
    weighs: tuple[str, ...] = ("bytes", "sqnr_db"), ours: tuple[str, ...] = ("int8", "int4"), **figures: Any
) -> Verdict:
    """The verdict where these contenders have these (bytes, sqnr_db); ours are the slowest in every case."""
    known = {"plain": (4096 * KIB, 200.0)} | figures
    fields = {one: {"measure.bytes": size, "measure.sqnr_db": noise} for one, (size, noise) in known.items()}
    times = {one: 2.0 if one in ours else 1.0 for one in known}
    rows = raced(SUITE, {"bits": 4}, times, TECHNIQUE, reference="plain", ours=ours, fields=fields)
    suite = {"id": SUITE, "title": "Size", "x_axis": "bits", "metrics": [BYTES, NOISE], "weighs": list(weighs)}
    (found,) = verdicts(rows, {}, {"suites": [suite]})
    return found


def test_what_nobody_beats_in_both_figures_is_named_however_slow_it_is() -> None:
    said = judge(int8=(1024 * KIB, 43.0), int4=(512 * KIB, 21.0), **{"their-int4": (600 * KIB, 20.0)})
    assert said.kind == "win" and said.ours == "int4"
    assert said.headline == "Not beaten in bytes of the weight together with signal to noise: int4; int8"
    assert "nobody beats int4 (512 KiB, 21 dB), int8 (1 MiB, 43 dB), beside plain's 4 MiB, 200 dB." in said.sentence
    assert "int4 against their-int4, 0.85x its bytes of the weight and +1 dB in signal to noise." in said.sentence


def test_the_same_rows_with_the_peer_ahead_turn_the_sentence() -> None:
    said = judge(int4=(600 * KIB, 20.0), **{"their-int4": (512 * KIB, 21.0)})
    assert said.kind == "peer wins" and said.clear and said.ours == ""
    assert said.headline.endswith(": their-int4")
    assert "int4 against their-int4, 1.17x its bytes of the weight and -1 dB in signal to noise." in said.sentence


def test_figures_within_a_percent_are_the_same_and_beyond_it_they_are_not() -> None:
    said = judge(int4=(512 * KIB, 21.0), **{"their-int4": (516 * KIB, 20.9)})
    assert said.kind == "tie" and "int4 is level with their-int4" in said.sentence
    said = judge(int4=(512 * KIB, 21.0), **{"their-int4": (520 * KIB, 21.0)})
    assert said.kind == "win" and said.headline.endswith(": int4") and "the same signal to noise" in said.sentence


def test_one_figure_alone_has_a_lowest_or_a_highest() -> None:
    figures: dict[str, Any] = {"int8": (1024 * KIB, 43.0), "int4": (512 * KIB, 21.0), "their-int4": (512 * KIB, 21.0)}
    said = judge(("bytes",), **figures)
    assert said.headline == "Lowest bytes of the weight: int4 or their-int4 (level), 512 KiB" and said.kind == "tie"
    said = judge(("sqnr_db",), **figures)
    assert said.headline == "Highest signal to noise: int8, 43 dB" and said.kind == "win" and said.clear


def test_the_reference_is_put_beside_and_never_wins() -> None:
    assert "plain" not in judge(("sqnr_db",), int8=(1024 * KIB, 43.0), int4=(512 * KIB, 21.0)).headline


def test_ours_alone_beat_nobody() -> None:
    assert judge(int8=(1024 * KIB, 43.0), int4=(512 * KIB, 21.0)).kind == "only ours"


def test_without_a_figure_to_weigh_time_decides() -> None:
    said = judge((), int4=(512 * KIB, 21.0), **{"their-int4": (512 * KIB, 21.0)})
    assert said.headline.startswith("Fastest: ")


def test_a_suite_cannot_weigh_what_it_does_not_measure() -> None:
    with pytest.raises(ValueError, match=r"weighs=\['bytes'\]: none of its metrics"):
        dataclasses.replace(identical(), weighs=("bytes",))
