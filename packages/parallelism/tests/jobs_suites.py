"""What the ranks do in the tests of the suites: contenders at work, as the harness has them."""

from __future__ import annotations

import os
from typing import Any

import torch
import torch.distributed as dist

from bancada.ranks import Ranks, RanksSuite
from bancada.ranks.communications import Communications
from bancada.ranks.item import judge
from bancada_parallelism._suites import suites


def measure(suite_id: str, axes: dict[str, Any], names: list[str], times: int) -> dict[str, dict[str, Any]]:
    """For each contender: what is wrong with its outputs, what it sent in a step, what it holds."""
    rank, size = dist.get_rank(), dist.get_world_size()
    os.environ.update({"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1"})
    suite = next(suite for suite in suites() if suite.id == suite_id)
    assert isinstance(suite, RanksSuite)
    case = suite.case(**axes, world_size=size)
    ranks = Ranks(rank, size, torch.device("cpu"), "gloo")
    given = suite.inputs(case, "cpu", 0)
    answer = suite.oracle(case, given) if rank == 0 else {}
    found: dict[str, dict[str, Any]] = {}
    for name in names:
        run = suite.contender(name).build(case, given, ranks)
        wrong = []
        for _ in range(times):  # after a reset it must do the same again
            for _ in range(suite.checked_steps):
                run.step()
            outputs = run.outputs()
            wrong.append(judge(outputs, answer, suite.tolerance(case)) if rank == 0 else ({}, ""))
            held = dict(run.state_bytes())
            run.reset()
        with Communications() as counted:
            run.step()
        run.close()
        sent = counted.figures()
        found[name] = {"wrong": wrong, **sent, **{f"bytes.{kind}": size for kind, size in held.items()}}
    return found
