"""What the optimizer suites ask: axes, parameters shaped like a Transformer's, gradients, the answer and the work."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from bancada.ceilings import TORCH_DTYPES
from bancada.suite import Axis, Case, Scalar, Tensors, Work
from bancada_optimizers import adamw_step, lion_step, muon_step, sgd_step

RULES = ("adamw", "adamw-8bit", "sgd", "lion", "muon")
LR, WEIGHT_DECAY, EPS, MOMENTUM = 1e-3, 0.1, 1e-8, 0.9
ADAMW_BETAS, LION_BETAS, MUON_MOMENTUM = (0.9, 0.95), (0.9, 0.99), 0.95
GRADIENTS = ("g0", "g1", "g")
"""Of the two updates that make the state, and of the one that is timed and judged."""

LEAST_PUSH = 1e-4
"""No sign that Lion takes is of a number nearer to 0, so that rounding flips none. Gradients are about 0.1."""

OPERATIONS = {"adamw": 14.0, "adamw-8bit": 14.0, "sgd": 6.0, "lion": 8.0, "muon": 6.0}
"""Floating-point operations on an element of a vector or matrix, Newton-Schulz aside."""

SIZES = (
    Axis("layers", "l{}", minimum=1, scale="log"),
    Axis("width", "w{}", minimum=8, scale="log"),
    Axis("dtype", "{}", str, choices=("fp64", "fp32", "bf16")),
)
STEP_AXES = (Axis("rule", "{}", str, choices=RULES), *SIZES)
DEFAULTS: dict[str, Scalar] = {"layers": 2, "width": 256, "dtype": "fp32"}
SMALL: dict[str, Scalar] = {"layers": 1, "width": 64}


def shapes(case: Case) -> list[tuple[int, ...]]:
    """Of each layer: the attention's [3d, d] and [d, d], the feed-forward's [4d, d] and [d, 4d], two norms [d]."""
    d = case.number("width")
    return [(3 * d, d), (d, d), (4 * d, d), (d, 4 * d), (d,), (d,)] * case.number("layers")


def views(case: Case, flat: Tensor) -> list[Tensor]:
    """The parameters (or gradients) that lie one after another in a flat tensor."""
    sizes = shapes(case)
    parts = torch.split(flat, [math.prod(shape) for shape in sizes])
    return [part.view(shape) for part, shape in zip(parts, sizes, strict=True)]


def count(case: Case) -> int:
    """How many parameters there are."""
    return sum(math.prod(shape) for shape in shapes(case))


def step_inputs(case: Case, device: str, seed: int) -> dict[str, Tensor]:
    """`p`, parameters of about 0.02, and gradients `g0`, `g1` and `g` of about 0.1, flat [params].

    Drawn on the CPU, then rounded and moved: the same numbers on every device.
    """
    generator = torch.Generator().manual_seed(seed)
    dtype, many = TORCH_DTYPES[case.word("dtype")], count(case)
    drawn = {name: torch.randn(many, generator=generator, dtype=torch.float32) for name in ("p", *GRADIENTS)}
    found = {"p": (drawn["p"] * 0.02).to(dtype)}
    m = torch.zeros(many, dtype=torch.float64)
    for name in GRADIENTS:
        g = (drawn[name] * 0.1).to(dtype)
        b1, b2 = LION_BETAS
        push = b1 * m + (1 - b1) * g.double()
        away = torch.where(push < 0, -1.0, 1.0) * 4 * LEAST_PUSH / (1 - b1)
        found[name] = g = torch.where(push.abs() < LEAST_PUSH, g.double() + away, g.double()).to(dtype)
        m = b2 * m + (1 - b2) * g.double()
    return {name: tensor.to(device) for name, tensor in found.items()}


def state_inputs(case: Case, device: str, seed: int) -> dict[str, Tensor]:
    """`g`, a gradient for every parameter, flat [params]."""
    return {"g": _gradient(case, device, seed)}


def _gradient(case: Case, device: str, seed: int) -> Tensor:
    """Gradients of about 0.1, none of them 0, flat [params]."""
    generator = torch.Generator().manual_seed(seed)
    g = torch.randn(count(case), generator=generator, dtype=torch.float32) * 0.1
    g = torch.where(g.abs() < LEAST_PUSH, LEAST_PUSH, g)
    return g.to(device, TORCH_DTYPES[case.word("dtype")])


def _updates(case: Case, inputs: Tensors, dtype: torch.dtype, ns_dtype: torch.dtype | None) -> Iterator[Tensor]:
    """Each parameter after three updates by the rule's reference in `dtype`."""
    rule = case.word("rule")
    gradients = zip(*(views(case, inputs[name]) for name in GRADIENTS), strict=True)
    for p, of_each in zip(views(case, inputs["p"]), gradients, strict=True):
        p = p.to(dtype)
        m, v = torch.zeros_like(p), torch.zeros_like(p)
        for t, g in enumerate(of_each, start=1):
            if rule == "sgd":
                p, m = sgd_step(p, g, m, lr=LR, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY, nesterov=True)
            elif rule == "lion":
                p, m = lion_step(p, g, m, lr=LR, betas=LION_BETAS, weight_decay=WEIGHT_DECAY)
            elif rule == "muon" and p.dim() == 2:
                p, m = muon_step(p, g, m, lr=LR, momentum=MUON_MOMENTUM, weight_decay=WEIGHT_DECAY, dtype=ns_dtype)
            else:
                p, m, v = adamw_step(p, g, m, v, t, lr=LR, betas=ADAMW_BETAS, eps=EPS, weight_decay=WEIGHT_DECAY)
        yield p


