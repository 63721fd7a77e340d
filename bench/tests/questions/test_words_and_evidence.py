"""Figures in words, and rows as questions look at them."""

from __future__ import annotations

from typing import Any

import pytest
from _asked import ceiling, contrast, evidence, raced

from bancada.questions import ask, gather
from bancada.questions.evidence import SuiteRows, both, decided, figures, row_ids, slices
from bancada.questions.words import any_of, by_size, loss_of, number, place, sentence, turn
from bancada.verdicts.comparisons import Contrast, Outcome

KIND = {"a": "x", "b": "y", "c": "z"}


def suite(*cases: dict[str, Any], times: dict[str, float] | None = None, noise: float = 0.02) -> SuiteRows:
    rows = [
        row
        for axes in cases
        for row in raced("s.t", axes, times or {"a": 1.0, "b": 2.0}, KIND, reference="a", noise=noise)
    ]
    return evidence(rows).suites["s.t"]


@pytest.mark.parametrize(
    ("value", "said"),
    [(1240.4, "1,240"), (99.96, "100"), (100.4, "100"), (12.345, "12.3"), (0.03124, "0.0312"), (-123456.0, "-123,000")],
)
def test_numbers_have_three_digits_and_no_exponent(value: float, said: str) -> None:
    assert number(value) == said


def test_names_are_listed_and_beyond_three_counted() -> None:
    names = ["a", "b", "c", "d", "e"]
    assert [any_of(names[:n]) for n in range(6)] == ["", "a", "a and b", "a, b and c", "a, b, c and 1 more",
                                                    "a, b, c and 2 more"]  # fmt: skip
    assert any_of(names, 5) == "a, b, c, d and e" and any_of(["a", "b"], 1) == "a and 1 more"


def test_a_sentence_ends_once() -> None:
    assert [sentence(text) for text in ("so", "So.", "so?", "so!", "")] == ["So.", "So.", "So?", "So!", "."]


@pytest.mark.parametrize(
    ("difference", "half", "said"),
    [(-0.2, 0.1, "the loss of a is 0.20 [0.10, 0.30] nats better than b"),
     (0.01, 0.01, "the loss of a is level with b, +0.010 [+0.000, +0.020] nats"),
     (0.1, 0.2, "the loss of a minus that of b is +0.10 [-0.10, +0.30] nats")],
)  # fmt: skip
def test_a_loss_that_is_not_told_apart_is_told_by_its_difference(difference: float, half: float, said: str) -> None:
    row = contrast("s.t", {"n": 1}, "final.loss", "a", "b", difference, half)
    found = Contrast(difference, row["low"], row["high"], row["verdict"], 3)
    assert loss_of(found, "a", "b", 2.0) == said


def test_a_place_is_what_tells_a_case_apart() -> None:
    found = suite({"n": 1, "dtype": "fp32", "causal": False, "kv": 0, "keep": 0.5, "w": 4},
                  {"n": 2, "dtype": "bf16", "causal": True, "kv": 2, "keep": 0.02, "w": 4})  # fmt: skip
    first, second = found.cells
    assert place(found, first) == " (n 1, fp32, not causal, keep 0.5)"
    assert place(found, second, "n") == " (bf16, causal, kv 2, keep 0.02)"
    assert place(suite({"n": 1}), "n1") == ""


Said = list[tuple[int, Outcome]]


@pytest.mark.parametrize(
    ("said", "turns"),
    [([(1, "slower"), (2, "faster")], "between 1 token and 2 tokens"),
     ([(1, "tie"), (2, "open"), (3, "faster"), (4, "faster")], "between 1 token and 3 tokens"),
     ([(1, "faster"), (2, "faster")], "nowhere: it holds at every size measured"),
     ([(1, "faster"), (2, "open")], "nowhere: it holds at every size at which it is decided"),
     ([(1, "slower"), (2, "tie")], "nowhere: it holds at no size measured"),
     ([(1, "open"), (2, "tie")], "nowhere: it holds at no size at which it is decided"),
     ([(1, "open")], "not decided at any size measured"),
     ([(1, "faster"), (2, "slower"), (3, "open"), (4, "tie")],
      "it holds at 1 token, not at 2 tokens and 4 tokens, not decided at 3 tokens")],
)  # fmt: skip
def test_where_it_turns_is_between_two_sizes_nowhere_or_here_and_there(said: Said, turns: str) -> None:
    assert turn(said, "tokens", "it holds") == turns


