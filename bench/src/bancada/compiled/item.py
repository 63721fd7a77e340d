"""What a benchmark item does with a compile suite: one configuration, compiled and read; its row is never a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bancada import cells
from bancada.bench import CaseItem
from bancada.ceilings import dtype_of
from bancada.compiled.assembly import count
from bancada.compiled.compiler import Compiled, compile_launch
from bancada.compiled.declare import CompileContender, CompileSuite
from bancada.compiled.occupancy import Occupancy, occupancy
from bancada.compiled.roofline import bound_s
from bancada.compiled.targets import MOST_THREADS, Target, find
from bancada.rows import Row
from bancada.screen import RAISED, available, failure
from bancada.suite import Case

REGISTER_BYTES = 4


@dataclass
class CompileItem(CaseItem[CompileSuite]):
    """One case: every contender that has no row yet is compiled."""

    def run(self, benchmark: Any) -> None:
        """Compiles; every contender has a row afterwards."""
        worker, case = self.worker, self.case
        waiting = worker.waiting(self.suite, case, self.planned)
        job = worker.job
        with worker.at(job.device.threads):
            for contender in map(self.suite.contender, waiting):
                worker.heart.beat("compile", job.settings.compile_limit_s, self.suite.id, case.id, contender.id)
                with worker.parts.part("compile"):
                    status, reason, found = self._compile(contender, case)
                found["note.configuration"] = self.suite.say(case)
                worker.write(
                    [
                        cells.cell(
                            self.suite,
                            case,
                            contender,
                            job.device,
                            job.stamped(self.planned),
                            status,
                            reason,
                            facts=found,
                        )
                    ]
                )

    def _compile(self, contender: CompileContender, case: Case) -> tuple[str, str, Row]:
        """Status, reason and facts of one contender, whatever its compiler does."""
        try:
            available(contender, case, self.worker.job.device)
            launch = contender.build(case)
            made = compile_launch(launch, case.word("target"))
        except RAISED as error:
            why = failure(error)
            return why.status, why.reason, {}
        target = find(case.word("target"))
        held = occupancy(target, made.registers, made.shared_bytes, launch.num_warps)
        found = facts(self.suite, case, made, held, launch.num_warps) | {"measure.stages": launch.num_stages}
        reason = unfit(target, made, held, launch.num_warps)
        return ("unsupported" if reason else "ok"), reason, found


def unfit(target: Target, made: Compiled, held: Occupancy, warps: int) -> str:
    """Why a target cannot run a kernel at all, with the figures; empty where it can."""
    if made.shared_bytes > target.block_shared_bytes:
        return (
            f"needs {made.shared_bytes:,} bytes of shared memory a block; "
            f"{target.id} has {target.block_shared_bytes:,} for one"
        )
    if (threads := warps * target.warp_size) > MOST_THREADS:
        return f"{warps} warps are {threads:,} threads; {target.id} takes {MOST_THREADS:,} in a block"
    if held.blocks == 0:
        return (
            f"{warps} warps of {made.registers} registers a thread fit on no processor of {target.id}, "
            f"which holds {target.most_warps} warps and {target.lane_registers * target.partitions:,} "
            "registers for each lane"
        )
    return ""


def facts(suite: CompileSuite, case: Case, made: Compiled, held: Occupancy, warps: int) -> Row:
    """What a row tells of a compiled kernel, as `measure.*` and `note.*` fields."""
    target, dtype, work = find(case.word("target")), dtype_of(case), suite.work(case)
    counts = count(made.assembly, target.backend)
    many = sum(counts.matrix.values())
    expected = suite.matrix(case) and dtype in target.matrix
    missing = expected and target.instruction not in counts.matrix
    used = ", ".join(counts.matrix) or "none"
    # PTX knows nothing of spilling: each spilled register is stored and loaded again in a pass of the loop.
    passes = counts.repeated + (2 * made.stack_bytes // REGISTER_BYTES if target.backend == "cuda" else 0)
    found: Row = {
        "measure.registers": made.registers,
        "measure.stack_bytes": made.stack_bytes,
        "measure.shared_bytes": made.shared_bytes,
        "measure.resident_blocks": held.blocks,
        "measure.resident_warps": held.warps,
        "measure.occupancy": held.share,
        "measure.instructions": passes * warps * target.warp_size / suite.units(case),
        "measure.loop_instructions": counts.loop,
        "measure.all_instructions": counts.instructions,
        "measure.matrix_instructions": many,
        "measure.matrix_missing": int(missing),
        "measure.loaded_bytes": suite.loaded(case),
        "measure.bound_s": bound_s(target, work, dtype, many > 0),
        "measure.compile_s": made.seconds,
        "note.limit": held.limit,
        "note.chip": target.chip,
        "note.matrix": f"{used} ({target.instruction} expected)" if missing else used,
        "note.compile": "from the cache" if made.cached else "compiled anew",
        "flops": work.flops,
        "bytes": work.bytes,
    }
    if made.spilled_registers is not None:
        found["measure.spilled_registers"] = made.spilled_registers
    return found
