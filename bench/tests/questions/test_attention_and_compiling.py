"""Is flash attention exact, and slow on short sequences? When does compiling pay?"""

from __future__ import annotations

from typing import Any

import pytest
from _asked import answer, evidence, raced

from bancada.questions import QUESTIONS
from bancada.questions.attention import FLASH
from bancada.questions.compiling import COMPILE

SUITE = "attention.forward"
KIND = {"torch-eager": "exact-attention", "flash-tiled": "flash-attention", "torch-sdpa": "flash-attention",
        "compiled-eager": "exact-attention"}  # fmt: skip
EAGER = {128: 1e-3, 512: 1e-2, 2048: 0.2}


def lengths(ratio: dict[int, float], error: float = 1e-6, noise: float = 0.02, sdpa: float = 0.5) -> list[Any]:
    """flash-tiled at these ratios of eager's time, with that error beside eager's 1e-6."""
    rows = []
    for seq_len, share in ratio.items():
        times = {
            "torch-eager": EAGER[seq_len],
            "flash-tiled": EAGER[seq_len] * share,
            "torch-sdpa": EAGER[seq_len] * sdpa,
        }
        kept = {"torch-eager": seq_len**2 * 64, "flash-tiled": seq_len * 4096, "torch-sdpa": seq_len * 4096}
        fields = {one: {"peak_bytes": size, "error_max": 1e-6} for one, size in kept.items()}
        fields["flash-tiled"]["error_max"] = error
        axes = {"seq_len": seq_len, "dtype": "fp32"}
        rows += raced(
            SUITE, axes, times, KIND, reference="torch-eager", ours=["flash-tiled"], noise=noise, fields=fields
        )
    return rows


def test_slower_on_short_ones_and_where_it_turns() -> None:
    found = answer(FLASH, lengths({128: 1.5, 512: 0.5, 2048: 0.1}))
    assert "As exact as torch-eager: at most 100% of its error" in found.sentence
    assert (
        "Yes, on short ones: at 128 tokens flash-tiled is 1.50x [1.47, 1.53] slower than torch-eager" in found.sentence
    )
    assert "at 2,048 tokens flash-tiled is 10.0x [9.8, 10.2] faster" in found.sentence
    assert found.turns == "between 128 tokens and 512 tokens"
    assert "256 MiB" in found.why and "8 MiB (3% of it)" in found.why and "1 MiB" in found.why
    assert found.chart is not None and found.chart.level == 1.0
    assert [point.y for point in found.chart.points[:3]] == pytest.approx([1.5, 0.5, 0.1])


def test_faster_everywhere_and_never() -> None:
    found = answer(FLASH, lengths({128: 0.8, 512: 0.5, 2048: 0.1}))
    assert (
        "Not slower on short ones" in found.sentence
        and found.turns == "nowhere: flash-tiled is faster at every size measured"
    )
    found = answer(FLASH, lengths({128: 1.5, 512: 1.4, 2048: 1.2}))
    assert (
        "Yes, on short ones" in found.sentence
        and found.turns == "nowhere up to 2,048 tokens: flash-tiled is not faster there"
    )
    found = answer(FLASH, lengths({128: 1.5, 512: 0.5, 2048: 1.2}))
    assert found.turns == "nowhere up to 2,048 tokens: flash-tiled is not faster there"


def test_faster_everywhere_is_not_said_of_sizes_where_nothing_is_decided() -> None:
    rows = [*lengths({128: 0.98}, noise=0.2), *lengths({512: 0.5, 2048: 0.1})]
    assert answer(FLASH, rows).turns == "nowhere among the sizes at which it is decided: flash-tiled is faster at each"


def test_a_tie_and_what_is_not_decided() -> None:
    found = answer(FLASH, lengths({128: 1.0, 512: 0.5, 2048: 0.1}))
    assert "Level on short ones: at 128 tokens flash-tiled is level with torch-eager" in found.sentence
    found = answer(FLASH, lengths({128: 1.0}, noise=0.2))
    assert "On short ones it is not decided" in found.sentence
    assert "cannot be told from torch-eager (not decided" in found.sentence


def test_the_longest_undecided_length_is_said_to_be_so() -> None:
    rows = lengths({128: 1.5, 512: 0.5}) + lengths({2048: 1.0}, noise=0.4)
    found = answer(FLASH, rows)
    assert "at 512 tokens flash-tiled is 2.00x [1.96, 2.04] faster" in found.sentence
    assert "at 2,048 tokens nothing is decided between the two" in found.sentence
    assert found.turns == "between 128 tokens and 512 tokens"


