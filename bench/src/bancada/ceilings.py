"""What this machine reaches: matrix product in operations a second, memory in bytes a second, for each dtype."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from bancada.clock import Clock, clock_for
from bancada.machine import last_cache_bytes
from bancada.suite import Case, Device

TORCH_DTYPES = {"fp64": torch.float64, "fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
ABOVE_CEILING = 1.15
CACHE_MULTIPLE = 4


@dataclass(frozen=True)
class Ceilings:
    """By dtype: FLOP/s of a square matrix product; bytes/s (read + write) of a copy or of scaling in place.

    The faster of the two. A CPU reads the lines that a copy writes before it writes them: scaling in place, as
    optimizers work, moves up to half as much again of what is counted.
    """

    matmul: dict[str, float]
    copy: dict[str, float]


def dtype_of(case: Case) -> str:
    """The dtype whose ceilings a case is held to: its own, or fp32 where the suite has no such axis."""
    return str(dict(case.axes).get("dtype", "fp32"))


def counted(dtype: str) -> tuple[str, ...]:
    """The dtypes whose ceilings bound a computation on inputs of this one.

    A half type may be computed in fp32, as every CPU without matrix units for it had better do.
    """
    return (dtype, "fp32") if dtype in ("fp16", "bf16") else (dtype,)


def reachable(ceiling: Mapping[str, float], dtype: str) -> float | None:
    """The highest of the ceilings that bound a computation on inputs of this dtype; None where none was measured."""
    return max((ceiling[name] for name in counted(dtype) if name in ceiling), default=None)


def measure(device: Device, dtypes: tuple[str, ...], seconds: float = 1.0) -> Ceilings:
    """The best of repeated calls, about `seconds` for each figure: a ceiling is what can be reached, not the usual."""
    clock = clock_for(device)
    matmul, copy = {}, {}
    for name in dtypes:
        matmul[name] = max(_matmul(size, name, device, clock, seconds / 2) for size in _matmul_sizes(device))
        copy[name] = _copy(name, device, clock, seconds)
    return Ceilings(matmul, copy)


def _matmul_sizes(device: Device) -> tuple[int, int]:
    return (4096, 8192) if device.type == "cuda" else (512, 1024)


def _best(call: Callable[[], object], clock: Clock, seconds: float) -> float:
    call()
    clock.synchronise()
    best, start, runs = float("inf"), time.perf_counter(), 0
    while runs < 3 or (time.perf_counter() - start < seconds and runs < 1_000):
        before = clock()
        call()
        best = min(best, float(clock() - before))
        runs += 1
    return best


def _matmul(size: int, dtype: str, device: Device, clock: Clock, seconds: float) -> float:
    a = torch.randn(size, size, device=device.torch_device).to(TORCH_DTYPES[dtype])
    out = torch.empty_like(a)
    return 2.0 * size**3 / _best(lambda: torch.mm(a, a, out=out), clock, seconds)


def _copy(dtype: str, device: Device, clock: Clock, seconds: float) -> float:
    total = 2**30 if device.type == "cuda" else max(CACHE_MULTIPLE * last_cache_bytes(), 2**27)
    source = torch.ones(total // TORCH_DTYPES[dtype].itemsize, dtype=TORCH_DTYPES[dtype], device=device.torch_device)
    target = torch.empty_like(source)
    moved = 2.0 * source.numel() * source.element_size()
    ways = (lambda: target.copy_(source), lambda: target.mul_(1.0))
    return moved / min(_best(way, clock, seconds / 2) for way in ways)


def in_a_process_of_its_own(device: Device, dtypes: tuple[str, ...], environment: dict[str, str]) -> Ceilings:
    """The same, measured in a fresh process, so that the caller never computes."""
    command = [sys.executable, "-m", "bancada.ceilings", json.dumps([dataclasses.asdict(device), list(dtypes)])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"the ceilings of {device.name} could not be measured: {done.stderr.strip()[-400:]}")
    raw = json.loads(done.stdout.splitlines()[-1])
    return Ceilings(raw["matmul"], raw["copy"])


def _main(text: str) -> None:
    fields, dtypes = json.loads(text)
    capability = fields.pop("capability")
    device = Device(**fields, capability=tuple(capability) if capability else None)
    torch.set_num_threads(device.threads)
    print(json.dumps(dataclasses.asdict(measure(device, tuple(dtypes)))))


if __name__ == "__main__":
    _main(sys.argv[1])
