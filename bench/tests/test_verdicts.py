"""What the rows say, in sentences: they must turn when the data turns."""

from __future__ import annotations

import json
import subprocess
import sys

import _synthetic as made
import pytest
from _judged import NARROW, judge, rules

from bancada.verdicts import Verdict, as_text, verdicts
from bancada.verdicts.comparisons import suites
from bancada.verdicts.figures import say_bytes


def test_a_peer_that_is_faster_everywhere_wins_and_the_card_says_that_nothing_of_ours_does() -> None:
    verdict = judge()
    assert verdict.kind == "peer wins" and verdict.clear
    assert verdict.headline == "Fastest: torch SDPA"
    assert verdict.sentence.startswith("At every size measured (128 to 8,192 tokens), flash (tiled) is ")
    assert "torch SDPA is still" in verdict.sentence and verdict.sentence.endswith("Nothing of ours is fastest here.")


def test_the_same_rows_with_ours_faster_turn_the_sentence() -> None:
    verdict = judge(speed={"flash-tiled": 0.1})
    assert verdict.kind == "win" and verdict.clear
    assert verdict.headline == "Fastest: flash (tiled)"
    assert "faster than torch SDPA, the fastest peer" in verdict.sentence
    assert "Nothing of ours" not in verdict.sentence


def test_a_crossover_is_told_with_the_size_where_it_happens() -> None:
    verdict = judge(speed={"flash-tiled": 0.55})
    assert verdict.kind == "win"
    assert verdict.headline == "Fastest: at 128 tokens, torch SDPA; at 256 tokens and more, flash (tiled)"


def test_ours_slower_than_the_reference_is_said_to_be_slower() -> None:
    verdict = judge(speed={"flash-tiled": 12.0, "flex": 30.0})
    assert verdict.kind == "peer wins"
    assert "slower than eager attention" in verdict.sentence and "faster than eager" not in verdict.sentence


def test_below_the_region_where_ours_leads_the_sentence_says_who_does() -> None:
    verdict = judge(speed={"flash-tiled": 2.6})
    assert verdict.sentence.startswith("At 256 tokens and more, flash (tiled) is ")
    assert "Below that, eager attention is" in verdict.sentence


def test_a_tie_is_called_a_tie() -> None:
    sdpa = next(c for c in made.CONTENDERS if c.id == "torch-sdpa")
    twin = made.Made("flash-tiled", "flash (tiled)", "bancada", "flash", sdpa.overhead, sdpa.rate)
    eager = made.CONTENDERS[0]
    verdict = judge(contenders=(eager, twin, sdpa), noise=0.05)
    assert verdict.kind == "tie" and not verdict.clear
    assert verdict.headline == "Fastest: flash (tiled) or torch SDPA (level)"
    assert "torch SDPA is level with it (too close to call)" in verdict.sentence


def too_close(ratio: float, low: float, high: float, lengths: list[int], who: str = "flash-tiled") -> Verdict:
    """The verdict where the rounds between `who` (anybody, where empty) and any other gave this interval."""
    recipe = made.Recipe(grid=NARROW | {"seq_len": lengths}, suites=("attention.forward",), failures=False)
    rows = list(made.make_rows(recipe))
    for row in rows:
        if row["kind"] == "pair" and who in (row["a"], row["b"], ""):
            turned = (1 / ratio, 1 / high, 1 / low) if row["b"] == who else (ratio, low, high)
            row |= dict(zip(("ratio", "low", "high"), turned, strict=True)) | {"verdict": "too close to call"}
    (found,) = verdicts(rows, made.plan(recipe), made.catalogue(recipe))
    return found


def test_an_interval_too_wide_to_say_anything_is_not_decided_rather_than_level() -> None:
    verdict = too_close(1.65, 0.8, 3.4, [4096])
    assert verdict.kind == "not decided" and not verdict.clear
    assert verdict.headline == "Fastest: flash (tiled) or torch SDPA (not decided)"
    assert "cannot be told from eager attention (not decided: 1.65x [0.80, 3.40] of its time)" in verdict.sentence
    assert "against torch SDPA nothing is decided" in verdict.sentence
    assert verdict.facts[0].value == "not decided"
    assert "level" not in f"{verdict.headline} {verdict.sentence}"


