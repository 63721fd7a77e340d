"""What training runs and ranks say: the sentence turns with the rows, and says nothing that they do not hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from _asked import contrast, raced
from _synthetic_kinds import LEARNERS, QUALITY, RANKS, TRAINING, Effects, write

from bancada import rows
from bancada.report import build, data
from bancada.report.load import load
from bancada.verdicts import Verdict, outcomes, ranked, verdicts


def said(tmp_path: Path, effects: Effects) -> dict[str, Verdict]:
    run = load(write(tmp_path / "run", effects))
    return {verdict.suite: verdict for verdict in verdicts(run.rows, run.plan, run.catalogue)}


def test_a_tie_with_a_peer_is_called_a_tie_and_priced(tmp_path: Path) -> None:
    verdict = said(tmp_path, Effects())[TRAINING]
    assert verdict.kind == "tie" and not verdict.clear and verdict.ours == "muon"
    assert verdict.headline == "Best loss: Muon or torch Muon (level)"
    assert "of 4.2010 [4.1928, 4.2124] nats a token: 0.310 [0.290, 0.330] nats a token better than" in verdict.sentence
    assert "better than torch AdamW, fused (1.38x its time an update)" in verdict.sentence
    assert "level with torch Muon" in verdict.sentence
    assert "Updates to the target: 100 (torch AdamW, fused: 1" in verdict.sentence


def test_wide_intervals_are_not_called_level(tmp_path: Path) -> None:
    verdict = said(tmp_path, Effects(half=0.25))[TRAINING]
    assert verdict.kind == "not decided" and verdict.headline == "Best loss: Muon or torch Muon (not decided)"
    assert "not decided against torch Muon" in verdict.sentence


@pytest.mark.parametrize(
    ("final", "kind", "best"),
    [({"muon": 4.0}, "win", "Muon"), ({"torch-muon": 4.0}, "peer wins", "torch Muon")],
)
def test_the_verdict_turns_with_the_losses(tmp_path: Path, final: dict[str, float], kind: str, best: str) -> None:
    verdict = said(tmp_path, Effects(final=final))[TRAINING]
    assert (verdict.kind, verdict.headline, verdict.clear) == (kind, f"Best loss: {best}", True)
    assert ("worse than torch Muon" in verdict.sentence) == (kind == "peer wins")


def test_a_run_that_diverged_wins_nothing(tmp_path: Path) -> None:
    verdict = said(tmp_path, Effects(final={"muon": 1.0}, diverged=("muon", "torch-muon")))[TRAINING]
    assert verdict.ours == "adamw" and "Muon" not in verdict.headline + verdict.sentence


def test_a_missed_target_stays_a_miss(tmp_path: Path) -> None:
    high = {one.id: 5.0 for one in LEARNERS if one.id != "torch-adamw"}
    sentence = said(tmp_path, Effects(final=high))[TRAINING].sentence
    assert "Updates to the target: never in 3 seeds (torch AdamW, fused: 1" in sentence


def test_without_ours_the_sentence_says_so(tmp_path: Path) -> None:
    lost = tuple(one.id for one in LEARNERS if one.origin == "bancada")
    verdict = said(tmp_path, Effects(diverged=lost))[TRAINING]
    assert verdict.kind == "no data" and verdict.ours == "" and "Nothing of ours was measured here." in verdict.sentence


def test_ranks_tell_parity_bytes_and_times_and_never_scaling(tmp_path: Path) -> None:
    verdict = said(tmp_path, Effects())[RANKS]
    assert verdict.headline == (
        "On 4 ranks: least model state a rank, ZeRO, stage 3 and FSDP2 (3.05 MiB); least traffic a rank and step, "
        "data parallel and 2 more (4.58 MiB)"
    )
    assert "the largest difference is 3.0e-07 of a tensor's norm" in verdict.sentence
    assert "ZeRO, stage 3 and FSDP2 have the least model state a rank, 3.05 MiB (" in verdict.sentence
    assert "for which ZeRO, stage 3 sends 1.50x its bytes a step" in verdict.sentence
    assert "ZeRO, stage 3 1.09x" in verdict.sentence and "say nothing of scaling" in verdict.sentence


def test_a_wrong_answer_on_ranks_is_named_first(tmp_path: Path) -> None:
    verdict = said(tmp_path, Effects(wrong=("zero-1",)))[RANKS]
    assert "ZeRO, stage 1" in verdict.headline and "Wrong: ZeRO, stage 1." in verdict.sentence
    assert "4 contenders leave" in verdict.sentence


def test_what_travels_is_counted_as_rings_send_it() -> None:
    """Of an all-reduce of S bytes each of n ranks sends 2 (n - 1) / n S, as a ring's own messages do."""
    assert ranked.link_bytes({"measure.comm.all_reduce.bytes": 4096, "measure.comm.bytes": 4096}, 4) == 6144
    both = {"measure.comm.all_gather.bytes": 4096, "measure.comm.reduce_scatter.bytes": 4096}
    assert ranked.link_bytes(both, 4) == 6144
    ring = {"measure.comm.send.bytes": 6144, "measure.comm.recv.bytes": 6144, "measure.comm.all_ranks.bytes": 49152}
    assert ranked.link_bytes(ring, 4) == 6144


