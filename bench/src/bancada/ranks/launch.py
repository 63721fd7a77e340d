"""torchrun for a sweep: `python -m bancada.ranks.launch` starts a pool of ranks for every line that comes in.

It is torchrun's own launcher (`elastic_launch`), without restarts. The ranks are forked from a server that has imported
torch once: a pool then starts in a second, where ranks that import it each for themselves on shared cores take ten.
A line is JSON: how many ranks, the job's file, and the file in which it is told how the pool ended: the exit codes of
the ranks that failed.
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import sys
import uuid
from multiprocessing import forkserver
from pathlib import Path

from bancada.limits import PARENT, die_with_parent

LOOPBACK = "127.0.0.1"


def main() -> None:
    """Serves pools until nothing more comes in."""
    die_with_parent()
    os.environ[PARENT] = str(os.getpid())
    multiprocessing.get_context("forkserver").set_forkserver_preload(["bancada.ranks.preload"])
    forkserver.ensure_running()  # it imports while we do
    import torch.distributed.launcher  # noqa: F401

    logging.disable(logging.ERROR)  # the ranks say themselves what they raised; torch's logs import the compiler for it
    for line in sys.stdin:
        asked = json.loads(line)
        codes = pool(asked["ranks"], asked["job"])
        beside = Path(asked["over"] + ".part")
        beside.write_text(json.dumps(codes), encoding="utf-8")
        beside.replace(asked["over"])


def pool(ranks: int, job: str) -> dict[str, int]:
    """Runs a pool to its end; the exit codes of the ranks that failed, less than 0 where by a signal."""
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    from bancada.ranks import worker

    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=ranks,
        run_id=str(uuid.uuid4()),
        rdzv_backend="c10d",
        rdzv_endpoint=f"{LOOPBACK}:0",
        local_addr=LOOPBACK,
        max_restarts=0,
        start_method="forkserver",
    )
    try:
        elastic_launch(config, worker.main)([worker.OPTION, job])
    except ChildFailedError as error:
        return {str(rank): failed.exitcode for rank, failed in error.failures.items()}
    return {}


if __name__ == "__main__":
    main()
