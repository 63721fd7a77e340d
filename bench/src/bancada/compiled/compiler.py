"""Compiles a Triton kernel for a GPU that need not be there, and reads what decides its speed before any clock does.

Triton keeps what it compiled in `TRITON_CACHE_DIR`, by source, options, target and its own version; a sweep's is the
folder `triton` in the cache folder of `bancada.parent.cache_dir`.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bancada.compiled.declare import Launch

_AMD_FIELDS = ("vgpr_count", "vgpr_spill_count", "private_segment_fixed_size", "group_segment_fixed_size")
LONGEST_TOOL_S = 60


@dataclass(frozen=True)
class Compiled:
    """One compiled kernel.

    Args:
        registers: 32-bit registers of a thread (NVIDIA: 255 at most; CDNA3: vector registers, 512 at most).
        stack_bytes: local memory of a thread; above 0 in a kernel without calls means spilled registers.
        spilled_registers: what the compiler itself counts as spilled; None where it does not tell (NVIDIA).
        shared_bytes: shared memory of a block.
        assembly: PTX (`cuda`) or AMD's assembly (`hip`).
        ttir: Triton's intermediate code, before anything about the target is decided.
        seconds: what the compilation took.
        cached: whether it came from Triton's cache.
    """

    registers: int
    stack_bytes: int
    spilled_registers: int | None
    shared_bytes: int
    assembly: str
    ttir: str
    seconds: float
    cached: bool


def backend_of(target: str) -> str:
    """Triton's backend for a target: `cuda` for `sm_90`, `hip` for `gfx942`; ValueError for anything else."""
    for pattern, backend in ((r"sm_\d+", "cuda"), (r"gfx[0-9a-f]+", "hip")):
        if re.fullmatch(pattern, target):
            return backend
    raise ValueError(f"target={target!r}: allowed are sm_NUMBER and gfxNUMBER")


def compile_launch(launch: Launch, target: str) -> Compiled:
    """Compiles for a target such as `sm_90` or `gfx942`: 1 to 20 s, or milliseconds where it has been done before.

    Raises:
        ValueError: a target of no known kind.
        RuntimeError: Triton runs as the interpreter, which compiles nothing.
        Exception: whatever Triton's compiler raises.
    """
    backend = backend_of(target)
    import triton
    from triton.compiler import ASTSource

    if not isinstance(launch.function, triton.JITFunction):
        raise RuntimeError("Triton runs as the interpreter (TRITON_INTERPRET=1), which compiles nothing")
    position = {name: place for place, name in enumerate(launch.function.arg_names)}
    attributes = {(position[name],): [["tt.divisibility", 16]] for name in launch.aligned}
    source = ASTSource(launch.function, dict(launch.signature), dict(launch.constants), attributes)
    options = {"num_warps": launch.num_warps, "num_stages": launch.num_stages}
    began = time.perf_counter()
    with _told() as cached:
        made = triton.compile(source, target=_gpu_target(backend, target), options=options)
    seconds = time.perf_counter() - began
    read = _of_amd if backend == "hip" else _of_nvidia
    registers, stack, spilled, shared = read(made)
    text = made.asm["amdgcn" if backend == "hip" else "ptx"]
    return Compiled(registers, stack, spilled, shared, text, made.asm["ttir"], seconds, cached == [True])


def _gpu_target(backend: str, target: str) -> Any:
    from triton.backends.compiler import GPUTarget

    return GPUTarget("hip", target, 64) if backend == "hip" else GPUTarget("cuda", int(target.removeprefix("sm_")), 32)


@contextlib.contextmanager
def _told() -> Iterator[list[bool]]:
    """Whether each compilation inside came from Triton's cache."""
    from triton import knobs

    found: list[bool] = []
    before = knobs.compilation.listener
    knobs.compilation.listener = lambda **told: found.append(bool(told["cache_hit"]))
    try:
        yield found
    finally:
        knobs.compilation.listener = before


def _of_nvidia(made: Any) -> tuple[int, int, int | None, int]:
    """Registers, stack, -, shared memory: from the machine code, by the tool that comes with Triton."""
    import triton

    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(made.asm["cubin"])
        command = [os.fspath(tool), "-res-usage", os.fspath(path)]
        text = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LONGEST_TOOL_S).stdout
    found = re.search(r"REG:(\d+) STACK:(\d+)", text)
    if found is None:
        raise RuntimeError(f"cuobjdump says nothing of registers: {text[:500]!r}")
    return int(found.group(1)), int(found.group(2)), None, int(made.metadata.shared)


def _of_amd(made: Any) -> tuple[int, int, int | None, int]:
    """Vector registers, scratch, spilled registers, LDS: from the metadata at the end of the assembly."""
    text, told = made.asm["amdgcn"], {}
    for name in _AMD_FIELDS:
        found = re.search(rf"\.{name}:\s+(\d+)", text)
        if found is None:
            raise RuntimeError(f"the assembly names no .{name}: {text[-500:]!r}")
        told[name] = int(found.group(1))
    shared = max(told["group_segment_fixed_size"], int(made.metadata.shared))
    return told["vgpr_count"], told["private_segment_fixed_size"], told["vgpr_spill_count"], shared
