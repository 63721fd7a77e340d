"""The same cases on a GPU, with bfloat16, and the grids and offsets that the interpreter is too slow for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("triton")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU"),
]
DTYPES = ("float32", "float16", "bfloat16")


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    """All cases, run once in a process of its own."""
    worker = Path(__file__).with_name("triton_worker.py")
    done = subprocess.run(
        [sys.executable, worker, "cuda", ",".join(DTYPES)], capture_output=True, text=True, timeout=1800, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.mark.parametrize("dtype", DTYPES)
def test_outputs_and_gradients(results: dict[str, Any], dtype: str) -> None:
    mine = {case: result for case, result in results.items() if case.endswith(f"[{dtype}]")}
    assert len(mine) > 30
    wrong = []
    for case, result in mine.items():
        if isinstance(result, str):
            wrong.append(f"{case}: {result[-500:]}")
        else:
            wrong += [
                f"{case} {name}: {error:.2e} > {most:.2e}" for name, (error, most) in result.items() if error > most
            ]
    assert not wrong, "\n".join(wrong)


def test_specials(results: dict[str, Any]) -> None:
    wrong = [result for case, result in results.items() if "[" not in case and isinstance(result, str)]
    assert not wrong, "\n".join(wrong)


def test_more_heads_than_a_second_grid_axis_holds() -> None:
    """case22 FLA172, PT142228: 70,000 batch * heads are launched and right."""
    from bancada_attention.flash import triton_kernel

    q = torch.randn(700, 100, 3, 16, device="cuda", dtype=torch.float16)
    out, _ = triton_kernel.triton_forward(q, q, q, causal=True, scale=0.25, key_padding_mask=None)
    torch.testing.assert_close(out[:, :, 0], q[:, :, 0])
