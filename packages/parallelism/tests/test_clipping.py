"""The global norm over layouts: one process's, each element once, however the batch is cut."""

from __future__ import annotations

import functools

import jobs_hybrid as jobs
import pytest
import torch
from parallel_pool import Pool, check_same

from bancada_parallelism import Layout, clip_grad_norm, cut_parameters

MAX_NORM = 0.25
one_process = functools.cache(jobs.one_process)


def check(pool: Pool, sizes: dict[str, int], micro_batches: int) -> None:
    right, norm = one_process(sizes.get("data", 1))
    assert norm > 2 * MAX_NORM, "nothing is clipped"
    seen: set[str] = set()
    axes = sum(sizes.get(axis, 1) > 1 for axis in ("tensor", "pipeline"))
    for found, after, gradients, calls, message, kept in pool.run(jobs.norm_and_clip, sizes, micro_batches, MAX_NORM):
        assert found == pytest.approx(norm, rel=1e-12)
        assert after == pytest.approx(MAX_NORM, rel=1e-12)
        check_same(gradients, {n: right[n] * (MAX_NORM / norm) for n in gradients}, 1e-12, "clipped")
        assert calls == ({"all_reduce": axes} if axes else {})
        assert message == "the norm of the gradients is inf" and kept
        seen |= gradients.keys()
    assert seen == right.keys()


@pytest.mark.parametrize(
    "sizes", [{"pipeline": 2, "tensor": 2}, {"data": 2, "tensor": 2}, {"pipeline": 2, "data": 2}], ids=str
)
def test_clipping_over_a_layout_torchtitan596_torchtitan649_pt144530(four_ranks: Pool, sizes: dict[str, int]) -> None:
    """Gradients too: data parallelism around a pipeline's stage still averages, after all its micro-batches."""
    check(four_ranks, sizes, 2)


@pytest.mark.parametrize("micro_batches", [1, 2, 4])
def test_the_norm_is_the_same_for_any_micro_batches_deepspeed7773(two_ranks: Pool, micro_batches: int) -> None:
    check(two_ranks, {"pipeline": 2}, micro_batches)


def test_replicated_weights_count_once_rocm_te715(two_ranks: Pool) -> None:
    """Layer norms and row-parallel biases are whole on both tensor ranks."""
    check(two_ranks, {"tensor": 2}, 1)


@pytest.mark.parametrize("micro_batches", [1, 4])
def test_zero_over_data_and_tensor_ranks(four_ranks: Pool, micro_batches: int) -> None:
    norm = one_process(2)[1]
    for stages in four_ranks.run(jobs.zero_norm, {"data": 2, "tensor": 2}, micro_batches):
        for found, after in stages:
            assert found == pytest.approx(norm, rel=1e-12)
            assert after == pytest.approx(MAX_NORM, rel=1e-12)


def test_on_one_process_it_is_torchs() -> None:
    torch.manual_seed(0)
    layers = [torch.nn.Linear(3, 2).requires_grad_(True) for _ in range(2)]
    layers[1].load_state_dict(layers[0].state_dict())
    for layer in layers:
        layer.weight.grad = torch.arange(6.0).view(2, 3)  # the bias has no gradient
    theirs = torch.nn.utils.clip_grad_norm_(layers[0].parameters(), 1.5)
    assert clip_grad_norm(layers[1], Layout(), 1.5) == pytest.approx(theirs.item(), rel=1e-6)
    assert torch.allclose(layers[1].weight.grad, layers[0].weight.grad, rtol=1e-5)
    assert clip_grad_norm(layers[1], Layout(), 2.0) == pytest.approx(1.5), "a norm below the most is left alone"
    assert clip_grad_norm(torch.nn.Identity(), Layout(), 1.0) == 0.0


def test_wrong_arguments_are_refused_before_a_collective(two_ranks: Pool) -> None:
    for (tied, max_norm), collectives in two_ranks.run(jobs.refused):
        assert tied == "tied: a tensor of shape [2] is no parameter of the module"
        assert max_norm.startswith("max_norm=nan") and collectives == 0


def test_a_cut_along_a_dimension_that_is_not_there_is_refused() -> None:
    layer = torch.nn.Linear(2, 2)
    layer.CUT = {"bias": -1}  # type: ignore[assignment]
    with pytest.raises(ValueError, match=r"CUT\['bias'\]=-1: must be a whole number of at least 0"):
        cut_parameters(layer)
