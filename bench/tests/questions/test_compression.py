"""Shouldn't int8 or int4 be faster?"""

from __future__ import annotations

from typing import Any

import pytest
from _asked import answer, evidence, raced

from bancada.questions.compression import QUANTISED

KIND = {"dense": "dense-linear", "int8": "int8", "nf4": "nf4"}
DENSE, SHARE = {1: 1e-4, 256: 4e-3}, {1: 0.1, 256: 0.8}


def products(ratios: dict[int, dict[int, float]], peak: int = 4_194_304, noise: float = 0.02) -> list[Any]:
    """By bits and tokens: the quantised product's time over the dense one's."""
    rows = []
    for bits, by_tokens in ratios.items():
        name = "int8" if bits in (8, 3) else "nf4"
        for tokens, ratio in by_tokens.items():
            fields = {
                "dense": {"measure.bytes": 4_194_304.0, "peak_bytes": 4096 * tokens, "compute_share": SHARE[tokens]},
                name: {"measure.bytes": 4_194_304.0 * bits / 32, "peak_bytes": peak},
            }  # fmt: skip
            times = {"dense": DENSE[tokens], name: DENSE[tokens] * ratio}
            axes = {"tokens": tokens, "out_features": 1024, "bits": bits}
            rows += raced("compression.speed", axes, times, KIND, reference="dense", ours=["int8"], fields=fields,
                          noise=noise)  # fmt: skip
    return rows


def test_faster_at_few_tokens_and_slower_at_many() -> None:
    found = answer(QUANTISED, products({8: {1: 0.5, 256: 1.5}, 4: {1: 0.25, 256: 2.0}}))
    assert found.sentence.startswith("It depends on the tokens and the bits: the fastest with 8 bits, int8, is 2.00x")
    assert "faster than dense at 1 token, and is 1.50x [1.47, 1.53] slower than dense at 256 tokens" in found.sentence
    assert "the fastest with 4 bits, nf4, is 4.0x [3.9, 4.1] faster" in found.sentence
    assert found.turns == (
        "8 bits: faster at 1 token, not faster at 256 tokens; 4 bits: faster at 1 token, not faster at 256 tokens"
    )
    assert (
        "Of the bytes of the dense weights nf4 keeps 12% (512 KiB)" in found.why
        and "10% of this machine's arithmetic at 1 token" in found.why
    )
    assert "as much as the whole dense weight: the weights are unpacked" in found.why
    assert found.chart is not None and {point.label for point in found.chart.points} == {"int8, 8 bits", "nf4, 4 bits"}


def turned(start: str, turns: str, *products_: Any) -> None:
    found = answer(QUANTISED, [row for rows in products_ for row in rows])
    assert found.sentence.startswith(start) and found.turns == turns


def test_always_and_never_faster_level_and_not_decided() -> None:
    sizes = "at 1 token and 256 tokens"
    turned("Not here: ", f"8 bits: not faster {sizes}", products({8: {1: 3.0, 256: 1.5}}))
    turned("Not here: ", f"8 bits: not faster {sizes}", products({8: {1: 1.0, 256: 1.0}}))
    turned("Yes, here: ", f"8 bits: faster {sizes}", products({8: {1: 0.5, 256: 0.9}}))
    turned("It depends on the tokens and the bits: ", "8 bits: faster at 256 tokens, not faster at 1 token",
           products({8: {1: 1.5, 256: 0.5}}))  # fmt: skip
    open_ = products({8: {256: 1.0}}, noise=0.3)
    turned("Yes, where it is decided: ", "8 bits: faster at 1 token, not decided at 256 tokens",
           products({8: {1: 0.5}}), open_)  # fmt: skip
    turned("Not shown here: ", "8 bits: not faster at 1 token, not decided at 256 tokens",
           products({8: {1: 1.5}}), open_)  # fmt: skip
    turned("It depends on the tokens and the bits: ", "8 bits: not faster at 1 token; 4 bits: faster at 1 token",
           products({8: {1: 1.5}, 4: {1: 0.5}}))  # fmt: skip


