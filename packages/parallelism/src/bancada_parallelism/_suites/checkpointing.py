"""A stack of feed-forward blocks x <- x + gelu(x W1) W2, whose activations are kept or computed again."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch

from bancada.ceilings import TORCH_DTYPES
from bancada.suite import DTYPES, Axis, Case, Contender, Run, Scalar, Technique, Tensors, Work

Tensor = torch.Tensor
Segment = Callable[..., Tensor]
Call = Callable[..., Tensor]

EXPANSION = 4
OUTPUT_FACTOR, GRADIENT_FACTOR, EPSILONS = 2.0, 3.0, 8.0

AXES = (
    Axis("batch", "b{}", minimum=1, unit="sequences", scale="log"),
    Axis("seq_len", "s{}", minimum=1, unit="tokens", scale="log"),
    Axis("hidden", "h{}", minimum=1, scale="log"),
    Axis("layers", "l{}", minimum=1, unit="layers", scale="log"),
    Axis("dtype", "{}", str, choices=DTYPES),
)
DEFAULTS: dict[str, Scalar] = {"batch": 4, "seq_len": 256, "hidden": 128, "layers": 8, "dtype": "fp32"}
SMALL: dict[str, Scalar] = {"batch": 2, "seq_len": 16, "hidden": 16, "layers": 4}


def inputs(case: Case, device: str, seed: int) -> dict[str, Tensor]:
    """`x` and `dout` [batch, seq_len, hidden], `w1` [layers, hidden, 4 hidden], `w2` [layers, 4 hidden, hidden]."""
    batch, seq, hidden, layers = (case.number(name) for name in ("batch", "seq_len", "hidden", "layers"))
    dtype, wide = TORCH_DTYPES[case.word("dtype")], EXPANSION * hidden
    generator = torch.Generator().manual_seed(seed)
    shapes = {"x": (batch, seq, hidden), "dout": (batch, seq, hidden)}
    weights = {"w1": (layers, hidden, wide), "w2": (layers, wide, hidden)}
    drawn = {name: torch.randn(shape, generator=generator, dtype=torch.float64) for name, shape in shapes.items()}
    drawn |= {
        name: torch.randn(shape, generator=generator, dtype=torch.float64) / math.sqrt(shape[1])
        for name, shape in weights.items()
    }
    return {name: tensor.to(device, dtype) for name, tensor in drawn.items()}


def _segment(x: Tensor, *weights: Tensor) -> Tensor:
    """Some blocks; their w1 and w2 in turn."""
    for w1, w2 in zip(weights[::2], weights[1::2], strict=True):
        x = x + torch.nn.functional.gelu(x @ w1) @ w2
    return x


def _evaluate(given: Tensors, call: Call, blocks: int) -> dict[str, Tensor]:
    """Output and gradients; `call(segment, x, *weights)` runs each segment of `blocks` blocks."""
    x = given["x"].detach().requires_grad_()
    layers = [[given[name][i].detach().requires_grad_() for name in ("w1", "w2")] for i in range(len(given["w1"]))]
    weights = [weight for layer in layers for weight in layer]
    out = x
    for first in range(0, len(weights), 2 * blocks):
        out = call(_segment, out, *weights[first : first + 2 * blocks])
    dx, *dweights = torch.autograd.grad(out, [x, *weights], given["dout"])
    return {"out": out.detach(), "dx": dx, "dw1": torch.stack(dweights[::2]), "dw2": torch.stack(dweights[1::2])}


def _plain(segment: Segment, *args: Tensor) -> Tensor:
    return segment(*args)


def oracle(case: Case, given: Tensors) -> dict[str, Tensor]:
    """`out`, `dx`, `dw1` and `dw2` in float64."""
    return _evaluate({name: tensor.double() for name, tensor in given.items()}, _plain, 1)


def tolerance(case: Case, given: Tensors, answer: Tensors) -> dict[str, float]:
    """Twice (gradients: three times) the error of plain torch in the case's dtype, and 8 eps of the largest value.

    Computing again does the same operations in the same order, so the errors are the same where kernels are
    deterministic; the rest is for those that are not.
    """
    found, dtype = _evaluate(given, _plain, 1), given["x"].dtype
    eps = torch.finfo(torch.promote_types(dtype, torch.float32)).eps
    return {
        name: (OUTPUT_FACTOR if name == "out" else GRADIENT_FACTOR) * float((found[name].double() - right).abs().max())
        + EPSILONS * eps * float(right.abs().max())
        for name, right in answer.items()
    }


def work(case: Case) -> Work:
    """48 * batch * seq_len * hidden^2 * layers operations: two products forward, four backward, none again.

    Least bytes: the weights read in forward and in backward, their gradients written, and x, dout, out, dx once.
    """
    batch, seq, hidden, layers = (case.number(name) for name in ("batch", "seq_len", "hidden", "layers"))
    weights = 2 * EXPANSION * hidden * hidden * layers
    numbers = 3 * weights + 4 * batch * seq * hidden
    return Work(6.0 * batch * seq * weights, float(numbers * TORCH_DTYPES[case.word("dtype")].itemsize))


def _kept(case: Case, given: Tensors) -> Run:
    return partial(_evaluate, given, _plain, 1)


def _torch(case: Case, given: Tensors) -> Run:
    from torch.utils.checkpoint import checkpoint

    return partial(_evaluate, given, partial(checkpoint, use_reentrant=False), 1)


def _ours(case: Case, given: Tensors) -> Run:
    from bancada_parallelism import checkpoint

    return partial(_evaluate, given, checkpoint, 1)


def _ours_segments(case: Case, given: Tensors) -> Run:
    from bancada_parallelism import checkpoint

    return partial(_evaluate, given, checkpoint, math.isqrt(case.number("layers")))


TECHNIQUES = (
    Technique(
        id="kept-activations",
        title="Activations kept",
        title_pt="Ativações guardadas",
        family="parallelism",
        summary="Autograd keeps what each operation needs for its gradient. Memory grows with every layer.",
        formula="memory = layers * activations of a layer; time = forward + backward",
        paper="Korthikanti et al., Reducing Activation Recomputation, arXiv 2205.05198",
    ),
    Technique(
        id="activation-checkpointing",
        title="Activation checkpointing",
        title_pt="Recomputação de ativações (checkpointing)",
        family="parallelism",
        summary=(
            "Only the input of each segment is kept, and backward runs the segment again from the random state of its "
            "first run. Gradients are the same; one more forward is paid for the memory."
        ),
        formula="memory = segments * input + activations of one segment; time = 2 forwards + backward",
        paper="Chen et al., Training Deep Nets with Sublinear Memory Cost, arXiv 1604.06174",
        files=("packages/parallelism/src/bancada_parallelism/checkpointing/checkpoint.py",),
        snippet="""\
import torch
from bancada_parallelism import checkpoint

block = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Dropout(0.1), torch.nn.Linear(256, 64))
x = torch.randn(8, 64, requires_grad=True)
checkpoint(block, x).sum().backward()  # the dropout of the second run is that of the first
print(x.grad.shape)
""",
    ),
)

CONTENDERS = (
    Contender("torch-kept", "kept-activations", "peer", _kept, label="torch autograd, everything kept", reference=True),
    Contender("torch-checkpoint", "activation-checkpointing", "peer", _torch, label="torch checkpoint, each block"),
    Contender("checkpoint", "activation-checkpointing", "bancada", _ours, label="checkpoint, each block"),
    Contender(
        "checkpoint-sqrt",
        "activation-checkpointing",
        "bancada",
        _ours_segments,
        label="checkpoint, √layers blocks",
    ),
)
