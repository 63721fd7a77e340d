"""What the compiler makes of the Triton kernels for a GPU that need not be there.

`compile_for` compiles one kernel for one target as it would be launched on contiguous tensors, and reads from the
result what decides its speed before any clock does: shared memory, registers, and the stack. A stack in a kernel
without calls means that registers were spilled to memory.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bancada_attention.flash.triton_config import (
    KERNELS,
    SHARED_MEMORY,
    Tile,
    kernel_config,
    padded_head_dim,
)

_POINTEE = {torch.float16: "fp16", torch.bfloat16: "bf16", torch.float32: "fp32"}
_FLOAT32_POINTERS = ("lse", "dlse", "delta", "lse2")
_INTEGERS = ("heads", "group", "sq", "sk", "padded")


@dataclass(frozen=True)
class CompileReport:
    """One compiled kernel.

    Args:
        shared: bytes of shared memory a block takes.
        registers: registers a thread takes (255 at most).
        stack: bytes of local memory a thread takes; above 0 means spilled registers.
        ptx: the assembly.
        ttir: Triton's intermediate code, before anything about the target is decided.
    """

    kernel: str
    target: str
    tile: Tile
    shared: int
    registers: int
    stack: int
    ptx: str
    ttir: str

    @property
    def fits(self) -> bool:
        """Whether it runs there without spilling: no stack, and within the target's shared memory."""
        return self.stack == 0 and self.shared <= SHARED_MEMORY[self.target]

    @property
    def matrix_instruction(self) -> str:
        """`wgmma`, `mma.sync`, or nothing where it multiplies without tensor cores."""
        return next((name for name in ("wgmma", "mma.sync") if f"{name}." in self.ptx or f"{name} " in self.ptx), "")


def compile_for(
    kernel: str,
    target: str,
    head_dim: int,
    dtype: torch.dtype,
    causal: bool,
    config: Tile | None = None,
    *,
    general: bool = False,
) -> CompileReport:
    """Compiles `kernel` for `target` without a GPU (1 to 10 s; Triton keeps the result on disk).

    Args:
        kernel: one of `triton_config.KERNELS`.
        target: `sm_80`, `sm_90` and so on: a key of `triton_config.SHARED_MEMORY`.
        head_dim: 1 to 256.
        dtype: float16, bfloat16 or float32.
        config: the tile to try, or None for the one that `kernel_config` chooses.
        general: with a key padding mask, grouped heads and a length that no tile divides, instead of none of them.

    Raises:
        ValueError: an unknown kernel, target or dtype.
        RuntimeError: Triton is missing, or runs as the interpreter.
    """
    if kernel not in KERNELS:
        raise ValueError(f"kernel={kernel!r}: allowed are {', '.join(KERNELS)}")
    if target not in SHARED_MEMORY:
        raise ValueError(f"target={target!r}: allowed are {', '.join(SHARED_MEMORY)}")
    tile = config or kernel_config(target, head_dim, dtype).tile(kernel)
    from bancada_attention.flash import triton_kernel

    if triton_kernel.MISSING is not None:
        raise RuntimeError(triton_kernel.MISSING)
    if triton_kernel.INTERPRETED:
        raise RuntimeError("Triton runs as the interpreter (TRITON_INTERPRET=1), which compiles nothing")
    compiled = _compile(triton_kernel.kernel(kernel), target, head_dim, dtype, causal, tile, general)
    registers, stack = _resources(compiled.asm["cubin"])
    return CompileReport(
        kernel, target, tile, int(compiled.metadata.shared), registers, stack, compiled.asm["ptx"], compiled.asm["ttir"]
    )


def _compile(
    function: Any, target: str, head_dim: int, dtype: torch.dtype, causal: bool, tile: Tile, general: bool
) -> Any:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    known: dict[str, object] = {
        "BLOCK_M": tile.block_m,
        "BLOCK_N": tile.block_n,
        "BLOCK_D": padded_head_dim(head_dim),
        "HEAD_DIM": head_dim,
        "CAUSAL": causal,
        "HAS_PADDING": general,
        "HAS_DLSE": general,
        "GROUPED": general,
        "EVEN_ROWS": not general,
        "WIDE": False,
        "UNIT": 8 if head_dim % 8 == 0 else 1,
    }
    signature: dict[str, str] = {}
    constants: dict[str, object] = {}
    attributes: dict[tuple[int], list[list[object]]] = {}
    for position, name in enumerate(function.arg_names):
        signature[name], wide = _parameter(name, head_dim, dtype)
        if name in known:
            constants[name] = known[name]
        elif signature[name] == "constexpr":
            constants[name] = 1
        if wide:
            attributes[(position,)] = [["tt.divisibility", 16]]
    source = ASTSource(function, signature, constants, attributes)
    options = {"num_warps": tile.num_warps, "num_stages": tile.num_stages}
    return triton.compile(source, target=GPUTarget("cuda", int(target.removeprefix("sm_")), 32), options=options)


def _parameter(name: str, head_dim: int, dtype: torch.dtype) -> tuple[str, bool]:
    """The type that Triton gives a kernel's parameter at launch, and whether it is known as a multiple of 16."""
    if name.isupper():
        return "constexpr", False
    if name.startswith("stride_"):
        if name.endswith("d"):  # the innermost stride, 1
            return "constexpr", False
        return ("constexpr", False) if name in ("stride_pn", "stride_lm") else ("i32", head_dim % 16 == 0)
    if name in _INTEGERS:
        return "i32", False
    if name == "scale":
        return "fp32", False
    if name == "padding":
        return "*i16", True
    return ("*fp32" if name in _FLOAT32_POINTERS else f"*{_POINTEE[dtype]}"), True


def _resources(cubin: bytes) -> tuple[int, int]:
    """Registers and stack, as the tool that comes with Triton reads them from the machine code."""
    import triton

    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        text = subprocess.run([os.fspath(tool), "-res-usage", path], capture_output=True, text=True, check=True).stdout
    found = re.search(r"REG:(\d+) STACK:(\d+)", text)
    if found is None:
        raise RuntimeError(f"cuobjdump says nothing of registers: {text[:500]!r}")
    return int(found.group(1)), int(found.group(2))