def test_an_error_beyond_twice_the_plain_one_is_less_exact_and_a_wrong_cell_is_not_exact() -> None:
    found = answer(FLASH, lengths({128: 1.5, 512: 0.5}, error=5e-6))
    assert found.sentence.startswith("Less exact than torch-eager: up to 5.0x its error against float64 (5.0e-06")
    rows = lengths({128: 1.5, 512: 0.5})
    for row in rows:
        if row.get("contender") == "flash-tiled" and row["axis.seq_len"] == 512:
            row |= {"status": "incorrect", "reason": "out is off by 1"}
    rows = [row for row in rows if row["kind"] != "pair" or row["case"] != "seq_len512-dtypefp32"]
    assert answer(FLASH, rows).sentence.startswith("Not exact here: flash-tiled was incorrect in 1 case")


def compiled(call: float, first: float, sdpa: float = 0.05, noise: float = 0.02) -> tuple[list[Any], dict[str, Any]]:
    """torch-eager takes 0.1 s a call and starts in 0.1 s; compiled-eager takes `call` and starts in `first`."""
    rows = []
    for seq_len in (512, 1024):
        times = {"torch-eager": 0.1, "compiled-eager": call, "torch-sdpa": sdpa}
        fields: Any = {one: {"build_s": 0.0, "first_call_s": 0.1} for one in times}
        fields["compiled-eager"]["first_call_s"] = first
        axes = {"seq_len": seq_len}
        rows += raced(SUITE, axes, times, KIND, reference="torch-eager", noise=noise, fields=fields)
    contenders = [
        {
            "id": one,
            "label": one,
            "origin": "peer",
            "reference": one == "torch-eager",
            "compiles": one == "compiled-eager",
        }
        for one in ("torch-eager", "compiled-eager", "torch-sdpa")
    ]
    suite = {"id": SUITE, "kind": "kernel", "x_axis": "seq_len", "title": "Attention", "contenders": contenders}
    return rows, {"suites": [suite]}


def test_compiling_pays_after_what_it_costs_over_what_a_call_saves() -> None:
    rows, catalogue = compiled(call=0.08, first=10.1)
    found = answer(COMPILE, rows, catalogue)
    assert found.sentence.startswith("Compiled-eager (attention) pays after 500 [464, 545] calls")  # 10 s at 20 ms
    assert "torch-sdpa, which compiles nothing, takes 0.62x" in found.sentence
    assert (
        "10.0 s more than what does not compile" in found.why and "saves 20.0 ms of torch-eager's 100 ms" in found.why
    )
    assert found.chart is not None and found.chart.unit == "calls"
    for point in found.chart.points:
        assert point.low is not None and point.high is not None
        assert (point.low, point.y, point.high) == pytest.approx((463.636, 500, 544.444), rel=1e-4)


def test_what_is_slower_never_pays_and_what_is_open_is_not_shown_to() -> None:
    rows, catalogue = compiled(call=0.12, first=10.1)
    found = answer(COMPILE, rows, catalogue)
    assert found.sentence.startswith("Never in this run: compiled-eager (attention) never pays: it takes 1.20x")
    assert found.chart is None and found.turns.startswith("nowhere")
    rows, catalogue = compiled(call=0.1, first=10.1, noise=0.1)
    assert "is not shown to pay: it takes 1.00x [0.91, 1.11] the time" in answer(COMPILE, rows, catalogue).sentence


def test_what_starts_as_soon_as_the_rest_pays_at_once_and_who_is_slower_is_not_named() -> None:
    rows, catalogue = compiled(call=0.08, first=0.1, sdpa=0.5)
    found = answer(COMPILE, rows, catalogue)
    assert "pays from its first call" in found.sentence and "which compiles nothing" not in found.sentence


def test_no_answer_without_rows_and_a_command_that_measures_them() -> None:
    rows, _ = compiled(call=0.08, first=10.1)
    assert COMPILE.answer(evidence(rows)) is None  # nobody is known to compile
    other = raced("from.elsewhere", {"n": 1}, {"a": 1.0, "b": 2.0}, {"a": "x", "b": "y"}, reference="a")
    for question in QUESTIONS:
        assert question.answer(evidence(other)) is None, question.id
