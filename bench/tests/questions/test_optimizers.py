"""Is 8-bit AdamW worse, slower, smaller? Is Muon worth its step? Is accumulation the same as a large batch?"""

from __future__ import annotations

from typing import Any

import pytest
from _asked import answer, contrast, evidence, raced

from bancada.questions.accumulating import ACCUMULATION
from bancada.questions.optimizers import EIGHT_BITS, MUON

TRAINING = "optimizers.convergence"
KIND = {"adamw-torch": "adamw", "adamw": "adamw", "adamw8bit": "adamw-8bit", "muon": "muon", "torch": "adamw"}
AXES = {"updates": 200}


def trained(who: str, final: float, gap: float, half: float, **more: Any) -> list[Any]:
    """adamw-torch ends at 6.0 nats, `who` `gap` above that within +-half."""
    fields: Any = {
        one: {"measure.seeds": 3, "measure.updates": 200.0, "measure.final.loss": loss, "hyper.lr": 0.01}
        for one, loss in (("adamw-torch", 6.0), (who, final))
    }
    for one, values in more.pop("of", {}).items():
        fields[one] |= values
    times, axes = {"adamw-torch": 0.02, who: more.pop("time", 0.02)}, more.pop("axes", AXES)
    rows = raced(TRAINING, axes, times, KIND, reference="adamw-torch", ours=[who], fields=fields)
    return [*rows, contrast(TRAINING, axes, "final.loss", who, "adamw-torch", gap, half)]


def stepped(ratio: float, state: float) -> list[Any]:
    rows = raced("optimizers.step", {"rule": "adamw-8bit", "width": 512}, {"torch": 0.01, "adamw8bit": 0.01 * ratio},
                 KIND, reference="torch", ours=["adamw8bit"])  # fmt: skip
    kept = {"torch": {"measure.bytes_per_parameter": 8.0}, "adamw8bit": {"measure.bytes_per_parameter": state}}
    return rows + raced("optimizers.state", {"width": 512}, {"torch": 0.01, "adamw8bit": 0.02}, KIND,
                        reference="torch", ours=["adamw8bit"], fields=kept)  # fmt: skip


@pytest.mark.parametrize(
    ("gap", "half", "said"),
    [(0.5, 0.1, "Worse: "), (-0.5, 0.1, "Not worse, but better: "), (0.001, 0.01, "Not worse: "),
     (0.1, 0.4, "Whether it is worse is not decided: ")],
)  # fmt: skip
def test_eight_bits_are_judged_by_the_seeds(gap: float, half: float, said: str) -> None:
    found = answer(EIGHT_BITS, trained("adamw8bit", 6.0 + gap, gap, half) + stepped(2.0, 2.03))
    assert found.sentence.startswith(f"{said}after 200 updates, over 3 seeds, the loss of adamw8bit ")
    assert "both tuned to a rate of 0.01" in found.sentence and found.open == ""
    assert found.chart is not None and (found.chart.kind, found.chart.axis) == ("curves", "updates")


def test_eight_bits_slower_or_faster_smaller_or_not() -> None:
    found = answer(EIGHT_BITS, stepped(2.0, 2.03))
    assert "a step of adamw8bit is 2.00x" in found.sentence and "slower than torch" in found.sentence
    assert "Its state is smaller: 2.03 bytes a parameter where torch keeps 8.00 (25%)" in found.sentence
    assert found.open == "Not measured in this run: the loss."
    assert found.chart is not None and [point.y for point in found.chart.points] == [8.0, 2.03]
    found = answer(EIGHT_BITS, stepped(0.5, 8.0))
    assert "faster than torch" in found.sentence and "Its state is no smaller: 8.00" in found.sentence
    assert "level with torch" in answer(EIGHT_BITS, stepped(1.0, 2.03)).sentence


