"""Why is the pruned model as large and as slow as before?"""

from __future__ import annotations

from typing import Any

import pytest
from _asked import answer, evidence, raced

from bancada.questions.pruning import PRUNED

KIND = dict.fromkeys(("zeros", "mask", "csr", "sliced"), "magnitude")
ZEROS_S, ZEROS_BYTES = 2e-3, 2 * 384 * 1536 * 4
Forms = dict[str, tuple[float, float]]


def pruned(forms: Forms, *, keep: float = 0.5, noise: float = 0.02, of: Any = (), **zeros: Any) -> list[Any]:
    """By form: its time and its bytes, both over those of zeros in plain layers; `of`: other values of axes."""
    axes = {"features": 384, "hidden": 1536, "pattern": "neurons", "keep": keep, "dtype": "fp32"} | dict(of)
    every = {"zeros": (1.0, 1.0), **forms}
    fields: dict[str, dict[str, Any]] = {one: {"measure.bytes": ZEROS_BYTES * size} for one, (_, size) in every.items()}
    fields["zeros"] |= {"measure.zipped_bytes": 0.6 * ZEROS_BYTES} | zeros
    times = {one: ZEROS_S * time for one, (time, _) in every.items()}
    return raced("compression.pruned", axes, times, KIND, reference="zeros", ours=["mask"], noise=noise,
                 fields=fields)  # fmt: skip


def test_what_is_cut_out_saves_and_what_is_masked_does_not() -> None:
    found = answer(PRUNED, pruned({"mask": (1.5, 1.25), "sliced": (0.4, 0.5)}))
    assert found.sentence == (
        "Because zeros are stored and multiplied like any number. What saves is another form: sliced 0.40x "
        "[0.39, 0.41] the time and 50% of the bytes of zeros. The rest do not: mask 1.50x [1.47, 1.53] and 1.25x."
    )
    assert found.why == (
        "With 50% of the neurons gone, zeros in place of them still take 4.5 MiB, as if nothing were, and only zipped "
        "are they less (2.7 MiB); sliced holds 2.25 MiB and leaves out the products as well; what says where the zeros "
        "are costs bytes of its own: mask keeps 5.62 MiB."
    )
    assert found.open.endswith("only 50% of them were kept here.")


@pytest.mark.parametrize("form", [(0.4, 1.0), (1.0, 0.5)], ids=["as large", "as slow"])
def test_smaller_alone_or_faster_alone_is_not_saving(form: tuple[float, float]) -> None:
    found = answer(PRUNED, pruned({"sliced": form}))
    assert found.sentence.startswith("No form here is both smaller and faster than zeros: sliced ")
    assert "leaves out the products" not in found.why and "costs bytes of its own" not in found.why


def test_what_is_smaller_and_not_told_apart_in_time_is_not_shown_to_save() -> None:
    sliced = pruned({"sliced": (0.98, 0.5)}, noise=0.2)
    assert "No form here is shown to be both smaller and faster than zeros: sliced" in answer(PRUNED, sliced).sentence
    rows = [*sliced, *pruned({"csr": (0.4, 0.5)}, keep=0.1)]
    assert ". The rest are not shown to: sliced (keep 0.5) 0.98x" in answer(PRUNED, rows).sentence
    assert "shown to be" in answer(PRUNED, [*sliced, *pruned({"csr": (2.0, 1.5)}, keep=0.1)]).sentence
    few = pruned({"sliced": (0.4, 0.1)}, keep=0.1)
    turns = "sliced: saves with 10%, is not decided with 50% of the weights kept"
    assert answer(PRUNED, [*sliced, *few]).turns == turns


def test_each_form_is_told_where_it_does_best_with_its_case_and_its_own_rows() -> None:
    rows = pruned({"mask": (1.2, 1.25), "csr": (2.5, 1.5)}, keep=0.5) + pruned({"csr": (0.5, 0.2)}, keep=0.02)
    found = answer(PRUNED, rows)
    assert found.sentence.endswith(
        "another form: csr (keep 0.02) 0.50x [0.49, 0.51] the time and 20% of the bytes of zeros. "
        "The rest do not: mask (keep 0.5) 1.20x [1.18, 1.22] and 1.25x."
    )
    assert found.turns == "csr: saves with 2%, saves nothing with 50% of the weights kept" and not found.open
    named = {row["row_id"]: row for row in rows if row["kind"] == "cell"}
    assert found.chart is not None
    drawn = {(named[one.row]["contender"], named[one.row]["axis.keep"]): (one.x, one.y) for one in found.chart.points}
    assert drawn == {("csr", 0.02): (0.2, 0.5), ("mask", 0.5): (1.25, 1.2), ("zeros", 0.02): (1, 1)}
    assert (found.chart.unit, found.chart.x_unit, found.chart.axis) == ("x", "x", "bytes against those of zeros")
    assert {(named[row]["contender"], named[row]["axis.keep"]) for row in found.rows} == {
        ("mask", 0.5), ("csr", 0.5), ("zeros", 0.5), ("csr", 0.02), ("zeros", 0.02)
    }  # fmt: skip


