"""Why is the pruned model as large and as slow as before?"""

from __future__ import annotations

from typing import Any

import pytest
from _asked import answer, evidence, raced

from bancada.questions.pruning import PRUNED

KIND = dict.fromkeys(("zeros", "mask", "csr", "sliced"), "magnitude")
ZEROS_S, ZEROS_BYTES = 2e-3, 2 * 384 * 1536 * 4
Forms = dict[str, tuple[float, float]]


def pruned(forms: Forms, *, keep: float = 0.5, **zeros: Any) -> list[Any]:
    """By form: its time and its bytes, both over those of zeros in plain layers."""
    axes = {"features": 384, "hidden": 1536, "pattern": "neurons", "keep": keep, "dtype": "fp32"}
    every = {"zeros": (1.0, 1.0), **forms}
    fields: dict[str, dict[str, Any]] = {one: {"measure.bytes": ZEROS_BYTES * size} for one, (_, size) in every.items()}
    fields["zeros"] |= {"measure.zipped_bytes": 0.6 * ZEROS_BYTES} | zeros
    times = {one: ZEROS_S * time for one, (time, _) in every.items()}
    return raced("compression.pruned", axes, times, KIND, reference="zeros", ours=["mask"], fields=fields)


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


@pytest.mark.parametrize("form", [(0.4, 1.0), (1.0, 0.5), (0.98, 0.5)], ids=["as large", "as slow", "nothing shown"])
def test_smaller_alone_or_faster_alone_is_not_saving(form: tuple[float, float]) -> None:
    found = answer(PRUNED, pruned({"sliced": form}))
    assert found.sentence.startswith("No form here is both smaller and faster than zeros: sliced ")
    assert "leaves out the products" not in found.why and "costs bytes of its own" not in found.why


def test_each_form_is_told_where_it_does_best_with_its_own_rows() -> None:
    rows = pruned({"csr": (2.5, 1.5)}, keep=0.5) + pruned({"csr": (0.5, 0.2)}, keep=0.02)
    found = answer(PRUNED, rows)
    assert "csr 0.50x" in found.sentence and "2.50x" not in found.sentence
    assert found.turns == "csr: saves with 2% of the weights kept, not yet with 50%" and not found.open
    assert found.chart is not None
    named = {row["row_id"]: row for row in rows if row["kind"] == "cell"}
    assert {(named[point.row]["contender"], named[point.row]["axis.keep"]) for point in found.chart.points} == {
        ("csr", 0.02), ("zeros", 0.02),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("few", "turns"), [((3.0, 0.2), "saves nowhere, from 2% to 50%"), ((0.3, 0.2), "saves all the way from 2% to 50%")]
)
def test_where_it_turns(few: tuple[float, float], turns: str) -> None:
    many = (2.5, 1.5) if few[0] > 1 else (0.5, 0.9)
    found = answer(PRUNED, pruned({"csr": many}, keep=0.5) + pruned({"csr": few}, keep=0.02))
    assert found.turns == f"csr: {turns} of the weights kept"


def test_bytes_that_are_not_the_whole_block_s_are_not_told_as_such() -> None:
    found = answer(PRUNED, pruned({"sliced": (0.4, 0.5)}, **{"measure.bytes": 0.7 * ZEROS_BYTES}))
    assert "as if nothing were" not in found.why


def test_no_sentence_without_the_zeros_or_without_bytes() -> None:
    rows = pruned({"mask": (1.5, 1.25)})
    alone = [row for row in rows if row.get("contender") != "zeros" and row["kind"] == "cell"]
    assert PRUNED.put(evidence(alone)) is None
    bare = [{name: value for name, value in row.items() if name != "measure.bytes"} for row in rows]
    assert PRUNED.put(evidence(bare)) is None