def test_a_narrow_interval_around_equality_is_level() -> None:
    verdict = too_close(1.0, 0.97, 1.03, [4096])
    assert verdict.kind == "tie" and verdict.facts[0].value == "level"
    assert verdict.headline == "Fastest: flash (tiled) or torch SDPA (level)"
    assert "is level with eager attention" in verdict.sentence and "decided" not in verdict.sentence


def test_several_cases_none_of_them_decided() -> None:
    verdict = too_close(1.65, 0.8, 3.4, [1024, 2048, 4096], who="")
    assert verdict.kind == "not decided" and not verdict.clear
    assert verdict.headline == (
        "Fastest: not decided between eager attention; eager, compiled; flash (tiled) and 2 more"
    )
    assert "eager attention (not decided in 3 of 3 cases: " in verdict.sentence
    assert too_close(1.0, 0.99, 1.01, [4096], who="").headline == (
        "Fastest: eager attention; eager, compiled; flash (tiled) and 2 more (level)"
    )


def test_where_some_cases_are_decided_the_others_are_said_not_to_be() -> None:
    lengths = "s512", "s1024", "s2048", "s4096"
    recipe = made.Recipe(grid=NARROW, suites=("attention.forward",), speed={"flash-tiled": 30.0}, failures=False)
    rows = list(made.make_rows(recipe))
    for row in rows:
        if row["kind"] == "pair" and any(length in row["case"] for length in lengths):
            row |= {"ratio": 1.5, "low": 0.9, "high": 2.5, "verdict": "too close to call"}
    found = verdicts([row | {"axis.seq_len": 1} if row["kind"] == "cell" else row for row in rows], {}, {})
    assert "slower than eager attention in 3 of 7 cases and not decided in the others" in found[0].sentence


def test_where_only_ours_were_raced_they_are_compared_with_one_another() -> None:
    second = made.Made("flash-slow", "flash (slow)", "bancada", "flash", 3e-4, 60e9)
    verdict = judge(contenders=(made.CONTENDERS[1], second, made.CONTENDERS[2]))
    assert verdict.kind == "only ours" and verdict.clear
    assert verdict.headline == "Fastest: flash (tiled)"
    assert verdict.sentence.startswith("At every size measured (128 to 8,192 tokens), flash (tiled) is 1.")
    assert "faster than flash (slow)" in verdict.sentence and "nothing to compare" not in verdict.sentence
    assert verdict.sentence.endswith("Only ours were measured here.")
    assert [fact.name for fact in verdict.facts] == ["time", "memory", "error"]


def test_a_reference_never_measured_beside_ours_leaves_the_comparison_to_a_peer() -> None:
    recipe = made.Recipe(grid=NARROW, suites=("attention.forward",), failures=False)
    rows = list(made.make_rows(recipe))
    for row in rows:
        out = "eager" if row.get("axis.seq_len") == 8192 else "flash-tiled"
        if row["kind"] == "cell" and row["contender"] == out:
            row |= {"status": "out_of_memory", "reason": "the limit is 6.00 GiB"}
    (verdict,) = verdicts(rows, made.plan(recipe), made.catalogue(recipe))
    assert verdict.sentence.startswith("At 8,192 tokens, flash (tiled) is ")
    assert "slower than torch SDPA" in verdict.sentence and "FlexAttention, the next peer" in verdict.sentence


def test_rows_that_were_compiled_alone_and_are_in_no_catalogue_are_nothing_to_compare() -> None:
    rows = rules({"adamw": {"loop": 1.0, "my-adamw": 1.0}})
    rows = [{name: value for name, value in row.items() if not name.startswith("time_")} | {"measure.compile_s": 1.0}
            for row in rows if row["kind"] == "cell"]  # fmt: skip
    (verdict,) = verdicts(rows, {}, {})
    assert verdict.kind == "no data" and verdict.headline == "Nothing to compare"


