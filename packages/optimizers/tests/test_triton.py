"""AdamW's Triton kernel: in the interpreter against float64, and compiled for GPUs that are not there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("triton")

from bancada.compiled.compiler import compile_launch
from bancada_optimizers._suites import compiled
from bancada_optimizers.adamw import triton_kernel

WORKER = Path(__file__).with_name("triton_worker.py")


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
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_compiles_without_a_stack_and_with_wide_loads(target: str, dtype: str) -> None:
    suite = compiled.suite()
    case = suite.case(target=target, dtype=dtype, block=triton_kernel.BLOCK, num_warps=4)
    made = compile_launch(suite.contender("adamw-triton").build(case), target)
    # At least p, g, m and v are loaded, and p, m and v stored, with more than one word an instruction.
    assert len(re.findall(r"ld\.global(?:\.\w+)*\.v[24]\.b32", made.assembly)) >= 4
    assert len(re.findall(r"st\.global(?:\.\w+)*\.v[24]\.b32", made.assembly)) >= 3
    assert made.stack_bytes == 0
