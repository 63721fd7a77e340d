"""Where the time and the memory of a training step go: passes of their own, before the race and apart from it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from bancada.activations import HeldActivations

PASSES = 3
"""Of which the median counts; one more goes before them."""
Call = Callable[[], object]


def split(block: nn.Module, x: Tensor, dout: Tensor, trained: Sequence[Tensor]) -> dict[str, Tensor]:
    """Seconds of forward, backward and optimizer, and bytes by kind, as figures of a row.

    `measure.split.KIND_s` with `.low` and `.high`, the least and the most of the passes; the optimizer is torch's fused
    AdamW on copies of the trained parameters. `measure.bytes.KIND`: all parameters, gradients and AdamW's two moments
    of the trained ones, and the most that autograd holds for the backward pass.
    """
    wanted = [x, *trained]
    copies = [parameter.detach().clone().requires_grad_() for parameter in trained]
    for copy in copies:
        copy.grad = torch.zeros_like(copy)
    optimizer = torch.optim.AdamW(copies, fused=True)
    seconds: dict[str, list[float]] = {"forward": [], "backward": [], "optimizer": []}
    for _ in range(1 + PASSES):
        out: list[Tensor] = []
        seconds["forward"].append(_timed(lambda out=out: out.append(block(x)), x))  # type: ignore[misc]
        seconds["backward"].append(_timed(lambda out=out: torch.autograd.grad(out[0], wanted, dout), x))  # type: ignore[misc]
        seconds["optimizer"].append(_timed(optimizer.step, x))
    found: dict[str, float] = {}
    for kind, (_, *passes) in seconds.items():
        name = f"measure.split.{kind}_s"
        found |= {name: statistics.median(passes), f"{name}.low": min(passes), f"{name}.high": max(passes)}
    found |= {f"measure.bytes.{kind}": float(size) for kind, size in _bytes(block, x, trained).items()}
    return {name: torch.tensor(value, dtype=torch.float64) for name, value in found.items()}


def _timed(call: Call, x: Tensor) -> float:
    """Seconds until the work of a call is done."""
    if x.is_cuda:
        torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    if x.is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - start


def _bytes(block: nn.Module, x: Tensor, trained: Sequence[Tensor]) -> dict[str, int]:
    held = HeldActivations([*block.parameters(), x])
    with held:
        out = block(x)
    del out
    size = sum(parameter.nbytes for parameter in trained)
    whole = sum(parameter.nbytes for parameter in block.parameters())
    return {"parameters": whole, "gradients": size, "optimizer": 2 * size, "activations": held.most}