@pytest.mark.parametrize(
    ("times", "kind"),
    [({"mine": 1.0, "first": 1.5, "second": 0.5}, "peer wins"), ({"mine": 1.0, "first": 1.5, "second": 2.0}, "win"),
     ({"mine": 1.0, "first": 1.0}, "tie"), ({"mine": 1.0, "first": 1.03}, "not decided"), ({"mine": 1.0}, "no data")],
)  # fmt: skip
def test_ours_on_ranks_has_to_take_less_time_than_every_peer_of_its_technique(
    times: dict[str, float], kind: str
) -> None:
    noise = 0.05 if kind == "not decided" else 0.02
    axes = {"world_size": 2, "numel": 1024}
    found = raced(RANKS, axes, times, dict.fromkeys(times, "ring"), reference="first", ours=["mine"], noise=noise)
    (verdict,) = verdicts(found, {}, {"suites": [{"id": RANKS, "kind": "ranks"}]})
    assert verdict.kind == kind and verdict.headline == "One result on 2 ranks"
    if kind in ("tie", "not decided"):
        word = "level" if kind == "tie" else kind
        assert f"Step times in one race: the one pair of one technique {word}." in verdict.sentence


def test_only_the_axes_that_tell_cases_apart_are_said() -> None:
    fields = {one: {"measure.final.loss": loss, "measure.updates": 9.0} for one, loss in (("a", 1.0), ("b", 2.0))}
    rows_of = [
        raced(TRAINING, {"task": task, "batch": batch, "width": 8}, {"a": 1.0, "b": 1.0}, {"a": "a", "b": "b"},
              reference="b", ours=["a"], fields=fields)
        for task, batch in (("one", 4), ("two", 8))
    ]  # fmt: skip
    found = verdicts([row for case in rows_of for row in case], {}, {"suites": [{"id": TRAINING, "kind": "training"}]})
    assert found[0].headline.startswith("Best loss: task one: a")
    assert found[0].clauses[0].startswith("Task one: after 9 updates, a reaches a loss of 1: ")


def learnt(cases: list[tuple[dict[str, Any], float]], better: str = "lower") -> Verdict:
    """`mine` against `plain`, by case: the difference of what they reached, plus or minus 0.01."""
    found = []
    for axes, gap in cases:
        fields = {one: {"measure.final.score": 2.0 + (gap if one == "mine" else 0)} for one in ("plain", "mine")}
        found += raced(TRAINING, axes, {"plain": 1.0, "mine": 1.0}, {"plain": "p", "mine": "m"}, reference="plain",
                       ours=["mine"], fields=fields)  # fmt: skip
        found.append(contrast(TRAINING, axes, "final.score", "mine", "plain", gap, 0.01, better))
    metric = {"name": "score", "title": "Score", "better": better}
    (verdict,) = verdicts(found, {}, {"suites": [{"id": TRAINING, "kind": "training", "metrics": [metric]}]})
    return verdict


