"""Verdicts that differ by size, by an axis, or by who ran where."""

from __future__ import annotations

import dataclasses

import _synthetic as made
import pytest
from _asked import raced
from _judged import NARROW, judge, rules

from bancada.verdicts import Verdict, verdicts


def test_where_the_answer_depends_on_a_dtype_that_the_reference_lacks_a_peer_stands_in_there() -> None:
    recipe = made.Recipe(grid=NARROW | {"dtype": ["fp32", "bf16"]}, suites=("attention.forward",), failures=False)
    recipe = dataclasses.replace(recipe, speed={"flash-tiled": 0.5})  # half as fast again in bf16: slower than SDPA
    rows = list(made.make_rows(recipe))
    for row in rows:
        if row["kind"] == "cell" and row["contender"] == "eager" and row["axis.dtype"] == "bf16":
            row |= {"status": "unsupported", "reason": "no bf16"}
    (verdict,) = verdicts(rows, made.plan(recipe), made.catalogue(recipe))
    assert verdict.clauses[0].startswith("With bf16, ") and "slower than torch SDPA" in verdict.clauses[0]
    assert verdict.clauses[1].startswith("With fp32, ") and "faster than eager attention" in verdict.clauses[1]


def test_sizes_at_which_the_two_did_not_both_run_are_not_spoken_for() -> None:
    recipe = made.Recipe(grid=NARROW, suites=("attention.forward",), speed={"flash-tiled": 9.0}, failures=False)
    rows = list(made.make_rows(recipe))
    for row in rows:
        if row["kind"] == "cell" and row["contender"] == "eager" and row["axis.seq_len"] > 2048:
            row |= {"status": "out_of_memory", "reason": "the limit is 6.00 GiB"}
    (verdict,) = verdicts(rows, made.plan(recipe), made.catalogue(recipe))
    assert verdict.sentence.startswith("Up to 2,048 tokens, flash (tiled) is ")


def test_an_axis_that_decides_is_named() -> None:
    verdict = judge(grid=NARROW | {"dtype": ["fp32", "bf16", "fp16"]}, speed={"flash-tiled": 0.5}, failures=False)
    assert verdict.kind == "win"
    assert [clause.split(",")[0] for clause in verdict.clauses] == ["With bf16", "With fp16 or fp32"]
    assert verdict.headline == (
        "Fastest: with bf16, torch SDPA; with fp16 or fp32, at 256 tokens and more, flash (tiled)"
    )


def sized(outcomes: dict[int, float], noise: float = 0.02) -> Verdict:
    """`mine` at these ratios of the time of `plain`, by width."""
    rows = [
        row
        for width, ratio in outcomes.items()
        for row in raced("s.t", {"width": width}, {"plain": 1.0, "mine": ratio}, {"plain": "p", "mine": "m"},
                         reference="plain", ours=["mine"], noise=noise)
    ]  # fmt: skip
    (verdict,) = verdicts(rows, {}, {"suites": [{"id": "s.t", "x_axis": "width"}]})
    return verdict


@pytest.mark.parametrize(
    ("below", "noise", "said"),
    [((1.0, 1.0), 0.02, "Below that, the two are too close to call."),
     ((2.0, 2.0), 0.02, "Below that, plain is 2.0x faster."),
     ((2.0, 1.0), 0.02, "Below that, it depends on the case."),
     ((1.0, 1.0), 0.2, "Below that, nothing is decided between the two.")],
)  # fmt: skip
def test_what_holds_at_the_other_sizes(below: tuple[float, float], noise: float, said: str) -> None:
    verdict = sized({64: below[0], 128: below[1], 256: 0.5, 512: 0.5}, noise)
    assert verdict.clauses[0].startswith("At width 256 and more, mine is 2.0")
    assert verdict.clauses[0].endswith(f". {said}")