def test_a_loss_is_compared_where_the_seeds_and_the_reference_are_there_and_most_updates_were_made() -> None:
    rows = trained("adamw8bit", 6.5, 0.5, 0.1)
    more = trained("adamw8bit", 5.5, -0.5, 0.1, axes={"updates": 400})
    for row in (row for row in more if row["kind"] == "cell"):
        row["measure.updates"] = 400.0
    alone = [row for row in trained("adamw8bit", 5.5, -0.5, 0.1, axes={"updates": 800}) if row["kind"] == "cell"]
    for ordered in (rows + more, more + rows, rows + more + alone[:1], rows + more + alone[1:]):
        assert answer(EIGHT_BITS, ordered).sentence.startswith("Not worse, but better: after 400 updates, ")
    peer = [row | {"contender": "peer8", "origin": "peer", "row_id": "peer8"} for row in alone[1:]]
    peer[0] |= {"case": rows[0]["case"], "axis.updates": 200}
    found = answer(EIGHT_BITS, rows + peer)
    assert found.chart is not None and [point.row for point in found.chart.points][2:] == ["peer8"]
    for lost in ("contrast", "adamw-torch"):
        kept = [row for row in rows if row["kind"] != lost and row.get("contender") != lost]
        assert EIGHT_BITS.put(evidence(kept)) is None
        assert answer(EIGHT_BITS, kept + stepped(2.0, 2.03)).open == "Not measured in this run: the loss."
    assert answer(EIGHT_BITS, rows).open == "Not measured in this run: the time of a step and the state."
    bare = [{name: value for name, value in row.items() if name != "hyper.lr"} for row in rows]
    assert answer(EIGHT_BITS, bare).sentence.endswith("0.50 [0.40, 0.60] nats worse than adamw-torch.")


def test_ours_stands_for_its_technique_and_a_peer_where_there_is_none() -> None:
    who = ("torch", "peer8", "adamw8bit", "slow8")
    kinds = dict(zip(who, ("adamw", *["adamw-8bit"] * 3), strict=True))
    times = dict(zip(who, (1.0, 0.5, 2.0, 3.0), strict=True))
    for ours, said in (
        (["adamw8bit", "slow8"], "adamw8bit is 2.00x"),
        (["slow8"], "slow8 is 3.0x"),
        ([], "peer8 is 2.00x"),
    ):
        rows = raced("optimizers.step", {"width": 512}, times, kinds, reference="torch", ours=ours)
        assert f"At width 512, a step of {said}" in answer(EIGHT_BITS, rows).sentence


def test_step_and_state_are_told_at_the_largest_width_with_both() -> None:
    kinds, both = {"torch": "adamw", "adamw8bit": "adamw-8bit"}, {"torch": 0.01, "adamw8bit": 0.02}
    kept = {one: {"measure.bytes_per_parameter": size} for one, size in (("torch", 8.0), ("adamw8bit", 2.03))}
    for name in ("optimizers.step", "optimizers.state"):
        rows = [
            row
            for width, who in ((64, both), (512, both), (1024, {"torch": 1.0}), (2048, {"adamw8bit": 1.0}))
            for row in raced(name, {"width": width}, who, kinds, reference="torch", fields=kept)
        ]
        assert all("width512/" in row for row in answer(EIGHT_BITS, rows).rows)
        few = [row for row in rows if not (row.get("axis.width") in (64, 512) or row["kind"] == "pair")]
        assert EIGHT_BITS.put(evidence(few)) is None


@pytest.mark.parametrize(("state", "said"), [(7.5, "smaller: 7.50"), (7.7, "no smaller: 7.70")])
def test_a_state_of_nearly_as_many_bytes_is_no_smaller(state: float, said: str) -> None:
    found = answer(EIGHT_BITS, stepped(2.0, state))
    assert f"Its state is {said}" in found.sentence
    assert ("falls by less" in found.why) == said.startswith("smaller")
    assert found.chart is not None and found.chart.unit == "bytes"


def test_a_state_is_put_beside_another_adamw_where_the_reference_was_not_measured() -> None:
    rows = stepped(2.0, 2.03)
    for row in rows:
        row |= {"reference": False} if row["kind"] == "cell" else {}
    assert "where torch keeps 8.00" in answer(EIGHT_BITS, rows).sentence
    both = answer(EIGHT_BITS, rows + trained("adamw8bit", 6.5, 0.5, 0.1))
    assert both.why.startswith("A step reads the state")
    rows = stepped(2.0, 2.03)
    cells = [row for row in rows if row["suite"] == "optimizers.state" and row["kind"] == "cell"]
    twin = cells[0] | {"contender": "twin", "reference": False, "measure.bytes_per_parameter": 4.0, "row_id": "twin"}
    twin |= {"origin": "bancada", "time_s": 1e-3}
    peer = {name: value for name, value in cells[1].items() if name != "measure.bytes_per_parameter"}
    found = answer(EIGHT_BITS, [*rows, twin, peer | {"contender": "peer8", "origin": "peer", "row_id": "peer8"}])
    assert "where torch keeps 8.00 (25%)" in found.sentence and "peer8" not in found.rows
    for lost in ("torch", "adamw8bit"):
        bare = [{name: value for name, value in row.items() if name != "measure.bytes_per_parameter"}
                if row.get("contender") == lost else row for row in rows]  # fmt: skip
        assert answer(EIGHT_BITS, bare).open == "Not measured in this run: the loss and the state."


