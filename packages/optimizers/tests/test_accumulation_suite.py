"""`optimizers.accumulation`: what each rule's gradient is off by, and what no rule may be."""

from __future__ import annotations

from typing import Any

import pytest

from bancada.accuracy import fields, judge
from bancada_optimizers._suites import accumulation

SUITE = accumulation.suite()


def judged(lengths: str, contender: str, times: float = 1.0) -> tuple[dict[str, float], str]:
    case = SUITE.case(lengths=lengths, micro_batches=4, tokens=16, width=16, dtype="fp64")
    given = SUITE.inputs(case, "cpu", 0)
    answer = SUITE.oracle(case, given)
    found: Any = SUITE.contender(contender).build(case, given)()
    said = judge({name: times * value for name, value in found.items()}, answer, SUITE.tolerance(case, given, answer))
    return fields(said), said.wrong


@pytest.mark.parametrize("lengths", ["equal", "unequal"])
def test_by_token_is_the_whole_batch_whatever_the_lengths(lengths: str) -> None:
    """transformers 34191."""
    found, wrong = judged(lengths, "accumulate")
    assert found["grad_error_rel"] < 1e-12 and not wrong


def test_a_mean_of_means_is_another_gradient_where_lengths_differ() -> None:
    found, wrong = judged("unequal", "mean-of-means")
    assert found["grad_error_rel"] > 0.1 and not wrong  # a figure, and no failure
    assert judged("equal", "mean-of-means")[0]["grad_error_rel"] < 1e-12
    assert "is off by" in judged("unequal", "accumulate", times=20.0)[1]


def test_lengths_and_work_by_hand() -> None:
    assert accumulation.lengths(SUITE.case(tokens=8, micro_batches=5)) == [8, 4, 2, 1, 1]
    assert accumulation.lengths(SUITE.case(tokens=8, micro_batches=2, lengths="equal")) == [8, 8]
    work = SUITE.work(SUITE.case(micro_batches=2, tokens=3, width=4, dtype="bf16"))
    assert work.flops == 6 * 6 * (16 + 256 * 4) and work.bytes == 2 * (6 * 4 + 2 * (16 + 1024))