def step_oracle(case: Case, inputs: Tensors) -> dict[str, Tensor]:
    """`p` after three updates in float64; for 8-bit states too, the exact AdamW."""
    return {"p": torch.cat([p.flatten() for p in _updates(case, inputs, torch.float64, None)])}


def step_tolerance(case: Case, inputs: Tensors, answer: Tensors) -> dict[str, float]:
    """Twice the error of the plain computation, and 8 eps (of fp32 for bf16) of the largest parameter.

    Plain is the rule's own formula in the case's dtype, state included; for Muon with its published bf16 Newton-Schulz;
    for 8-bit states AdamW with states rounded to the nearest codes in blocks of 256.
    """
    dtype = TORCH_DTYPES[case.word("dtype")]
    if case.word("rule") == "adamw-8bit":
        plain = _rounded(case, inputs)
    else:
        ns = torch.bfloat16 if case.word("rule") == "muon" else None
        plain = torch.cat([p.flatten() for p in _updates(case, inputs, dtype, ns)]).double()
    eps = torch.finfo(torch.promote_types(dtype, torch.float32)).eps
    return {"p": 2 * float((plain - answer["p"]).abs().max()) + 8 * eps * float(answer["p"].abs().max())}


def _rounded(case: Case, inputs: Tensors) -> Tensor:
    from bancada_optimizers import AdamW8bit

    flat = inputs["p"].clone()
    params = [torch.nn.Parameter(view) for view in views(case, flat)]
    optimizer = AdamW8bit(params, lr=LR, betas=ADAMW_BETAS, eps=EPS, weight_decay=WEIGHT_DECAY)
    for name in GRADIENTS:
        for p, g in zip(params, views(case, inputs[name]), strict=True):
            p.grad = g
        optimizer.step()
    return flat.double()


def step_work(case: Case) -> Work:
    """Each element's operations and least traffic: parameter and state read and written, gradient read.

    State counts in the parameter's dtype, 8-bit state as one byte a moment. A matrix under Muon adds five
    Newton-Schulz steps, each of 4 s^2 l + 2 s^3 operations for the shorter side s and the longer one l.
    """
    rule, size = case.word("rule"), TORCH_DTYPES[case.word("dtype")].itemsize
    flops = traffic = 0.0
    for shape in shapes(case):
        elements = math.prod(shape)
        matrix = rule == "muon" and len(shape) == 2
        by = "adamw" if rule == "muon" and not matrix else rule
        flops += OPERATIONS[by] * elements
        state = {"adamw": 2.0 * size, "adamw-8bit": 2.0}.get(by, float(size))
        traffic += elements * (3 * size + 2 * state)
        if matrix:
            short, long = min(shape), max(shape)
            flops += 5 * (4.0 * short * short * long + 2.0 * short**3)
    return Work(flops, traffic)


def state_oracle(case: Case, inputs: Tensors) -> dict[str, Tensor]:
    """`moved`, the share of the parameters that an update changed: all of them."""
    return {"moved": torch.ones((), dtype=torch.float64)}


def state_tolerance(case: Case, inputs: Tensors, answer: Tensors) -> dict[str, float]:
    """One in a thousand may get an update that is exactly 0."""
    return {"moved": 1e-3}


def state_work(case: Case) -> Work:
    """Parameters and gradients read, parameters written; state, which is what is measured, is left out."""
    return Work(0.0, 3.0 * count(case) * TORCH_DTYPES[case.word("dtype")].itemsize)
