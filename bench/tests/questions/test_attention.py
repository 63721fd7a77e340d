"""Is flash attention exact, and slow on short sequences?"""

from __future__ import annotations

from typing import Any

import pytest
from _asked import answer, evidence, raced

from bancada.questions.attention import FLASH

SUITE = "attention.forward"
KIND = {"torch-eager": "exact-attention", "flash-tiled": "flash-attention", "torch-sdpa": "flash-attention"}
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
    assert found.sentence.endswith("; at 2,048 tokens flash-tiled is 10.0x [9.8, 10.2] faster than torch-eager.")
    assert found.turns == "between 128 tokens and 512 tokens"
    assert found.why == (
        "The sums are the same, the matrix of scores is not kept: at 2,048 tokens torch-eager holds 256 MiB, "
        "flash-tiled 8 MiB (3% of it); at 128 tokens torch-eager holds 1 MiB, flash-tiled 512 KiB (50% of it)."
    )
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
        "Yes, on short ones" in found.sentence and found.turns == "nowhere: flash-tiled is faster at no size measured"
    )
    found = answer(FLASH, lengths({128: 1.5, 512: 0.5, 2048: 1.2}))
    assert found.turns == "flash-tiled is faster at 512 tokens, not at 128 tokens and 2,048 tokens"
    found = answer(FLASH, lengths({128: 0.5, 512: 1.5, 2048: 0.5}))
    assert found.turns == "flash-tiled is faster at 128 tokens and 2,048 tokens, not at 512 tokens"


def test_faster_everywhere_is_not_said_of_sizes_where_nothing_is_decided() -> None:
    rows = [*lengths({128: 0.98}, noise=0.2), *lengths({512: 0.5, 2048: 0.1})]
    assert answer(FLASH, rows).turns == "nowhere: flash-tiled is faster at every size at which it is decided"
    rows = [*lengths({128: 0.98}, noise=0.2), *lengths({512: 1.5, 2048: 1.1})]
    assert answer(FLASH, rows).turns == "nowhere: flash-tiled is faster at no size at which it is decided"
    assert answer(FLASH, lengths({128: 0.98}, noise=0.2)).turns == "not decided at any size measured"


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


def test_what_holds_no_fewer_bytes_is_not_said_to_and_one_length_is_told_once() -> None:
    rows = lengths({128: 1.5})
    assert answer(FLASH, rows).why.endswith(
        "kept: at 128 tokens torch-eager holds 1 MiB, flash-tiled 512 KiB (50% of it)."
    )
    rows[1]["peak_bytes"] = 2**20
    assert answer(FLASH, rows).why == (
        "The sums are the same, and no fewer bytes are held: at 128 tokens torch-eager holds 1 MiB, flash-tiled 1 MiB "
        "(100% of it)."
    )
    del rows[1]["peak_bytes"]
    assert answer(FLASH, rows).why.startswith("The peak memory of these calls was not measured")


@pytest.mark.parametrize(
    ("error", "said"),
    [(1.99e-6, "As exact as torch-eager: at most 1.99x its error against float64 in 2 cases"),
     (2e-6, "As exact as torch-eager: at most 2.0x its"), (2.01e-6, "Less exact than"),
     (5e-7, "As exact as torch-eager: at most 50% of its error")],
)  # fmt: skip
def test_an_error_of_twice_the_plain_one_is_still_rounding(error: float, said: str) -> None:
    assert answer(FLASH, lengths({128: 1.5, 512: 0.5}, error=error)).sentence.startswith(said)


def test_the_worst_of_all_errors_is_told_and_rows_without_any_are_not_judged() -> None:
    rows = lengths({128: 1.5}, error=1e-6) + lengths({512: 0.5}, error=1.5e-6)
    assert (
        "at most 1.50x its error against float64 in 2 cases (1.5e-06 against 1.0e-06 at seq_len512"
        in answer(FLASH, rows).sentence
    )
    for who, value in (("flash-tiled", None), ("torch-eager", None), ("torch-eager", 0.0)):
        kept = [
            {name: one for name, one in row.items() if row.get("contender") != who or name != "error_max"}
            for row in rows
        ]
        if value is not None:
            kept = [row | {"error_max": value} if row.get("contender") == who else row for row in kept]
        assert answer(FLASH, kept).sentence.startswith(
            "These rows hold no error of both to set it beside torch-eager's."
        )


def test_the_worst_error_is_that_of_the_largest_share_not_the_largest_figure() -> None:
    rows = lengths({128: 1.5}, error=1.5e-6) + lengths({512: 0.5}, error=5e-6)
    for row in rows:
        if row.get("contender") == "torch-eager" and row["axis.seq_len"] == 512:
            row["error_max"] = 1e-5
    assert "at most 1.50x its error against float64 in 2 cases (1.5e-06 against 1.0e-06" in answer(FLASH, rows).sentence
    for row in rows:
        if row.get("contender") == "flash-tiled":
            row |= {"status": "incorrect", "reason": "off by 1"}
    cells = [row for row in rows if row["kind"] == "cell"] + lengths({2048: 0.1})
    assert answer(FLASH, cells).sentence.startswith("Not exact here: flash-tiled was incorrect in 2 cases (seq_len128-")


def test_the_fastest_of_ours_stands_for_flash_a_peer_where_there_is_none_and_the_fastest_peer_is_drawn_beside_it() -> (
    None
):
    times = {"torch-eager": 1.0, "slow": 0.9, "flash-tiled": 0.5, "torch-sdpa": 0.3, "peer": 0.2, "broken": 0.1}
    kinds = KIND | dict.fromkeys(("slow", "peer", "broken"), "flash-attention")
    for ours, mine, drawn in ((["flash-tiled", "slow"], "flash-tiled", 2), ([], "peer", 2)):
        rows = raced(SUITE, {"seq_len": 128}, times, kinds, reference="torch-eager", ours=ours)
        for row in rows:
            row |= {"status": "incorrect", "reason": "off by 1"} if row.get("contender") == "broken" else {}
        found = answer(FLASH, [row for row in rows if "broken" not in (row.get("a"), row.get("b"))])
        assert f"at 128 tokens {mine} is" in found.sentence
        assert found.chart is not None and len(found.chart.points) == drawn and found.chart.axis == "seq_len"
        assert [point.x for point in found.chart.points] == [128] * drawn and found.chart.unit == "x"
        others = {row.split("/")[2] for row in found.rows}
        assert others == ({"torch-eager", "flash-tiled", "peer"} if ours else {"torch-eager", "peer", "torch-sdpa"})


def test_the_line_with_most_lengths_is_told_with_what_tells_it_from_the_others() -> None:
    rows = lengths({128: 1.5, 512: 0.5})
    for row in (half := lengths({128: 0.5})):
        row["case"] = "half"
        if row["kind"] == "cell":
            row |= {"axis.dtype": "bf16", "row_id": f"half/half/{row['contender']}"}
    found = answer(FLASH, rows + half)
    assert "Yes, on short ones (fp32): at 128 tokens flash-tiled is 1.50x" in found.sentence and len(found.rows) == 9
    assert FLASH.put(evidence([row for row in rows if row.get("contender") != "torch-eager"])) is None
    assert FLASH.put(evidence([row for row in rows if row.get("technique") != "flash-attention"])) is None
