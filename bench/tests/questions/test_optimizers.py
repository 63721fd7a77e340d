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
    times = {"adamw-torch": 0.02, who: more.pop("time", 0.02)}
    rows = raced(TRAINING, AXES, times, KIND, reference="adamw-torch", ours=[who], fields=fields)
    return [*rows, contrast(TRAINING, AXES, "final.loss", who, "adamw-torch", gap, half)]


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
    assert found.sentence.startswith(
        f"{said}: to a loss of 6.1 muon needs 100 updates and 3.00 s, where adamw-torch needs 180 and 3.60 s"
    )
    assert "An update of muon takes 1.50x [1.47, 1.53] adamw-torch's time" in found.sentence
    assert "0.20 [0.10, 0.30] nats better than adamw-torch" in found.sentence
    assert found.turns == (
        "where an update costs 1.80x adamw-torch's, as many times as it saves updates; here it is 1.50x [1.47, 1.53]"
    )
    assert "10.0 ms longer (30.0 ms against 20.0 ms)" in found.why


def test_a_target_missed_cannot_tell() -> None:
    of = {"muon": {"measure.target": 6.1}, "adamw-torch": hits(180, 0.02)}
    found = answer(MUON, trained("muon", 6.5, 0.5, 0.1, of=of))
    assert found.sentence.startswith("Not to be told by a target: muon did not reach it in every seed.")
    assert "0.50 [0.40, 0.60] nats worse than adamw-torch" in found.sentence


RULES = {"whole": "whole-batch", "by-token": "gradient-accumulation", "means": "gradient-accumulation"}


def accumulated(by_token: float, means: float, lengths: str = "unequal") -> list[Any]:
    fields = {one: {"grad_error_rel": off, "peak_bytes": 1000} for one, off in
              (("whole", 3e-7), ("by-token", by_token), ("means", means))}  # fmt: skip
    fields["by-token"]["peak_bytes"] = 300
    return raced("optimizers.accumulation", {"micro_batches": 4, "tokens": 128, "lengths": lengths},
                 {"whole": 0.01, "by-token": 0.011, "means": 0.011}, RULES, reference="whole", ours=["by-token"],
                 fields=fields)  # fmt: skip


def test_accumulation_is_the_same_only_where_tokens_weigh_the_same() -> None:
    rows = accumulated(3e-7, 0.87) + accumulated(3e-7, 3e-7, "equal")
    found = answer(ACCUMULATION, rows)
    assert found.sentence == (
        "Only where every token weighs the same: with unequal numbers of tokens, by-token (3.0e-07 of its norm) gives "
        "the gradient of whole; means is 87% of its norm away."
    )
    assert "counts 8 times one of the longest" in found.why and "holds 30% of its memory" in found.why
    assert found.turns.endswith("the distance is 3.0e-07 for by-token and 3.0e-07 for means")


def test_accumulation_the_same_for_all_and_for_none() -> None:
    assert answer(ACCUMULATION, accumulated(3e-7, 4e-7)).sentence.startswith("Yes: with unequal numbers of tokens")
    found = answer(ACCUMULATION, accumulated(0.02, 0.87))
    assert found.sentence.startswith("No: with unequal numbers of tokens, by-token is 2.00% of its norm away and means")
    assert answer(ACCUMULATION, accumulated(3e-7, 0.87)).turns == ""
    assert ACCUMULATION.answer(evidence(accumulated(3e-7, 0.87, "equal"))) is None