def test_a_score_of_which_more_is_better_is_judged_that_way_round() -> None:
    assert learnt([({"task": "x"}, 0.5)], "higher").headline == "Best score: mine"
    verdict = learnt([({"task": "x"}, 0.5)])
    assert verdict.headline == "Best score: plain" and verdict.kind == "peer wins" and verdict.clear


def test_two_axes_are_said_where_neither_alone_tells_the_cases_apart_and_a_constant_one_never() -> None:
    cases: list[tuple[dict[str, Any], float]] = [
        ({"task": task, "batch": batch, "width": 8}, 0.5 if (task, batch) == ("one", 4) else -0.5)
        for task in ("one", "two") for batch in (4, 8)
    ]  # fmt: skip
    verdict = learnt(cases)
    assert verdict.headline.startswith("Best score: task one, batch 4: plain; task one, batch 8: mine;")
    assert verdict.clear, "mine is best in three of four"


@pytest.mark.parametrize(
    ("value", "low", "high", "said"),
    [(1.036, 0.969, 1.103, "1.036 [0.969, 1.103]"), (0.57, -0.049, 1.18, "0.57 [-0.05, 1.18]"),
     (-0.00001, -0.0013, 0.0013, "0.0000 [-0.0013, 0.0013]"), (0.1, 0.0, 0.2, "0.10 [0.00, 0.20]"),
     (0.0, 0.0, 0.0, "0.00 [0.00, 0.00]"), (3000.0, 2000.0, 4000.0, "3000 [2000, 4000]"), (4.25, None, None, "4.25")],
)  # fmt: skip
def test_a_value_has_the_decimals_that_its_interval_bears(value: float, low: Any, high: Any, said: str) -> None:
    assert outcomes.spread(value, low, high) == said and outcomes.spread(value, low, high, unit="s") == f"{said} s"


@pytest.mark.parametrize(
    ("without", "kind"),
    [((), "tie"), (("fsdp2",), "win"), (("zero-3", "zero-1", "data-parallel"), "peer wins")],
)
def test_the_badge_of_ranks_follows_who_keeps_and_sends_least(
    tmp_path: Path, without: tuple[str, ...], kind: str
) -> None:
    assert said(tmp_path, Effects(wrong=without, step={"data-parallel": 9.0}))[RANKS].kind == kind


@pytest.mark.parametrize(("factor", "kind"), [(0.7, "win"), (2.0, "peer wins")])
def test_where_all_keep_and_send_the_same_the_badge_follows_the_step_times(
    tmp_path: Path, factor: float, kind: str
) -> None:
    two = Effects(wrong=("fsdp2", "zero-3", "zero-1"), step={"data-parallel": factor})
    assert said(tmp_path, two)[RANKS].kind == kind


def test_a_kernel_suite_s_own_figures_are_said_beside_its_times(tmp_path: Path) -> None:
    sentence = said(tmp_path, Effects())[QUALITY].sentence
    assert "KL to the dense model, int8 with 2e-05 nats (dense: 0 nats)" in sentence
    assert "bytes of the model, int4 with 488 KiB (dense: 3.81 MiB)" in sentence


def test_the_page_holds_curves_and_contrasts_once(tmp_path: Path) -> None:
    """A sweep that was killed and started again may write a seed twice: the last one counts."""
    folder = write(tmp_path / "run")
    again = [row for row in rows.read(folder / "rows.jsonl").rows if row["kind"] in ("curve", "contrast")]
    rows.append(folder / "rows.jsonl", [row | {"status": "ok"} if row["kind"] == "curve" else row for row in again])
    payload = data.payload([load(folder)], [])
    assert len(payload["curves"]) == len(LEARNERS) * 3
    assert payload["contrasts"]["n"] == len(LEARNERS) * (len(LEARNERS) - 1) // 2
    page = build([folder]).read_text(encoding="utf-8")
    assert json.dumps(payload["curves"][0]["evaluated"], separators=(",", ":")) in page
