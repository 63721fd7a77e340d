"""One update of a parameter with 8-bit moments on a CPU: a loop in C++, compiled for this processor at the first step.

torch.compile makes of the same arithmetic a loop of half the speed (it loads bytes eight at a time by way of the stack,
and copies what it may not change in place), in ten times the time. Importing this module compiles nothing.
"""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bancada_optimizers.adamw.foreach import Rule
from bancada_optimizers.adamw8bit.reference import BLOCK
from bancada_optimizers.adamw8bit.table import CPU_CHUNK, table_adamw8bit

SOURCE = Path(__file__).with_name("native.cpp")
FLAGS = ("-std=c++17", "-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast",
         "-Wno-psabi", "-shared", "-fPIC")  # fmt: skip
LEAST_BLOCKS = 128
"""Below these, a second thread costs more than it saves."""


def unusable() -> str | None:
    """Why the loop cannot be compiled here, or None."""
    if os.name != "posix":
        return "needs a system with g++ or clang++"
    return None if _compiler() else "needs a C++ compiler: g++, c++ or clang++, or the one that CXX names"


def refusal(p: Tensor) -> str | None:
    """Why the loop cannot step this parameter, or None."""
    if p.device.type != "cpu":
        return "a parameter is not on a CPU"
    # A DTensor's or a fake tensor's data pointer is not that of its elements.
    return None if type(p) in (Tensor, torch.nn.Parameter) else f"a parameter is a {type(p).__name__}"


@functools.cache
def ready() -> bool:
    """Whether the loop runs here: it is compiled now if it was not, and a compiler that fails is warned of, once."""
    if unusable() is not None:
        return False
    try:
        _function()
    except (RuntimeError, OSError) as error:  # OSError: a folder for temporary files from which nothing may be run
        warnings.warn(f"8-bit AdamW goes by its tables, several times slower: {error}", RuntimeWarning, stacklevel=2)
        return False
    return True


def _compiler() -> str | None:
    names = (os.environ.get("CXX") or "g++", "g++", "c++", "clang++")
    return next((found for name in names if (found := shutil.which(name))), None)


@functools.cache
def _function() -> Any:
    """The loop, compiled now: it takes a second or two, and no file stays."""
    compiler = _compiler()
    if compiler is None:
        raise RuntimeError(f"backend='native': {unusable()}")
    with tempfile.TemporaryDirectory(prefix="bancada-") as folder:
        library = Path(folder, "native.so")
        for threads in (["-fopenmp"], []):  # Apple's clang has no OpenMP
            command = [compiler, *FLAGS, *threads, str(SOURCE), "-o", str(library)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                break
        else:
            raise RuntimeError(f"backend='native': {' '.join(command)} failed:\n{done.stderr[-2000:]}")
        function = ctypes.CDLL(str(library)).bancada_adamw8bit
    function.argtypes = [ctypes.c_void_p] * 6 + [ctypes.c_int64, ctypes.c_int32, ctypes.c_void_p]
    function.restype = None
    return function


def native_adamw8bit(p: Tensor, g: Tensor, state: Mapping[str, Tensor], t: int, rule: Rule) -> None:
    """Update `t` of a flat parameter, in place. A part of a block at the end, and float64, go by the tables.

    Codes are those of `table_adamw8bit`, but for numbers that lie within rounding of the border between two.

    Args:
        p, g, state, t, rule: as in `table_adamw8bit`; on a CPU, contiguous.
    """
    whole = 0 if p.dtype == torch.float64 else p.numel() // BLOCK * BLOCK
    b1, b2 = rule.betas
    keep = 1 - rule.lr * rule.weight_decay
    numbers = (ctypes.c_float * 7)(rule.step_size(t), rule.root(t), keep, rule.eps, 1 - b1, b2, 1 - b2)
    if p.dtype == torch.float32:
        _call(p[:whole], g.to(torch.float32), state, 0, numbers)
    else:  # rounded once, from the exact sum
        for first in range(0, whole, CPU_CHUNK):
            part = slice(first, min(first + CPU_CHUNK, whole))
            wide = p[part].to(torch.float32)
            _call(wide, g[part].to(torch.float32), state, first, numbers)
            p[part] = wide
    if whole < p.numel():
        table_adamw8bit(p, g, state, t, rule, whole)


def _call(p: Tensor, g: Tensor, state: Mapping[str, Tensor], first: int, numbers: Any) -> None:
    """Steps the elements of `p`, whose codes begin at element `first`."""
    blocks = p.numel() // BLOCK
    threads = torch.get_num_threads() if blocks >= LEAST_BLOCKS else 1
    pointers = [p.data_ptr(), g.data_ptr()]
    for name in ("exp_avg", "exp_avg_sq"):
        pointers += [state[name][first:].data_ptr(), state[f"{name}_scale"][first // BLOCK :].data_ptr()]
    _function()(*pointers, blocks, threads, numbers)
