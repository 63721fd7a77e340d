"""What training runs and ranks say: the sentence turns with the rows, and says nothing that they do not hold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from _synthetic_kinds import LEARNERS, QUALITY, RANKS, TRAINING, Effects, write

from bancada import rows
from bancada.report import build, data
from bancada.report.load import load
from bancada.verdicts import Verdict, verdicts


def said(tmp_path: Path, effects: Effects) -> dict[str, Verdict]:
    run = load(write(tmp_path / "run", effects))
    return {verdict.suite: verdict for verdict in verdicts(run.rows, run.plan, run.catalogue)}


def test_a_tie_with_a_peer_is_called_a_tie_and_priced(tmp_path: Path) -> None:
    verdict = said(tmp_path, Effects())[TRAINING]
    assert verdict.kind == "tie" and not verdict.clear and verdict.ours == "muon"
    assert verdict.headline == "Best loss: Muon or torch Muon (level)"
    assert "better than torch AdamW, fused (1.38x its time an update)" in verdict.sentence
    assert "level with torch Muon" in verdict.sentence
    assert "Updates to the target: 100 updates (torch AdamW, fused: 1" in verdict.sentence


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
    assert verdict.headline == "One result on 2 and 4 ranks"
    assert "the largest difference is 3.0e-07 of a tensor's norm" in verdict.sentence
    assert "ZeRO, stage 3 keeps the least model state, 3.05 MiB on the fullest rank" in verdict.sentence
    assert "sends 1.50x its bytes a step" in verdict.sentence
    assert "ZeRO, stage 3 1.09x" in verdict.sentence and "say nothing of scaling" in verdict.sentence


def test_a_wrong_answer_on_ranks_is_named_first(tmp_path: Path) -> None:
    verdict = said(tmp_path, Effects(wrong=("zero-1",)))[RANKS]
    assert "ZeRO, stage 1" in verdict.headline and "Wrong: ZeRO, stage 1." in verdict.sentence
    assert "4 contenders leave" in verdict.sentence


@pytest.mark.parametrize(("factor", "kind"), [(0.7, "win"), (2.0, "peer wins")])
def test_the_badge_of_ranks_follows_the_step_times(tmp_path: Path, factor: float, kind: str) -> None:
    assert said(tmp_path, Effects(step={"zero-3": factor, "data-parallel": factor}))[RANKS].kind == kind


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
