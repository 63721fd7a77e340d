"""AdamW's Triton kernel: in the interpreter against float64, and compiled for GPUs that are not there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch

triton = pytest.importorskip("triton")

from bancada_optimizers.adamw import triton_kernel  # noqa: E402

WORKER = Path(__file__).with_name("triton_worker.py")
POINTERS = {"addresses": "*i64", "sizes": "*i64", "numbers": "*fp32", "owners": "*i64", "firsts": "*i64"}


def work(device: str, dtypes: str, interpret: bool) -> dict[str, float]:
    environment = os.environ | {"OMP_NUM_THREADS": "1"} | ({"TRITON_INTERPRET": "1"} if interpret else {})
    done = subprocess.run(
        [sys.executable, WORKER, device, dtypes],
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, float] = json.loads(done.stdout)
    return found


def test_interpreted_steps_are_the_references() -> None:
    """fp32 and fp16 (the interpreter's), every shape, gaps in the gradients; one launch a step for all tensors."""
    found = work("cpu", "float32,float16", interpret=True)
    assert found["float32"] <= 1 and found["float16"] <= 1
    assert found["launches"] == 8  # four steps of each dtype


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_steps_on_a_gpu_are_the_references() -> None:
    found = work("cuda", "float32,float16,bfloat16", interpret=False)
    assert all(found[name] <= 1 for name in ("float32", "float16", "bfloat16"))


@pytest.mark.skipif(triton_kernel.INTERPRETED, reason="TRITON_INTERPRET=1: nothing is compiled")
@pytest.mark.parametrize("target", [80, 90])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_compiles_without_a_stack_and_with_wide_loads(target: int, dtype: torch.dtype) -> None:
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    kernel: Any = triton_kernel.adamw_kernel
    constants = {"P": triton_kernel.kernel_dtype(dtype), "BLOCK": triton_kernel.BLOCK, "UNIT": 16}
    signature = {name: POINTERS.get(name, "constexpr" if name in constants else "fp32") for name in kernel.arg_names}
    source = ASTSource(kernel, signature, constants, {})
    compiled = triton.compile(source, target=GPUTarget("cuda", target, 32), options={"num_warps": 4})
    ptx = compiled.asm["ptx"]
    # At least p, g, m and v are loaded, and p, m and v stored, with more than one word an instruction.
    assert len(re.findall(r"ld\.global(?:\.\w+)*\.v[24]\.b32", ptx)) >= 4
    assert len(re.findall(r"st\.global(?:\.\w+)*\.v[24]\.b32", ptx)) >= 3
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder, "kernel.cubin")
        binary.write_bytes(compiled.asm["cubin"])
        told = subprocess.run([tool, "-res-usage", binary], capture_output=True, text=True, check=True).stdout
    assert re.search(r"STACK:0\b", told), told
