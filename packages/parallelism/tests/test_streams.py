"""Random streams: dropout agrees where the activation is one, and nowhere else."""

from __future__ import annotations

import functools
import itertools

import jobs_streams as jobs
import pytest
import torch
from parallel_pool import Pool, relative

from bancada_parallelism import Layout, RandomStreams

one_process = functools.cache(jobs.train)


def test_who_drops_the_same_megatron206_ttmetal55947_paddlefleetx1005(four_ranks: Pool) -> None:
    """The same on the tensor ranks where the activation is replicated; another at each data rank; cut: all differ."""
    found = four_ranks.run(jobs.masks, {"data": 2, "tensor": 2}, 3)
    for a, b in itertools.combinations(range(4), 2):
        same_data = a // 2 == b // 2
        assert torch.equal(found[a]["replicated"], found[b]["replicated"]) == same_data, f"ranks {a} and {b}"
        assert not torch.equal(found[a]["cut"], found[b]["cut"]), f"ranks {a} and {b}"
    drawn = [*found[0]["replicated"], *found[0]["cut"]]
    assert all(not torch.equal(x, y) for x, y in itertools.combinations(drawn, 2)), "a stream stands still"


@pytest.mark.parametrize("checkpointed", [False, True])
def test_tensor_ranks_train_with_dropout_as_one_process(two_ranks: Pool, checkpointed: bool) -> None:
    right, state = one_process(Layout(), False)
    (first, _), (second, _) = ranks = two_ranks.run(jobs.tensor_parallel, checkpointed)
    assert all(torch.equal(x, y) for x, y in zip(first, second, strict=True)), "the ranks went apart"
    for found, after in ranks:
        assert all(relative(x, y) <= 1e-12 for x, y in zip(found, right, strict=True))
        assert torch.equal(after["replicated"], state["replicated"])


def test_computing_again_draws_the_same_and_leaves_the_streams_where_they_were() -> None:
    kept, after_kept = one_process(Layout(), False)
    again, after = one_process(Layout(), True)
    assert all(torch.equal(x, y) for x, y in zip(kept, again, strict=True))
    assert all(torch.equal(after[kind], after_kept[kind]) for kind in ("replicated", "cut"))


def test_a_run_goes_on_from_a_saved_state() -> None:
    streams = RandomStreams(1, Layout())
    state = streams.state()
    drawn = []
    for _ in range(2):
        with streams.cut(), streams.replicated():
            drawn.append(torch.rand(4))
        streams.load_state(state)
    assert torch.equal(drawn[0], drawn[1])
    with streams.cut():
        inside = torch.rand(4)
    assert not torch.equal(inside, drawn[0])
    with RandomStreams(2, Layout()).replicated():
        assert not torch.equal(torch.rand(4), drawn[0]), "the seed does not matter"


def test_wrong_use_is_told() -> None:
    with pytest.raises(ValueError, match="seed=-1"):
        RandomStreams(-1, Layout())
    streams = RandomStreams(0, Layout())
    with pytest.raises(ValueError, match=r"state: streams \['cut'\]; must be replicated, cut"):
        streams.load_state({"cut": torch.get_rng_state()})
    before = torch.get_rng_state()
    with pytest.raises(RuntimeError, match="the same numbers would come twice"), streams.cut(), streams.cut():
        pass
    assert torch.equal(torch.get_rng_state(), before)
    with streams.cut():
        pass
