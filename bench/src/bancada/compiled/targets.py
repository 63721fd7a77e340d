"""The GPUs that kernels are compiled for: limits of one processor, and rates of one chip, as published.

Limits: NVIDIA, CUDA C++ Programming Guide, "Technical Specifications per Compute Capability", and for what is given
out in units NVIDIA's `cuda_occupancy.h` (registers by 256 a warp, shared memory by 128 bytes with 1 KiB a block for
the system, four partitions a processor); AMD, "CDNA3 Instruction Set Architecture" (512 vector registers a lane,
given out by 8; 64 KiB of LDS, by 512 bytes), and LLVM's AMDGPU backend (8 waves a SIMD on gfx942, 1,024 work-items a
workgroup, which is NVIDIA's limit of threads a block too).

Rates: the data sheets "NVIDIA A100 Tensor Core GPU" (80 GB SXM), "NVIDIA H200 Tensor Core GPU" (SXM) and "AMD Instinct
MI300X Accelerator", dense, without sparsity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

KIB = 1024
MOST_THREADS = 1024
"""Of a block, on every target here."""


@dataclass(frozen=True)
class Target:
    """One architecture, and the chip whose rates stand for it.

    A processor is NVIDIA's SM, AMD's CU; a warp is AMD's wavefront; a block its workgroup; shared memory its LDS.

    Args:
        id: `sm_90`, `gfx942`.
        backend: Triton's name of it, `cuda` or `hip`.
        chip: the product whose rates are below.
        partitions: of a processor; each has its own registers.
        warp_size: threads of a warp.
        most_warps: resident on a processor.
        most_blocks: resident on a processor.
        lane_registers: 32-bit registers of a partition for each lane.
        register_unit: what a thread's registers are rounded up to.
        shared_bytes: shared memory of a processor.
        shared_unit: what a block's shared memory is rounded up to.
        shared_reserved: bytes a block takes beside its own.
        matrix: FLOP/s of the matrix units by the dtype of the operands; a dtype that is not there has none.
        vector: FLOP/s of fp32 arithmetic without matrix units.
        bandwidth: bytes/s of the memory.
        instruction: what a matrix product is expected to become.
    """

    id: str
    backend: str
    chip: str
    partitions: int
    warp_size: int
    most_warps: int
    most_blocks: int
    lane_registers: int
    register_unit: int
    shared_bytes: int
    shared_unit: int
    shared_reserved: int
    matrix: Mapping[str, float]
    vector: float
    bandwidth: float
    instruction: str

    @property
    def block_shared_bytes(self) -> int:
        """The most that one block may take for itself."""
        return self.shared_bytes - self.shared_reserved


_NVIDIA = {"backend": "cuda", "partitions": 4, "warp_size": 32, "most_warps": 64, "most_blocks": 32}
_ALLOCATION = {"lane_registers": 512, "register_unit": 8, "shared_unit": 128, "shared_reserved": KIB}

TARGETS: dict[str, Target] = {
    one.id: one
    for one in (
        Target(
            "sm_80", chip="NVIDIA A100 SXM, 80 GB", **_NVIDIA, **_ALLOCATION,  # type: ignore[arg-type]
            shared_bytes=164 * KIB,
            matrix={"fp16": 312e12, "bf16": 312e12}, vector=19.5e12, bandwidth=2.039e12, instruction="mma.sync",
        ),
        Target(
            "sm_90", chip="NVIDIA H200 SXM", **_NVIDIA, **_ALLOCATION,  # type: ignore[arg-type]
            shared_bytes=228 * KIB,
            matrix={"fp16": 989.5e12, "bf16": 989.5e12}, vector=67e12, bandwidth=4.8e12, instruction="wgmma",
        ),
        Target(
            "gfx942", backend="hip", chip="AMD Instinct MI300X", partitions=4, warp_size=64,
            most_warps=32, most_blocks=32, lane_registers=512, register_unit=8, shared_bytes=64 * KIB,
            shared_unit=512, shared_reserved=0,
            matrix={"fp16": 1307.4e12, "bf16": 1307.4e12, "fp32": 163.4e12}, vector=163.4e12, bandwidth=5.3e12,
            instruction="v_mfma",
        ),
    )
}  # fmt: skip
"""By id. Exact fp32 products run on NVIDIA's vector units: TF32 is another precision."""


def find(target_id: str) -> Target:
    """The target of that id; ValueError where there is none."""
    if target_id not in TARGETS:
        raise ValueError(f"target={target_id!r}: allowed are {', '.join(TARGETS)}")
    return TARGETS[target_id]