def test_sizes_are_all_named() -> None:
    many: list[tuple[str, Outcome]] = [(str(n), "faster") for n in range(6)]
    assert by_size([*many, ("9", "slower"), ("8", "tie")], "yes at", "no at", "open at") == (
        "yes at 0, 1, 2, 3, 4 and 5, no at 9 and 8"
    )


def test_lines_are_those_with_most_values_then_with_most_contenders_and_hold_measured_cases() -> None:
    rows = [
        row
        for axes, times in (
            ({"n": 2, "w": 1}, {"a": 1.0, "b": 1.0}),
            ({"n": 1, "w": 2}, {"a": 1.0}),
            ({"n": 4, "w": 3}, {"a": 1.0}),
            ({"n": 3, "w": 3}, {"a": 1.0}),
            ({"w": 3}, {"a": 1.0}),
        )
        for row in raced("s.t", axes, times, KIND, reference="a")
    ]
    failed = raced("s.t", {"n": 5, "w": 3}, {"a": 1.0}, KIND, reference="a")
    for row in failed:
        row |= {"status": "timeout", "reason": "60 s"}
    found = evidence(rows + failed).suites["s.t"]
    assert slices(found, "n") == [{3: "n3-w3", 4: "n4-w3"}, {2: "n2-w1"}, {1: "n1-w2"}]
    assert slices(found, "n", lambda case: case != "n3-w3") == [{2: "n2-w1"}, {1: "n1-w2"}, {4: "n4-w3"}]
    assert (
        both(found, {1: "n1-w2", 2: "n2-w1"}, "a", "b")
        == both(found, {1: "n1-w2", 2: "n2-w1"}, "b", "a")
        == {2: "n2-w1"}
    )
    assert row_ids(found, ["n2-w1", "n5-w3"], ["b", "c"]) == ("s.t/n2-w1/b",)


def test_the_decided_part_of_a_line_is_all_of_it_where_nothing_is() -> None:
    rows = [*raced("s.t", {"n": 1}, {"a": 1.0, "b": 1.0}, KIND, reference="a", noise=0.3),
            *raced("s.t", {"n": 2}, {"a": 1.0, "b": 2.0}, KIND, reference="a")]  # fmt: skip
    found, line = evidence(rows).suites["s.t"], {1: "n1", 2: "n2"}
    assert decided(found, line, "a", "b") == {2: "n2"} and decided(found, {1: "n1"}, "a", "b") == {1: "n1"}


def test_figures_are_there_for_all_rows_or_for_none() -> None:
    rows: list[dict[str, Any]] = [{"x": 1, "y": 2.0, "z": 0}, {"x": 3, "z": 1}]
    assert figures(rows, "x") == [1.0, 3.0] and figures(rows, "y") == [] == figures(rows, "z")


def test_a_suite_without_a_measured_cell_is_as_if_it_were_not_there() -> None:
    rows = raced("s.t", {"n": 1}, {"a": 1.0}, KIND, reference="a") + raced(
        "s.t", {"n": 2}, {"a": 1.0}, KIND, reference="a"
    )
    rows[0] |= {"status": "timeout", "reason": "60 s"}
    assert evidence(rows).suite("s.t") is not None and evidence(rows[:1]).suite("s.t") is None
    assert evidence(rows).suite("s.u") is None
    other = raced("s.u", {"n": 1}, {"a": 1.0}, KIND, reference="a")
    assert evidence(rows + other).suites_of(["s.t/n2/a", "elsewhere"]) == ("s.t",)


def test_a_ceiling_is_the_best_product_of_the_run_and_device_itself() -> None:
    rows = raced("s.t", {"n": 1}, {"a": 1.0}, KIND, reference="a")
    less, most = ceiling(1e11), ceiling(2e11)
    copy, other, far = (
        ceiling(9e11) | {"name": "copy"},
        ceiling(9e11) | {"run": "other"},
        ceiling(9e11) | {"device": "cuda"},
    )
    [found] = gather([*rows, most, less, copy, other, far], {}, {})
    assert found.ceilings == {"fp32": 2e11} and (found.run, found.device) == ("kinds", rows[0]["device_name"])


def test_every_question_is_asked_of_each_run_and_told_where_its_rows_are() -> None:
    asked = ask([evidence(raced("s.t", {"n": 1}, {"a": 1.0}, KIND, reference="a"))])
    assert len(asked) == 15 and not any(one.told for one in asked)