def test_rates_tuned_apart_are_said() -> None:
    rows = trained("adamw8bit", 6.0, 0.0, 0.01, of={"adamw8bit": {"hyper.lr": 0.003}})
    assert "tuned apart, to rates of 0.003 and 0.01" in answer(EIGHT_BITS, rows).sentence


def hits(updates: float, step: float) -> dict[str, Any]:
    return {"measure.target": 6.1, "measure.updates_to_target": updates, "measure.seconds_to_target": updates * step}


@pytest.mark.parametrize(("seconds", "half", "said"), [(-1.0, 0.5, "Yes"), (1.0, 0.5, "No"), (0.1, 0.5, "Not decided")])
def test_muon_is_worth_it_by_seconds_to_the_target(seconds: float, half: float, said: str) -> None:
    of = {"muon": hits(100, 0.03), "adamw-torch": hits(180, 0.02)}
    rows = trained("muon", 5.8, -0.2, 0.1, time=0.03, of=of)
    rows.append(contrast(TRAINING, AXES, "seconds_to_target", "muon", "adamw-torch", seconds, half))
    found = answer(MUON, rows)
    assert found.sentence.endswith("nats better than adamw-torch.")
    assert f"and 3.60 s: a difference of {seconds:+.1f}" in found.sentence
    assert found.sentence.startswith(
        f"{said}: to a loss of 6.1 muon needs 100 updates and 3.00 s, where adamw-torch needs 180 and 3.60 s"
    )
    assert "An update of muon takes 1.50x [1.47, 1.53] adamw-torch's time" in found.sentence
    assert "0.20 [0.10, 0.30] nats better than adamw-torch" in found.sentence
    assert found.turns == (
        "where an update costs 1.80x adamw-torch's, as many times as it saves updates; here it is 1.50x [1.47, 1.53]"
    )
    assert found.why == (
        "Forward and backward are the same; the products of Newton-Schulz make an update 10.0 ms longer (30.0 ms "
        "against 20.0 ms)."
    )
    assert found.chart is not None and found.chart.axis == "seconds"


@pytest.mark.parametrize("time", [0.02, 0.019, 0.01])
def test_products_that_no_row_shows_are_not_blamed(time: float) -> None:
    of = {"muon": {"measure.bytes.optimizer": 50.0}, "adamw-torch": {"measure.bytes.optimizer": 100.0}}
    why = answer(MUON, trained("muon", 5.8, -0.2, 0.1, time=time, of=of)).why
    assert "with the products of Newton-Schulz an update is not shown to take longer" in why and "make" not in why
    assert why.endswith(", and its state takes 50% of adamw-torch's.")


def test_where_muon_turns_if_it_saves_no_updates_or_needs_none() -> None:
    for needed, turns in ((200, "this target it saves none, and each takes 1.50x"), (180, "it saves none"), (0, "")):
        of = {"muon": hits(needed, 0.03), "adamw-torch": hits(180, 0.02)}
        found = answer(MUON, trained("muon", 5.8, -0.2, 0.1, time=0.03, of=of))
        assert turns in found.turns and bool(turns) == bool(found.turns)
        assert found.sentence.startswith("Not decided: to a loss of 6.1 ") and "a difference" not in found.sentence


def test_without_a_target_or_a_comparison_muon_is_told_by_its_loss_or_not_at_all() -> None:
    rows = trained("muon", 5.8, -0.2, 0.1)
    assert answer(MUON, rows).sentence.startswith("Not to be told by a target: these rows name none. An update of muon")
    assert answer(MUON, trained("muon", 5.8, -0.2, 0.1, of={"adamw-torch": hits(180, 0.02), "muon": {
        "measure.target": 6.1}})).turns == ""  # fmt: skip
    assert MUON.put(evidence([row for row in rows if row["kind"] != "contrast"])) is None
    assert MUON.put(evidence([row for row in rows if row.get("contender") != "adamw-torch"])) is None
    assert MUON.put(evidence([row for row in rows if row.get("contender") != "muon"])) is None
    missed = {one: {"measure.target": 6.1} for one in ("muon", "adamw-torch")}
    neither = answer(MUON, trained("muon", 5.8, -0.2, 0.1, of=missed))
    assert "muon and adamw-torch did not reach it in every seed" in neither.sentence


def test_a_target_missed_cannot_tell() -> None:
    of = {"muon": {"measure.target": 6.1}, "adamw-torch": hits(180, 0.02)}
    found = answer(MUON, trained("muon", 6.5, 0.5, 0.1, of=of))
    assert found.sentence.startswith("Not to be told by a target: muon did not reach it in every seed.")
    assert "0.50 [0.40, 0.60] nats worse than adamw-torch" in found.sentence