@pytest.mark.parametrize(("slow", "said"), [(True, "is slower than"), (False, "is faster than")])
def test_some_cases_level_and_the_others_not_is_said_so(slow: bool, said: str) -> None:
    recipe = made.Recipe(grid=NARROW, suites=("attention.forward",), speed={"flash-tiled": 30.0 if slow else 0.1})
    rows = list(made.make_rows(recipe))
    for row in rows:
        lengths = ("s512", "s1024", "s2048", "s4096") if slow else ("s512", "s8192", "s2048", "s4096")
        these = row["kind"] == "pair" and {row["a"], row["b"]} == {"flash-tiled", "eager"}
        if these and any(length in row["case"] for length in lengths):
            row |= {"ratio": 1.0, "low": 0.98, "high": 1.02, "verdict": "too close to call"}
    found = verdicts([row | {"axis.seq_len": 1} if row["kind"] == "cell" else row for row in rows], {}, {})
    assert f"{said} eager attention in 3 of 7 cases and level in the others" in found[0].sentence


def test_memory_is_compared_at_the_largest_common_size() -> None:
    rows = {row["row_id"]: row for row in made.make_rows(made.Recipe(grid=NARROW)) if row["kind"] == "cell"}
    ours, reference = (rows[f"attention.forward/b1-h8-s8192-d64-causal-fp32/{i}"] for i in ("flash-tiled", "eager"))
    amounts = [say_bytes(row["peak_bytes"]) for row in (ours, reference)]
    assert f"takes {amounts[0]} beside its inputs at 8,192 tokens in place of {amounts[1]};" in judge().sentence


@pytest.mark.parametrize(
    ("mine", "its", "said"),
    [(12, 3 << 20, "takes 12 B beside its inputs in place of 3 MiB"), (8 << 20, 3 << 20, "needs 2.7x its memory"),
     (1 << 20, 4 << 20, "needs 25% of its memory"), (102, 100, "needs as much memory")],
)  # fmt: skip
def test_memory_is_a_share_where_that_helps_and_two_amounts_where_it_does_not(mine: int, its: int, said: str) -> None:
    recipe = made.Recipe(grid=NARROW | {"seq_len": [4096]}, suites=("attention.forward",), failures=False)
    rows = list(made.make_rows(recipe))
    for row in rows:
        if row["kind"] == "cell":
            row |= {"peak_bytes": mine, "error_max": 0.4} if row["contender"] == "flash-tiled" else {}
            row |= {"peak_bytes": its, "error_max": 1e-6} if row["contender"] == "eager" else {}
    (verdict,) = verdicts(rows, made.plan(recipe), made.catalogue(recipe))
    assert f" and {said};" in verdict.sentence
    assert verdict.facts[2].value == "4.0e-01 in place of 1.0e-06"


def test_one_case_has_no_at_every_size() -> None:
    verdict = judge(grid=NARROW | {"seq_len": [4096]})
    assert verdict.sentence.startswith("At 4,096 tokens, flash (tiled) is 4.")
    assert "geometric mean" not in verdict.sentence and "by case" not in verdict.sentence


def test_a_suite_without_a_measured_cell_gives_its_reasons_and_no_winner() -> None:
    verdict = judge(all_unsupported=("attention.forward",))
    assert verdict.kind == "no data" and not verdict.clear and not verdict.evidence and not verdict.facts
    assert verdict.sentence == (
        "None of the 42 cells could be measured: 42 unsupported (needs a CUDA GPU; this machine has none)."
    )


def test_where_ours_did_not_run_the_others_are_still_judged() -> None:
    verdict = judge(contenders=tuple(c for c in made.CONTENDERS if c.id != "flash-tiled"))
    assert verdict.kind == "peer wins"
    assert verdict.sentence.startswith("Nothing of ours was measured here: 7 unsupported (needs a CUDA GPU")
    assert "Of the others, torch SDPA is 5." in verdict.sentence and "faster than eager attention" in verdict.sentence


