"""The Triton kernels in Triton's interpreter, fp32 and fp16, against float64: outputs, lse and every gradient.

The names carry the sources: PT = pytorch, FA = Dao-AILab/flash-attention, FLA = fla-org, TR = triton; a `p` before the
number is a pull request.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("triton")


def release(distribution: str) -> tuple[int, ...]:
    """Major and minor number of what is installed."""
    return tuple(int(number) for number in version(distribution).split(".")[:2])


OLD_INTERPRETER = release("triton") < (3, 7)
"""It makes a loop's bound a Python number in a way that numpy warns of since 1.25 and refuses since 2.5."""
if OLD_INTERPRETER and release("numpy") >= (2, 5):
    pytest.skip(
        f"Triton {version('triton')}'s interpreter does not run with numpy {version('numpy')}", allow_module_level=True
    )

WORKER = Path(__file__).with_name("triton_worker.py")


def load() -> ModuleType:
    """The worker as a module, for its list of cases alone."""
    spec = importlib.util.spec_from_file_location("triton_worker", WORKER)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


worker = load()
CASES = [
    f"{one.name}[{dtype}]" for dtype in ("float32", "float16") for one in worker.PROBLEMS if dtype in one.interpret
]
SPECIALS = [special.__name__ for special in worker.SPECIALS]


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    """All cases, run once in a process of its own that interprets."""
    environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    warnings = ["-W", "error"]
    if OLD_INTERPRETER:
        warnings += ["-W", "ignore:Conversion of an array with ndim > 0 to a scalar:DeprecationWarning"]
    done = subprocess.run(
        [sys.executable, *warnings, WORKER, "cpu", "float32,float16"],
        env=environment, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.mark.parametrize("case", CASES)
def test_outputs_and_gradients(results: dict[str, Any], case: str) -> None:
    result = results[case]
    assert not isinstance(result, str), result
    assert set(result) == {"out", "lse", "dq", "dk", "dv"}
    for name, (error, limit) in result.items():
        assert error <= limit, f"{name}: error {error:.2e}, at most {limit:.2e}"


@pytest.mark.parametrize("special", SPECIALS)
def test_special(results: dict[str, Any], special: str) -> None:
    assert not isinstance(results[special], str), results[special]