RULES = {"whole": "whole-batch", "by-token": "gradient-accumulation", "means": "gradient-accumulation"}


def accumulated(by_token: float, means: float, lengths: str = "unequal", number: int = 4) -> list[Any]:
    fields = {one: {"grad_error_rel": off, "peak_bytes": 1000} for one, off in
              (("whole", 3e-7), ("by-token", by_token), ("means", means))}  # fmt: skip
    fields["by-token"]["peak_bytes"] = 300
    return raced("optimizers.accumulation", {"micro_batches": number, "tokens": 128, "lengths": lengths},
                 {"whole": 0.01, "by-token": 0.011, "means": 0.011}, RULES, reference="whole", ours=["by-token"],
                 fields=fields)  # fmt: skip


def test_accumulation_is_the_same_only_where_tokens_weigh_the_same() -> None:
    rows = accumulated(3e-7, 0.87) + accumulated(3e-7, 3e-7, "equal")
    found = answer(ACCUMULATION, rows)
    assert found.sentence == (
        "Only where every token weighs the same: with unequal numbers of tokens, by-token (3.0e-07 of its norm) gives "
        "the gradient of whole; means is 87% of its norm away."
    )
    assert found.why.endswith(
        "a token of the shortest counts 8 times one of the longest; with equal lengths both rules are one. By-token is "
        "1.10x [1.08, 1.12] slower than whole and holds 30% of its memory."
    )
    assert found.chart is not None and [point.y for point in found.chart.points] == [3e-7, 3e-7, 0.87]
    assert found.turns.endswith("the distance is 3.0e-07 for by-token and 3.0e-07 for means")


@pytest.mark.parametrize(
    ("off", "said"),
    [(0.1, "means is 10% of its norm away"), (0.0999, "means is 9.99% of"), (1e-3, "means is 0.10% of"),
     (9.9e-4, "means (9.9e-04 of its norm) give the gradient of whole.")],
)  # fmt: skip
def test_how_far_a_gradient_is_and_when_that_is_rounding(off: float, said: str) -> None:
    assert said in answer(ACCUMULATION, accumulated(3e-7, off)).sentence


def test_accumulation_is_told_of_the_most_micro_batches_and_of_whose_gradient_was_compared() -> None:
    few, many = accumulated(3e-7, 0.5, number=2), accumulated(3e-7, 0.87, number=8)
    for rows in (few + many, many + few):
        found = answer(ACCUMULATION, rows)
        assert "87%" in found.sentence and "Here 8 micro-batches hold 128 tokens" in found.why
    equal = accumulated(3e-7, 4e-7, "equal")
    for row in many[:2] + equal[1:2]:
        del row["grad_error_rel"]
    found = answer(ACCUMULATION, many + equal)
    assert found.sentence == "No: with unequal numbers of tokens, means is 87% of its norm away from whole."
    assert found.turns == "with the lengths: where all are equal, the distance is 4.0e-07 for means"
    assert found.chart is not None and len(found.chart.points) == 1
    del equal[2]["grad_error_rel"], many[2]["peak_bytes"]
    found = answer(ACCUMULATION, many + equal)
    assert found.turns == "" and "holds 30% of its memory" in found.why
    del many[0]["peak_bytes"]
    assert answer(ACCUMULATION, many).why.endswith("slower than whole.")
    del many[2]["grad_error_rel"]
    assert ACCUMULATION.put(evidence(many)) is None


def test_no_accumulation_without_the_whole_batch_and_no_times_without_ours() -> None:
    rows = accumulated(3e-7, 0.87)
    assert ACCUMULATION.put(evidence([row for row in rows if row.get("contender") != "whole"])) is None
    peers = [row for row in rows if row.get("contender") != "by-token"]
    assert answer(ACCUMULATION, peers).why.endswith("both rules are one.")


def test_accumulation_the_same_for_all_and_for_none() -> None:
    assert answer(ACCUMULATION, accumulated(3e-7, 4e-7)).sentence.startswith("Yes: with unequal numbers of tokens")
    found = answer(ACCUMULATION, accumulated(0.02, 0.87))
    assert found.sentence.startswith("No: with unequal numbers of tokens, by-token is 2.00% of its norm away and means")
    assert answer(ACCUMULATION, accumulated(3e-7, 0.87)).turns == ""
    assert ACCUMULATION.answer(evidence(accumulated(3e-7, 0.87, "equal"))) is None
