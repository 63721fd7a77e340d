"""When does compiling pay, of several contenders, suites and cases?"""

from __future__ import annotations

from typing import Any

import pytest
from _asked import answer, evidence, raced

from bancada.questions import QUESTIONS
from bancada.questions.compiling import COMPILE

Times = dict[str, tuple[float, float | None]]
"""By contender: seconds of a call, and of the first one."""
KIND = {
    "eager": "exact",
    "twin": "exact",
    "fused": "flash",
    "compiled": "exact",
    "flex": "flex",
    "script": "exact",
    "triton": "flash",
}
COMPILING = ("compiled", "flex", "script", "triton")


def suite(name: str, cases: dict[int, Times], *, noise: float = 0.02, reference: str = "eager", **more: Any) -> Any:
    """The rows of a suite, and what a catalogue says of it."""
    rows = []
    for length, times in cases.items():
        fields = {
            one: {"build_s": 0.0, "first_call_s": first} for one, (_, first) in times.items() if first is not None
        }
        rows += raced(name, {"n": length}, {one: call for one, (call, _) in times.items()}, KIND,
                      reference=reference, noise=noise, fields=fields)  # fmt: skip
    known = {one: None for times in cases.values() for one in times}
    contenders = [{"id": one, "reference": one == reference, "compiles": one in COMPILING} for one in known]
    card = {"id": name, "kind": "kernel", "x_axis": "n", "title": f"Title of {name}", "contenders": contenders}
    return rows, card | more


def put(*suites: Any) -> Any:
    return answer(COMPILE, [row for rows, _ in suites for row in rows], {"suites": [card for _, card in suites]})


def test_of_several_the_one_with_most_cases_that_pay_comes_first_and_each_has_its_suite() -> None:
    one = suite("a.flex", {1: {"eager": (0.1, 0.1), "flex": (0.05, 1.1)}, 2: {"eager": (0.1, 0.1), "flex": (0.05, 5.1)},
                           3: {"eager": (0.1, 0.1), "flex": (0.2, 5.1)}})  # fmt: skip
    other = suite("b.flex", {1: {"eager": (0.1, 0.1), "flex": (0.02, 0.18), "compiled": (0.2, 9.1)}})
    found = put(other, one)
    assert found.sentence == (
        "Flex (title of a.flex) pays after 20 to 100 calls by case (in 1 of 3 cases no saving is shown); "
        "flex (title of b.flex) pays after 1 [1, 2] calls; "
        "compiled (title of b.flex) never pays: it takes 2.00x [1.96, 2.04] the time of eager."
    )
    assert found.turns == "at 20 [20, 21] calls of flex at n1"
    assert found.why.startswith(
        "At n1 flex needs 1.10 s until its first result, 1.00 s more than what does not compile;"
    )
    assert "a call then saves 50.0 ms of eager's 100 ms" in found.why
    assert found.chart is not None and found.chart.axis == "n"
    assert [(point.x, point.row) for point in found.chart.points] == [(1, "a.flex/n1/flex"), (2, "a.flex/n2/flex")]


def test_beyond_three_the_rest_are_counted() -> None:
    times: Times = {"eager": (0.1, 0.1)} | {one: (0.2 + 0.1 * i, 1.0) for i, one in enumerate(COMPILING)}
    four = suite("a.b", {1: times})
    assert put(four).sentence.endswith("; 1 more is in the sections below.")
    assert "below" not in put(suite("a.b", {1: {one: times[one] for one in list(times)[:4]}})).sentence
    assert put(four, suite("c.d", {1: {"eager": (0.1, 0.1), "flex": (0.3, 1.0)}})).sentence.endswith(
        "2 more are in the sections below."
    )