def test_one_contender_alone_is_no_comparison() -> None:
    verdict = judge(contenders=made.CONTENDERS[1:2])
    assert verdict.kind == "no data"
    assert verdict.sentence == "Measured: flash (tiled). No case has two contenders to compare."


def test_an_incorrect_contender_gets_no_speed_up() -> None:
    recipe = made.Recipe(grid=NARROW, suites=("attention.forward",), speed={"flash-tiled": 0.1})
    rows = [row for row in made.make_rows(recipe) if row["kind"] != "pair" or "flash-tiled" not in (row["a"], row["b"])]
    for row in rows:
        if row["kind"] == "cell" and row["contender"] == "flash-tiled":
            row |= {"status": "incorrect", "reason": "out: |x - ref| = 9, allowed 1e-5"}
    (verdict,) = verdicts(rows, made.plan(recipe), made.catalogue(recipe))
    assert verdict.kind == "peer wins" and verdict.headline == "Fastest: torch SDPA"
    assert "incorrect (out: |x - ref| = 9, allowed 1e-5)" in verdict.sentence
    (suite,) = suites(rows, {}, {})
    assert all(suite.compare(case, "flash-tiled", "eager") is None for case in suite.cells)


def test_the_evidence_names_the_measured_rows() -> None:
    verdict = judge()
    assert len(verdict.evidence) == 35  # seven lengths, five contenders that ran
    assert "attention.forward/b1-h8-s128-d64-causal-fp32/flash-tiled" in verdict.evidence


def test_without_plan_and_catalogue_the_rows_are_enough() -> None:
    recipe = made.Recipe(grid=NARROW, suites=("attention.forward",))
    (verdict,) = verdicts(list(made.make_rows(recipe)), {}, {})
    assert verdict.headline == "Fastest: torch SDPA"
    assert verdict.sentence.startswith("At every seq_len measured (128 to 8,192), flash (tiled)")


def test_without_pair_rows_two_separate_intervals_decide() -> None:
    recipe = made.Recipe(grid=NARROW, suites=("attention.forward",))
    rows = [row for row in made.make_rows(recipe) if row["kind"] != "pair"]
    (suite,) = suites(rows, {}, {})
    case = next(iter(suite.cells))
    found = suite.compare(case, "torch-sdpa", "eager")
    assert found is not None and found.outcome == "faster" and found.rounds == 0
    first, second = suite.cells[case]["torch-sdpa"], suite.cells[case]["eager"]
    assert found.low == pytest.approx(first["time_low_s"] / second["time_high_s"])
    assert found.high == pytest.approx(first["time_high_s"] / second["time_low_s"])


def test_each_device_gets_a_verdict_of_its_own() -> None:
    slow = list(made.make_rows(made.Recipe(grid=NARROW, suites=("attention.forward",))))
    fast = list(made.make_rows(made.Recipe(grid=NARROW, suites=("attention.forward",), speed={"flash-tiled": 0.1})))
    for row in fast:
        if "device" in row:
            row["device"] = "cuda"
        if "device_name" in row:
            row["device_name"] = "H200"
    found = verdicts(slow + fast, {}, {})
    assert {verdict.device: verdict.kind for verdict in found} == {
        "Intel(R) Xeon(R) 6975P-C": "peer wins",
        "H200": "win",
    }
    assert " on H200 [win]" in as_text(found)


def test_no_rows_no_verdicts() -> None:
    assert verdicts([], {}, {}) == [] and as_text([]) == ""


def test_text_names_title_kind_headline_and_sentence() -> None:
    verdict = judge()
    assert as_text([verdict]) == f"Attention, forward [peer wins]\n  {verdict.headline}\n  {verdict.sentence}"


def test_the_verdicts_need_neither_jinja2_nor_plotly() -> None:
    code = (
        "import sys, json; sys.modules['jinja2'] = sys.modules['plotly'] = None;"
        "import bancada.verdicts, bancada.report;"
        "print(json.dumps(sorted(name for name in sys.modules if name.split('.')[0] in ('torch', 'triton'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert json.loads(done.stdout) == []
