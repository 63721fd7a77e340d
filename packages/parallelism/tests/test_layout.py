"""Layouts: impossible ones are refused on every rank before a collective."""

from __future__ import annotations

import jobs_collectives as jobs
import pytest
from parallel_pool import Pool

from bancada_parallelism import Layout


def test_ranks_stand_where_the_formula_puts_them() -> None:
    plan = Layout(pipeline=2, data=3, tensor=4)
    assert plan.ranks == 24
    assert plan.coordinates(0) == {"pipeline": 0, "data": 0, "tensor": 0}
    assert plan.coordinates((1 * 3 + 2) * 4 + 3) == {"pipeline": 1, "data": 2, "tensor": 3}


def test_groups_join_the_ranks_of_one_axis(four_ranks: Pool) -> None:
    found = four_ranks.run(jobs.layout, {"data": 2, "tensor": 2})
    assert [text.rsplit(" ", 1)[1] for text, _ in found] == ["1", "1", "5", "5"]


@pytest.mark.parametrize("wanted", [{"data": 3}, {"tensor": 2, "data": 2}, {"pipeline": 0}, {"tensor": -2}, {}])
def test_an_impossible_layout_is_refused_on_every_rank(two_ranks: Pool, wanted: dict[str, int]) -> None:
    for message, collectives in two_ranks.run(jobs.layout, wanted):
        assert collectives == 0
        if all(size > 0 for size in wanted.values()):
            assert "there are 2" in message
        else:
            assert "must be a whole number of at least 1" in message


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"heads": 6}, "heads=6.*multiple of 4"),
        ({"hidden": 30}, "hidden=30.*multiple of 4"),
        ({"kv_heads": 2}, "kv_heads=2.*multiple of 4"),
        ({"ffn": 10}, "ffn=10.*multiple of 4"),
        ({"batch": 3}, "batch=3.*multiple of 2"),
        ({"layers": 2}, "layers=2.*at least 3"),
        ({"heads": 0}, "heads=0.*at least 1"),
    ],
)
def test_sizes_that_do_not_divide_pt150336_transformers37051(sizes: dict[str, int], message: str) -> None:
    plan = Layout(pipeline=3, data=2, tensor=4)
    plan.check_model(hidden=32, heads=8, kv_heads=4, ffn=64, layers=3, batch=4)
    with pytest.raises(ValueError, match=message):
        plan.check_model(**sizes)


def test_a_plan_has_no_groups() -> None:
    with pytest.raises(RuntimeError, match="over_ranks"):
        Layout(data=2).group("data")
    with pytest.raises(ValueError, match=r"axis='expert'.*pipeline, data, tensor"):
        Layout(data=2).group("expert")
    with pytest.raises(RuntimeError, match="init_process_group"):
        Layout.over_ranks(data=2)