def test_one_size_is_told_once_and_other_bits_where_neither_8_nor_4_were_measured() -> None:
    found = answer(QUANTISED, products({8: {1: 0.5}}))
    assert (
        found.sentence
        == "Yes, here: the fastest with 8 bits, int8, is 2.00x [1.96, 2.04] faster than dense at 1 token."
    )
    assert found.turns == "8 bits: faster at 1 token" and "arithmetic" not in found.why
    assert answer(QUANTISED, products({8: {1: 0.5}, 3: {1: 0.9}})).turns == "8 bits: faster at 1 token"
    assert answer(QUANTISED, products({3: {1: 0.9}, 2: {1: 1.9}})).turns == (
        "3 bits: faster at 1 token; 2 bits: not faster at 1 token"
    )


@pytest.mark.parametrize(
    ("peak", "said"),
    [(3_900_000, "3.72 MiB beside its inputs: the weights are never unpacked whole"),
     (4_194_304, "4 MiB beside its inputs, as much as the whole dense weight: the weights are unpacked before"),
     (5_000_000, "4.77 MiB beside its inputs, 1.19x the whole dense weight: the weights are unpacked before"),
     (9_000_000, "8.58 MiB beside its inputs, 2.1x the whole dense weight: the weights are unpacked before"),
     (40_000, "39.1 KiB beside its inputs: the weights are never unpacked whole"), (0, "")],
)  # fmt: skip
def test_who_unpacks_the_weights_is_told_by_what_a_call_holds(peak: int, said: str) -> None:
    why = answer(QUANTISED, products({8: {1: 1.5, 256: 1.5}}, peak=peak)).why
    assert (f"a call holds {said}" if said else "help less.") in why and why.count("a call holds") == bool(said)


def test_what_the_dense_product_holds_too_is_no_copy_of_the_weights() -> None:
    assert "never unpacked whole" in answer(QUANTISED, products({8: {256: 1.5}}, peak=4_900_000)).why
    rows = products({8: {256: 1.5}}, peak=4_900_000)
    for row in rows:
        row.pop("measure.bytes", None)
    assert answer(QUANTISED, rows).why == ""


def test_the_shape_with_most_tokens_is_told_and_no_size_without_the_dense_product() -> None:
    other = raced("compression.speed", {"tokens": 1, "out_features": 64, "bits": 8}, {"dense": 1.0, "int8": 0.1}, KIND,
                  reference="dense")  # fmt: skip
    alone = raced(
        "compression.speed", {"tokens": 1, "out_features": 1024, "bits": 8}, {"int8": 0.1}, KIND, reference="dense"
    )
    rows = products({8: {256: 1.5}})
    assert answer(QUANTISED, other + products({8: {1: 0.5, 256: 1.5}})).turns == (
        "8 bits: faster at 1 token, not faster at 256 tokens"
    )
    assert answer(QUANTISED, alone + rows).turns == "8 bits: not faster at 256 tokens"


def test_arithmetic_is_a_reason_only_where_more_tokens_use_more_of_it() -> None:
    rows = products({8: {1: 0.5, 256: 1.5}})
    assert (
        "10% of this machine's arithmetic at 1 token, where fewer bytes can help, and 80% at"
        in answer(QUANTISED, rows).why
    )
    for row in rows:
        row |= {"compute_share": 0.5} if "compute_share" in row else {}
    assert "arithmetic" not in answer(QUANTISED, rows).why
    bare = [{name: value for name, value in row.items() if "bytes" not in name} for row in rows]
    assert answer(QUANTISED, bare).why == ""


def test_who_is_fastest_at_the_fewest_tokens_stands_for_its_bits_and_another_dense_one_does_not() -> None:
    rows = products({8: {1: 0.5, 256: 1.5}})
    more = {"dense": DENSE[1], "int8": DENSE[1] * 0.5, "nf4": DENSE[1] * 0.3, "other": DENSE[1] * 0.1}
    axes = {"tokens": 1, "out_features": 1024, "bits": 8}
    few = raced("compression.speed", axes, more, KIND | {"other": "dense-linear"}, reference="dense", ours=["int8"])
    found = answer(QUANTISED, [*few, *(row for row in rows if row["case"] != few[0]["case"])])
    assert found.sentence == "Yes, here: the fastest with 8 bits, nf4, is 3.3x [3.3, 3.4] faster than dense at 1 token."
    assert QUANTISED.put(evidence([row for row in few if row.get("contender") in ("dense", "other")])) is None