def test_where_one_of_ours_may_be_fastest_nobody_says_that_none_is() -> None:
    last = {noise: sized({64: 2.0, 128: 1.02}, noise).clauses[-1] for noise in (0.005, 0.1)}
    assert last == {0.005: "Nothing of ours is fastest here.", 0.1: "Nothing of ours is shown to be fastest here."}
    assert sized({64: 2.0, 128: 1.0}).clauses[-1] == "Nothing of ours is shown to be fastest here."  # level at 128


def test_a_winner_that_changes_often_is_named_at_the_largest_size_alone() -> None:
    verdict = sized({64: 0.5, 128: 2.0, 256: 0.5, 512: 2.0})
    assert verdict.headline == "Fastest: it changes with size; at width 512, plain"


def test_where_each_rule_has_contenders_of_its_own_each_is_judged_for_itself() -> None:
    """Nobody is the best of ours over tasks that differ; nor does one lost task lose the others."""
    lost = {"loop": 2.0, "my-eight": 1.6, "fused": 1.0}
    won = {"loop": 2.0, "my-lion": 1.0, "their-lion": 1.5}
    suite = {"suites": [{"id": "optimizers.step", "title": "Step", "x_axis": "width"}]}
    (verdict,) = verdicts(rules({"eight": lost, "lion": won}), {}, suite)
    assert verdict.kind == "win"
    assert verdict.headline == "Fastest: with rule eight, fused; with rule lion, my-lion"
    assert verdict.clauses[0].startswith("With rule eight, at width 256, my-eight is 1.25x")
    assert "fused is still 1.60x faster than it" in verdict.clauses[0]
    assert verdict.clauses[1].startswith("With rule lion, at width 256, my-lion is 2.00x")
    assert len(verdict.clauses) == 2 and not verdict.facts
    (verdict,) = verdicts(rules({"eight": lost, "lion": won | {"my-lion": 1.7}}), {}, suite)
    assert verdict.kind == "peer wins" and verdict.clauses[-1] == "Nothing of ours is fastest here."
    many = {f"rule{i}": {"loop": 2.0, f"my-{i}": 1.0} for i in range(6)}
    (verdict,) = verdicts(rules(many), {}, suite)
    assert verdict.clauses[3] == "3 more are in the section below." and verdict.headline.endswith("; 2 more below")


def test_who_is_fastest_by_rule_names_the_size_where_others_are_at_the_smaller_ones() -> None:
    small = rules({"eight": {"loop": 2.0, "my-eight": 1.0}, "lion": {"loop": 1.0, "my-lion": 2.0}}, 128)
    large = rules({"eight": {"loop": 2.0, "my-eight": 1.0}, "lion": {"loop": 2.0, "my-lion": 1.0}})
    (verdict,) = verdicts([*small, *large], {}, {"suites": [{"id": "optimizers.step", "x_axis": "width"}]})
    assert verdict.headline == "Fastest: with rule eight, my-eight; with rule lion, at width 256, my-lion"


def test_a_peer_that_ran_at_fewer_sizes_is_spoken_of_at_those() -> None:
    recipe = made.Recipe(grid=NARROW, suites=("attention.forward",), failures=False)
    rows = list(made.make_rows(recipe))
    for row in rows:
        if row["kind"] == "cell" and row["contender"] != "eager" and row["origin"] == "peer":
            row |= {"status": "timeout", "reason": "slow"} if row["axis.seq_len"] > 128 else {}
    (verdict,) = verdicts(rows, made.plan(recipe), made.catalogue(recipe))
    assert "; at 128 tokens, torch SDPA is still " in verdict.clauses[0]


def test_a_rival_that_never_met_ours_leaves_the_kind_to_those_that_did() -> None:
    """The fastest of all may have run at other cases alone."""
    rows = rules({"eight": {"loop": 2.0, "my-eight": 1.0}, "other": {"loop": 2.0, "quick": 0.1}})
    rows = [row for row in rows if not (row.get("contender") == "loop" and row["axis.rule"] == "other")]
    extra = rules({"other": {"quick": 0.1, "their": 0.2}})
    (verdict,) = verdicts([*rows, *extra], {}, {})
    assert verdict.kind == "win"
