"""The rank script: `python -m bancada.ranks.worker --bancada-job FILE`, once a rank.

torchrun starts it for a sweep; `torchrun --nnodes=2`, `accelerate launch` and `deepspeed` start it unchanged, for it
needs nothing but RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. The job's cases must all take as many ranks as there
are. An exception is left in the rank's file and ends the process at once: the others must not wait for who goes on.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import os
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from bancada.ranks import words
from bancada.ranks.declare import Ranks, RanksSuite
from bancada.settings import Job, Settings

if TYPE_CHECKING:
    from bancada.ranks.item import Place

OPTION = "--bancada-job"
PATIENCE_S = 3.0  # a rank whose collective failed lives on for so long: whose fault it is ends first, and is seen
GRACE_S = 60.0  # the parent's watch comes first; the group's own timeout is for when there is no parent
DEEPSPEED = "deepspeed"


def main(arguments: list[str] | None = None) -> None:
    """Measures the job's cases on this rank. Ends the process with 1 where anything fails."""
    parser = argparse.ArgumentParser(description="One rank of a pool that measures the cases of a job.")
    parser.add_argument(OPTION, required=True, type=Path, metavar="FILE")
    parser.add_argument(
        "--local_rank", type=int, default=0, help="ignored: deepspeed passes it, the environment counts"
    )
    job = Job.load(parser.parse_args(arguments).bancada_job)
    rank, size = _number("RANK"), _number("WORLD_SIZE")
    speaker = words.Speaker(job.run_dir, rank)
    speaker.beat("import", job.settings.compile_limit_s)
    try:
        _measure(job, rank, size, speaker)
    except BaseException as error:
        _end(speaker, error)
    speaker.beat("done", GRACE_S)


def _end(speaker: words.Speaker, error: BaseException) -> None:
    """Leaves word of an exception, and ends this process as it is: no handler of anyone's may wait for the others."""
    from bancada.screen import failure

    traceback.print_exception(error)
    why = failure(error)
    failed = words.Failure(why.status, why.reason, words.is_communication(error))
    speaker.failed(failed)
    sys.stdout.flush()
    sys.stderr.flush()
    if failed.communication:
        time.sleep(PATIENCE_S)
    os._exit(1)


def _number(name: str) -> int:
    if not os.environ.get(name, "").isdigit():
        raise ValueError(f"{name}={os.environ.get(name)!r}: a launcher (torchrun) must set it to a whole number")
    return int(os.environ[name])


def group_timeout_s(settings: Settings) -> float:
    """The process group's timeout: longer than any step may take, for a rank may wait for another's whole step."""
    limits = (settings.oracle_limit_s, settings.compile_limit_s, settings.call_limit_s, settings.update_limit_s)
    return max(limits) + GRACE_S


def _measure(job: Job, rank: int, size: int, speaker: words.Speaker) -> None:
    from bancada.limits import apply, die_with_parent

    die_with_parent()
    import torch
    import torch.distributed as dist

    from bancada.ranks.item import RankedCase
    from bancada.registry import discover

    threads = threads_for(job.device.threads, size)
    torch.set_num_threads(threads)
    suites = discover(extra=job.extra_suites)
    for planned in job.cases:
        _check(suites.get(planned.suite), planned.suite, size, dict(planned.axes))
    apply(job.device, size)
    speaker.beat("process group", job.settings.compile_limit_s)
    backend = "nccl" if job.device.type == "cuda" else "gloo"
    device = torch.device("cpu")
    if job.device.type == "cuda":
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", rank)))
        torch.cuda.set_device(device)
    timeout = datetime.timedelta(seconds=group_timeout_s(job.settings))
    dist.init_process_group(backend, timeout=timeout)
    place = _place(job, Ranks(rank, size, device, backend), speaker, threads)
    _libraries(job, speaker)
    for planned in job.cases:
        suite = suites[planned.suite]
        assert isinstance(suite, RanksSuite)
        RankedCase(place, suite, planned).run()
        speaker.beat("between cases", job.settings.call_limit_s)
    place.control.barrier()
    dist.destroy_process_group()


def threads_for(threads: int, ranks: int) -> int:
    """Threads of each of some ranks that share what a device was given."""
    return max(1, threads // ranks)


def _check(suite: object, name: str, size: int, axes: dict[str, object]) -> None:
    if not isinstance(suite, RanksSuite):
        raise ValueError(f"suite {name!r}: not a registered suite of ranks")
    if axes.get("world_size") != size:
        raise ValueError(f"world_size={axes.get('world_size')!r}: the launcher started WORLD_SIZE={size} ranks")


def _place(job: Job, ranks: Ranks, speaker: words.Speaker, threads: int) -> Place:
    from bancada import rows
    from bancada.bench import Parts
    from bancada.clock import clock_for
    from bancada.ranks.control import Control
    from bancada.ranks.item import Place
    from bancada.rows import PARTS, ROWS

    parts, first = Parts(), ranks.rank == 0

    def write(found: list[rows.Row]) -> None:
        if first:
            rows.append(job.run_dir / ROWS, found)
            parts.append(job.run_dir / PARTS)

    return Place(
        job=job,
        ranks=ranks,
        control=Control(group_timeout_s(job.settings)),
        clock=clock_for(job.device),
        threads=threads,
        beat=speaker.beat,
        write=write,
        part=parts.part if first else lambda name: contextlib.nullcontext(),
    )


def _libraries(job: Job, speaker: words.Speaker) -> None:
    """What a pool's library needs before its first contender."""
    from importlib.util import find_spec

    from bancada.registry import discover

    suites = discover(extra=job.extra_suites)
    pools = {suites[case.suite].contender(name).pool for case in job.cases for name in case.contenders}
    if DEEPSPEED in pools and job.device.type == "cpu" and find_spec(DEEPSPEED):
        speaker.beat("import of deepspeed", job.settings.compile_limit_s)
        import deepspeed.ops  # type: ignore[import-not-found, import-untyped, unused-ignore]

        # So it compiles no extension at first use: its one reader builds all-reduces for inference, unused in training.
        deepspeed.ops.__compatible_ops__ = {}


if __name__ == "__main__":
    main()
