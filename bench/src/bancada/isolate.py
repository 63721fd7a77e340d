"""For the last word: a fresh process for every contender and block of rounds.

In one process contenders share what it has become: its allocator's state, what was compiled and cached, which libraries
were loaded first, where things came to lie in memory. That is the same in every round, so rounds cannot average it out.
Here each contender runs a block of rounds in a process of its own, the contenders take turns in shuffled order, block
by block, and what is compared is the blocks' medians, pair by pair, as rounds are elsewhere. A process takes seconds
to start, so this is for a few contenders at a few cases.
"""

from __future__ import annotations

import dataclasses
import random
import shutil
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from bancada import ceilings, cells, rows, stats
from bancada.parent import left
from bancada.rows import PARTS, ROWS, Row
from bancada.settings import Job, Settings
from bancada.sweep import Planned
from bancada.telemetry import UNSLOWED

BLOCKS = ".blocks"
_MIDDLE = ("build_s", "first_call_s", "energy_j", "warm_s", "host_s", "clock_mhz")
_LEAST = ("clock_low_mhz",)
_MOST = ("peak_bytes", "host_peak_bytes", "clock_high_mhz", "temperature_c")
_OF_A_BLOCK = ("drift_share", "clocks_mhz", "slowed_by")
"""What says nothing of a cell where it is of one block."""


class Runner(Protocol):
    """The parent, as far as it is needed here."""

    def run(self, job: Job, planned: Sequence[Planned]) -> None:
        """Measures every planned case, in processes that it starts for this."""


def block_settings(settings: Settings) -> Settings:
    """Of one contender alone for one block: a fixed number of rounds."""
    rounds = settings.block_rounds
    return dataclasses.replace(
        settings, rounds=rounds, most_rounds=rounds, least_rounds=min(settings.least_rounds, rounds)
    )


def run(parent: Runner, job: Job, planned: Sequence[Planned]) -> None:
    """Measures every planned case that has no row yet; a case's rows are written together when its last block is done.

    Blocks that an interrupted run had finished are not measured again, see `forget`.
    """
    for one in planned:
        if left(job, [one]):
            rows.append(job.run_dir / ROWS, _rows(job, one, _blocks(parent, job, one)))
            forget(job.run_dir)


def forget(run_dir: Path) -> None:
    """Drops the blocks of a case: they have become rows, or belong to code that is another now."""
    shutil.rmtree(run_dir / BLOCKS, ignore_errors=True)


def _blocks(parent: Runner, job: Job, one: Planned) -> dict[str, list[Row]]:
    """The block rows of each contender, in order; one that fails a block has no further ones."""
    found: dict[str, list[Row]] = {name: [] for name in one.contenders}
    settings = block_settings(job.settings)
    budget_s = one.budget_s / job.settings.blocks
    for number in range(job.settings.blocks):
        order = [name for name, had in found.items() if not had or had[-1]["status"] == "ok"]
        random.Random(f"{job.settings.seed} {one.suite.id} {one.case.id} {number}").shuffle(order)
        for name in order:
            alone = dataclasses.replace(one, contenders=(name,), budget_s=budget_s)
            place = cells.row_id(one.suite.id, one.case.id, name, job.device.name, job.device.threads)
            folder = job.run_dir / BLOCKS / f"{place}-{number}"
            folder.mkdir(parents=True, exist_ok=True)
            of_block = dataclasses.replace(job, run_dir=folder, cases=(alone.job(),), settings=settings)
            fresh = bool(left(of_block, [alone]))
            parent.run(of_block, [alone])
            if fresh and (folder / PARTS).exists():
                with (job.run_dir / PARTS).open("a", encoding="utf-8") as parts:
                    parts.write((folder / PARTS).read_text(encoding="utf-8"))
            found[name] += [row for row in rows.read(folder / ROWS).rows if row["kind"] == "cell"]
    return found


def _rows(job: Job, one: Planned, found: Mapping[str, Sequence[Row]]) -> list[Row]:
    """The cells of a case and the comparisons of those that ran every block."""
    written: list[Row] = []
    whole: dict[str, list[float]] = {}
    for name, blocks in found.items():
        last = blocks[-1]
        facts = _measured(last)
        if last["status"] == "ok":
            whole[name] = [float(row["time_s"]) for row in blocks]
            facts = _facts(job, one, blocks)
        contender, stamp = one.suite.contender(name), job.stamped(one)
        reason = last["reason"] if last["status"] == "ok" else f"in block {len(blocks)}: {last['reason']}"
        told = last["status"], reason, int(last["threads"])
        written.append(cells.cell(one.suite, one.case, contender, job.device, stamp, *told, facts))
    if len(whole) > 1:
        written += [
            cells.pair(one.suite.id, one.case.id, job.device, str(job.stamp["run"]), comparison)
            for comparison in stats.compare(np.array(list(whole.values())), list(whole))
        ]
    return written


def _measured(row: Row) -> Row:
    """What a block's row holds of measures: not the identity, nor the axes."""
    return {
        name: value for name, value in row.items()
        if name in rows.MEASURES or name.startswith(("error.", "measure.", "note."))
    }  # fmt: skip


def _facts(job: Job, one: Planned, blocks: Sequence[Row]) -> Row:
    """The measures of all blocks as one: a sample is the median of a block."""
    dtype = ceilings.dtype_of(one.case)
    medians = np.array([row["time_s"] for row in blocks], dtype=np.float64)
    reach = [ceilings.reachable(known, dtype) for known in (job.matmul_ceiling, job.copy_ceiling)]
    told = set(blocks[0]).intersection(*blocks).difference(_OF_A_BLOCK)
    facts = {name: value for name, value in _measured(blocks[0]).items() if name in told}
    facts |= cells.timing(medians, int(blocks[0]["loops"]), one.suite.work(one.case), reach[0], reach[1], job.device)
    for names, joined in ((_MIDDLE, statistics.median), (_LEAST, min), (_MOST, max)):
        facts |= {name: joined([row[name] for row in blocks]) for name in names if name in told}
    if all("slowed_by" in row for row in blocks):
        slowed = [(number, row["slowed_by"]) for number, row in enumerate(blocks, 1) if row["slowed_by"] != UNSLOWED]
        facts["slowed_by"] = "; ".join(f"block {number}: {what}" for number, what in slowed) or UNSLOWED
    return facts | {"isolate": "process", "block_rounds": int(statistics.median(row["rounds"] for row in blocks))}