@pytest.mark.parametrize(
    ("few", "many", "turns"),
    [((3.0, 0.2), (2.5, 1.5), "saves nothing with 2% and 50%"), ((0.3, 0.2), (0.5, 0.9), "saves with 2% and 50%"),
     ((3.0, 0.2), (0.5, 0.9), "saves with 50%, saves nothing with 2%")],
)  # fmt: skip
def test_where_it_saves_and_where_not(few: tuple[float, float], many: tuple[float, float], turns: str) -> None:
    found = answer(PRUNED, pruned({"csr": many}, keep=0.5) + pruned({"csr": few}, keep=0.02))
    assert found.turns == f"csr: {turns} of the weights kept"


def test_where_it_saves_is_told_of_the_pattern_with_most_shares_by_name() -> None:
    once = pruned({"csr": (2.0, 1.5)}, keep=0.5, of={"pattern": "neurons"})
    twice = [row for keep in (0.02, 0.5) for row in pruned({"csr": (0.5, 0.2)}, keep=keep, of={"pattern": "matrix"})]
    found = answer(PRUNED, once + twice)
    assert found.turns == "csr (pattern matrix): saves with 2% and 50% of the weights kept"
    assert "With 98% of the weights gone" in found.why
    bare = [{name: value for name, value in row.items() if name != "measure.bytes"} for row in twice]
    assert answer(PRUNED, once + bare).turns == ""


def test_no_form_saves_the_fastest_of_them_is_explained() -> None:
    found = answer(PRUNED, pruned({"mask": (1.5, 1.25), "csr": (1.2, 2.0), "sliced": (1.1, 1.5)}))
    assert found.sentence == (
        "No form here is both smaller and faster than zeros: sliced 1.10x [1.08, 1.12] the time and 1.50x the bytes "
        "of zeros, csr 1.20x [1.18, 1.22] and 2.0x, mask 1.50x [1.47, 1.53] and 1.25x."
    )
    assert found.why.endswith("costs bytes of its own: csr keeps 9 MiB.")


def test_zeros_that_zip_to_as_much_are_not_said_to_zip() -> None:
    for zipped in (ZEROS_BYTES, 0.0):
        assert "zipped" not in answer(PRUNED, pruned({"csr": (2, 1.5)}, **{"measure.zipped_bytes": zipped})).why


def test_of_several_that_save_the_fastest_is_explained() -> None:
    found = answer(PRUNED, pruned({"csr": (0.8, 0.9), "sliced": (0.4, 0.5)}))
    assert "sliced 0.40x [0.39, 0.41] the time and 50% of the bytes of zeros, csr 0.80x" in found.sentence
    assert "sliced holds 2.25 MiB" in found.why and "The rest" not in found.sentence


def test_half_precision_takes_half_the_bytes_and_what_is_not_known_is_not_told_as_whole() -> None:
    half = {"measure.bytes": 0.5 * ZEROS_BYTES}
    assert (
        "zeros in place of them still take 2.25 MiB"
        in answer(PRUNED, pruned({"csr": (2.0, 0.9)}, of={"dtype": "bf16"}, **half)).why
    )
    found = answer(PRUNED, pruned({"csr": (2.0, 0.9)}, of={"dtype": "fp16", "pattern": "blocks"}, **half))
    assert found.why == "What says where the zeros are costs bytes of its own: csr keeps 4.05 MiB."
    assert "50% of the weights gone" in answer(PRUNED, pruned({"csr": (2.0, 0.9)}, of={"pattern": "blocks"})).why


def test_bytes_that_are_not_the_whole_block_s_are_not_told_as_such() -> None:
    found = answer(PRUNED, pruned({"sliced": (0.4, 0.5)}, **{"measure.bytes": 0.7 * ZEROS_BYTES}))
    assert "as if nothing were" not in found.why


def test_no_sentence_without_the_zeros_or_without_bytes() -> None:
    rows = pruned({"mask": (1.5, 1.25)})
    alone = [row for row in rows if row.get("contender") != "zeros" and row["kind"] == "cell"]
    assert PRUNED.put(evidence(alone)) is None
    for lost in ("measure.bytes", "axis.keep"):
        bare = [{name: value for name, value in row.items() if name != lost} for row in rows]
        assert PRUNED.put(evidence(bare)) is None
