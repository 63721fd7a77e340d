"""torchrun for a sweep: `python -m bancada.ranks.launch RANKS EXITS -- ARGUMENTS` starts the rank script here.

It is torchrun's own code, with no restarts. What it adds: the ranks die with it as it dies with the sweep, and the exit
codes of the ranks that failed are left in the file EXITS.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from bancada.limits import PARENT, die_with_parent

LOOPBACK = "127.0.0.1"


def main(arguments: list[str]) -> int:
    """Runs the ranks to their end; 0 where all ended well, else 1."""
    die_with_parent()
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    ranks, exits, rest = arguments[0], Path(arguments[1]), arguments[3:]
    os.environ[PARENT] = str(os.getpid())
    torchrun = [
        "--max-restarts", "0", "--nnodes", "1", "--nproc-per-node", ranks, "--local-addr", LOOPBACK,
        "--rdzv-backend", "c10d", "--rdzv-endpoint", f"{LOOPBACK}:0", "-m", "bancada.ranks.worker", *rest,
    ]  # fmt: skip
    try:
        run.main(torchrun)
    except ChildFailedError as error:
        exits.write_text(json.dumps({rank: failed.exitcode for rank, failed in error.failures.items()}))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
