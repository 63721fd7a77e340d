"""Case 26: a rank that raises, is killed or sleeps ends the others in time, with an error that names it."""

from __future__ import annotations

import jobs_collectives as jobs
import pytest
import torch.distributed as dist
from parallel_pool import Pool

from bancada_parallelism import RankWatch

TIMEOUT_S = 4.0


@pytest.mark.parametrize("how", ["raises", "is killed", "sleeps"])
def test_a_failed_rank_ends_the_others_and_is_named(how: str) -> None:
    store = dist.TCPStore("127.0.0.1", 0, None, is_master=True, wait_for_workers=False)
    ranks = 3 if how == "is killed" else 2
    pool = Pool(ranks)
    try:
        pool._start()
        processes = list(pool.processes)
        outcomes = pool.outcomes(jobs.failing, how, 1, store.port, TIMEOUT_S)
    finally:
        pool.close()
    assert outcomes[1][0] == {"raises": "error", "is killed": "dead", "sleeps": "ok"}[how]
    for rank in [r for r in range(ranks) if r != 1]:
        state, value = outcomes[rank]
        assert state == "error", f"rank {rank} is {state}"
        kind, message, _ = value
        assert kind == "RankFailure" and message.startswith(f"step 3 of rank {rank} failed: rank 1 "), message
        if how == "raises":
            assert "raised at step 3: ArithmeticError: the loss is not finite" in message
        else:
            assert "does not answer (its last step was 3)" in message
    assert not any(process.is_alive() for process in processes), "a rank is left"


def test_a_wrong_watch_is_refused() -> None:
    store = dist.HashStore()
    with pytest.raises(ValueError, match=r"rank=2.*below ranks=2"):
        RankWatch(store, 2, 2)
    with pytest.raises(ValueError, match="grace=-1"):
        RankWatch(store, 0, 2, grace=-1)