@pytest.mark.parametrize(
    ("ratio", "noise", "start"),
    [(1.2, 0.02, "Never in this run: compiled (title of a.b) never pays: it takes 1.20x"),
     (1.0, 0.02, "Not shown in this run: compiled (title of a.b) is not shown to pay: it takes 1.00x"),
     (1.0, 0.2, "Not shown in this run: compiled (title of a.b) is not shown to pay: it takes 1.00x")],
)  # fmt: skip
def test_never_is_said_of_what_is_slower_for_certain_and_of_nothing_else(
    ratio: float, noise: float, start: str
) -> None:
    sizes: Any = {n: {"eager": (0.1, 0.1), "compiled": (0.1 * ratio, 2.1)} for n in (1, 2)}
    found = put(suite("a.b", sizes, noise=noise))
    assert found.sentence.startswith(start) and found.sentence.endswith("the time of eager at n1.")
    assert found.turns.startswith("nowhere") and found.chart is None
    assert found.why.endswith(f"2.00 s more than what does not compile; a call then takes {100 * ratio:.0f} ms against "
                              "100 ms.")  # fmt: skip
    both = suite("a.b", {n: {"eager": (0.1, 0.1), "compiled": (0.1 * (1 + 0.2 * n), 2.1)} for n in (1, 2)})
    assert "never pays: it takes 1.20x [1.18, 1.22] the time of eager at n1." in put(both).sentence
    half = suite("a.b", {n: {"eager": (0.1, 0.1), "compiled": (0.1 * n, 2.1)} for n in (1, 2)})
    assert "is not shown to pay: it takes 1.00x [0.98, 1.02] the time of eager at n1." in put(half).sentence
    mixed = suite("a.b", {1: {"eager": (0.1, 0.1), "compiled": (0.12, 2.1)}}, noise=0.02)
    level = suite("c.d", {1: {"eager": (0.1, 0.1), "compiled": (0.1, 2.1)}}, noise=0.02)
    assert put(mixed, level).sentence.startswith("Not shown in this run: ")


def test_what_starts_as_soon_pays_at_once_and_the_cases_without_a_saving_are_still_counted() -> None:
    slower: Times = {"eager": (0.1, 0.2), "compiled": (0.2, 0.1)}
    found = put(suite("a.b", {1: {"eager": (0.1, 0.2), "compiled": (0.05, 0.1)}, 2: slower}))
    assert found.sentence == (
        "Compiled (title of a.b) starts as soon as what compiles nothing, and pays from its first call "
        "(in 1 of 2 cases no saving is shown)."
    )
    assert "no more than the others; a call then saves" in found.why
    assert (
        found.turns == "at the first call of compiled at n1" and found.chart is None
    )  # no calls on an axis of logarithms


def test_what_starts_later_and_has_paid_within_a_call_is_not_said_to_start_as_soon() -> None:
    found = put(suite("a.b", {1: {"eager": (1.0, 1.0), "compiled": (0.5, 1.49)}}))
    assert found.sentence == "Compiled (title of a.b) pays after 1 [1, 2] calls." and "490 ms more" in found.why


def test_it_is_put_beside_what_it_is_compiled_from() -> None:
    """The reference where that is alike, else the fastest that is, else the reference; never what compiles itself."""
    times: Times = {"eager": (0.4, 0.3), "fused": (0.2, 0.1)}
    assert "saves 100 ms of fused's 200 ms" in put(suite("a.b", {1: times | {"triton": (0.1, 5.1)}})).why
    assert "saves 390 ms of eager's 400 ms" in put(suite("a.b", {1: times | {"script": (0.01, 5.1)}})).why
    flex = put(suite("a.b", {1: {"fused": (0.2, 0.1), "eager": (0.4, 0.3), "script": (0.3, 5.1), "flex": (0.05, 5.1)}}))
    assert "saves 350 ms of eager's 400 ms" in flex.why and "5.00 s more" in flex.why  # the least of both starts
    rows, card = suite("a.b", {1: {"fused": (0.2, 0.1), "flex": (0.05, 5.1)}})
    assert COMPILE.put(evidence(rows, {"suites": [card]})) is None  # nothing alike, and no reference
    again = suite("a.b", {1: times | {"twin": (0.1, 0.1), "script": (0.01, 5.1)}})
    assert "saves 390 ms of eager's 400 ms" in put(again).why  # the reference, where another is alike and faster too
    slow = suite("a.b", {1: {"script": (0.2, 0.1), "compiled": (0.05, 5.1), "fused": (1.0, 0.1)}}, reference="script")
    assert COMPILE.put(evidence(slow[0], {"suites": [slow[1]]})) is None  # what is compiled too is no reference
    alone = suite("a.b", {1: {"script": (0.2, 0.1), "compiled": (0.05, 5.1)}}, reference="script")
    assert COMPILE.put(evidence(alone[0], {"suites": [alone[1]]})) is None


def test_what_is_faster_and_compiles_nothing_is_named_where_there_is_such() -> None:
    times: Times = {"eager": (0.4, 0.1), "fused": (0.05, 0.1), "compiled": (0.2, 5.1), "script": (0.01, 9e9)}
    without = " At n1 fused, which compiles nothing, takes 0.25x [0.24, 0.26] the time of compiled."
    assert put(suite("a.b", {1: times})).sentence.endswith(without)
    assert "compiles nothing, takes" not in put(suite("a.b", {1: times | {"fused": (0.3, 0.1)}})).sentence


