"""How many warps of a kernel a processor holds at once, from the target's published limits; no GPU is asked."""

from __future__ import annotations

from dataclasses import dataclass

from bancada.compiled.targets import MOST_THREADS, Target


@dataclass(frozen=True)
class Occupancy:
    """Blocks and warps resident on one processor, their share of the most there can be, and what forbids more."""

    blocks: int
    warps: int
    share: float
    limit: str


def occupancy(target: Target, registers: int, shared_bytes: int, warps: int) -> Occupancy:
    """Resident blocks = min over registers, shared memory, warps and blocks of how many of the kernel's fit.

    A partition's registers go to whole warps, floor(lane_registers / ceil(registers, unit)) of them; a block's shared
    memory is rounded up with what the system takes (the rule of NVIDIA's occupancy calculator).

    Args:
        registers: 32-bit registers of a thread.
        shared_bytes: shared memory of a block.
        warps: of a block.

    Raises:
        ValueError: one of them is negative, or there are no warps.
    """
    for name, value, least in (("registers", registers, 0), ("shared_bytes", shared_bytes, 0), ("warps", warps, 1)):
        if value < least:
            raise ValueError(f"{name}={value!r}: must be at least {least}")
    held = _up(max(registers, 1), target.register_unit)
    kept = _up(shared_bytes + target.shared_reserved, target.shared_unit)
    fitting = {
        "registers": target.lane_registers // held * target.partitions // warps,
        "shared memory": target.shared_bytes // max(kept, 1),
        "warps": target.most_warps // warps,
        "blocks": target.most_blocks,
    }
    if warps * target.warp_size > MOST_THREADS:
        fitting["warps"] = 0
    blocks = min(fitting.values())
    limit = "warps" if fitting["warps"] == blocks else next(name for name, most in fitting.items() if most == blocks)
    return Occupancy(blocks, blocks * warps, blocks * warps / target.most_warps, limit)


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