def test_rows_without_a_first_call_and_suites_that_are_no_kernels_say_nothing() -> None:
    pair: Times = {"eager": (0.1, 0.1), "compiled": (0.05, 1.1)}
    for lost in pair:
        rows, card = suite(
            "a.b", {1: {one: (call, None if one == lost else first) for one, (call, first) in pair.items()}}
        )
        assert COMPILE.put(evidence(rows, {"suites": [card]})) is None
    for rows, card in (suite("a.b", {1: pair}, kind="training"), suite("harness.aa", {1: pair})):
        assert COMPILE.put(evidence(rows, {"suites": [card]})) is None


def test_one_without_a_first_call_costs_nobody_else_the_answer() -> None:
    times: Times = {"eager": (0.1, 0.1), "fused": (0.1, None), "compiled": (0.05, 1.1), "script": (0.02, None)}
    assert put(suite("a.b", {1: times})).sentence == "Compiled (title of a.b) pays after 20 [20, 21] calls."


def test_what_compiles_in_one_suite_is_not_taken_to_in_another_nor_drawn_with_it() -> None:
    one = suite("a.b", {1: {"eager": (0.1, 0.1), "compiled": (0.05, 1.1), "fused": (0.02, 1.1)}})
    rows, card = suite("c.d", {1: {"eager": (0.1, 0.1), "compiled": (0.09, 1.1), "fused": (0.01, 1.1)}})
    assert [point.y for point in put(one, (rows, card)).chart.points] == pytest.approx([20])
    contenders = [who | {"compiles": who["id"] == "fused"} for who in card["contenders"]]
    assert put(one, (rows, card | {"contenders": contenders})).sentence == (
        "Fused (title of c.d) pays after 12 [12, 12] calls; compiled (title of a.b) pays after 20 [20, 21] calls."
    )
    assert "At n1 fused, which" in put(one).sentence and put(suite("a.b", {1: {
        "eager": (0.1, 0.1), "compiled": (0.05, 1.1)}}, x_axis="m")).chart is None  # fmt: skip


ATTENTION = "attention.forward"
ALIKE = {"torch-eager": "exact", "compiled-eager": "exact", "torch-sdpa": "flash"}


def eager_and(call: float, first: float, sdpa: float = 0.05, noise: float = 0.02) -> tuple[list[Any], dict[str, Any]]:
    """torch-eager takes 0.1 s a call and starts in 0.1 s; compiled-eager takes `call` and starts in `first`."""
    rows = []
    for seq_len in (512, 1024):
        times = {"torch-eager": 0.1, "compiled-eager": call, "torch-sdpa": sdpa}
        fields: Any = {one: {"build_s": 0.0, "first_call_s": 0.1} for one in times}
        fields["compiled-eager"]["first_call_s"] = first
        axes = {"seq_len": seq_len}
        rows += raced(ATTENTION, axes, times, ALIKE, reference="torch-eager", noise=noise, fields=fields)
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
    suite = {"id": ATTENTION, "kind": "kernel", "x_axis": "seq_len", "title": "Attention", "contenders": contenders}
    return rows, {"suites": [suite]}


def test_compiling_pays_after_what_it_costs_over_what_a_call_saves() -> None:
    rows, catalogue = eager_and(call=0.08, first=10.1)
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
    rows, catalogue = eager_and(call=0.12, first=10.1)
    found = answer(COMPILE, rows, catalogue)
    assert found.sentence.startswith("Never in this run: compiled-eager (attention) never pays: it takes 1.20x")
    assert found.chart is None and found.turns.startswith("nowhere")
    rows, catalogue = eager_and(call=0.1, first=10.1, noise=0.1)
    assert "is not shown to pay: it takes 1.00x [0.91, 1.11] the time" in answer(COMPILE, rows, catalogue).sentence


def test_what_starts_as_soon_as_the_rest_pays_at_once_and_who_is_slower_is_not_named() -> None:
    rows, catalogue = eager_and(call=0.08, first=0.1, sdpa=0.5)
    found = answer(COMPILE, rows, catalogue)
    assert "pays from its first call" in found.sentence and "which compiles nothing" not in found.sentence


def test_no_answer_without_rows_and_a_command_that_measures_them() -> None:
    rows, _ = eager_and(call=0.08, first=10.1)
    assert COMPILE.answer(evidence(rows)) is None  # nobody is known to compile
    other = raced("from.elsewhere", {"n": 1}, {"a": 1.0, "b": 2.0}, {"a": "x", "b": "y"}, reference="a")
    for question in QUESTIONS:
        assert question.answer(evidence(other)) is None, question.id
