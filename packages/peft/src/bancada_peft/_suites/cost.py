"""`peft.cost`: one forward and backward pass of a Transformer block, adapted by each method.

All contenders compute the same function of x. The case gives effective weights W; each method's frozen weights are
chosen so that its adapter, away from its beginning, makes W of them: W - s B A for LoRA, c W - s B A with magnitudes
||W|| for DoRA, W / l for (IA)^3. (A bottleneck network changes no weight: its `up` is zero.) So outputs and input
gradients have one right answer, and time and memory compare like with like. The gradients of the trained parameters
are computed in the timed call; the package's tests hold them against the references.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from bancada.suite import Axis, Case, Scalar, Tensors, Work
from bancada_peft._suites.block import PROJECTIONS, Block, heads_of, shapes_of

DTYPES = {"fp64": torch.float64, "fp32": torch.float32, "bf16": torch.bfloat16}
ALPHA = 16
AXES = (
    Axis("batch", "b{}", int, minimum=1),
    Axis("seq_len", "s{}", int, minimum=1, unit="tokens", scale="log"),
    Axis("hidden", "h{}", int, minimum=8, scale="log"),
    Axis("rank", "r{}", int, minimum=1, scale="log"),
    Axis("dtype", "{}", str, choices=tuple(DTYPES)),
)
DEFAULTS: dict[str, Scalar] = {"batch": 2, "seq_len": 256, "hidden": 512, "rank": 16, "dtype": "fp32"}
SMALL: dict[str, Scalar] = {"batch": 1, "seq_len": 5, "hidden": 16, "rank": 2, "dtype": "fp32"}
DRAWS = 4
LEAST_NUMBERS = 4096
"""Of fewer numbers in the output, the plain error may be small by luck: it is the largest over further draws."""
OUTPUT_FACTOR, GRADIENT_FACTOR, EPSILONS = 2.0, 3.0, 8.0


def valid(case: Case) -> str | None:
    """Why a case has no block."""
    hidden = case.number("hidden")
    return f"hidden={hidden}: must be divisible by its {heads_of(hidden)} heads" if hidden % heads_of(hidden) else None


def inputs(case: Case, device: str, seed: int) -> dict[str, Tensor]:
    """x and the gradient of the output; W, A, B, c and l for every projection."""
    generator = torch.Generator().manual_seed(seed)
    hidden, r, dtype = case.number("hidden"), case.number("rank"), DTYPES[case.word("dtype")]

    def normal(*shape: int, scale: float = 1.0) -> Tensor:
        return (torch.randn(shape, generator=generator) * scale).to(device)

    shape = (case.number("batch"), case.number("seq_len"), hidden)
    found = {"x": normal(*shape).to(dtype), "dout": normal(*shape).to(dtype)}
    for name, (outer, inner) in shapes_of(hidden).items():
        found[f"w.{name}"] = normal(outer, inner, scale=1 / math.sqrt(inner)).to(dtype)
        found[f"a.{name}"] = normal(r, inner, scale=1 / math.sqrt(inner))
        found[f"b.{name}"] = normal(outer, r, scale=0.1 * r / ALPHA / math.sqrt(r))
        found[f"c.{name}"] = torch.rand(outer, generator=generator).to(device) + 0.5
        size = inner if name == "down_proj" else outer
        found[f"l.{name}"] = torch.rand(size, generator=generator).to(device) + 0.5
    return found


STATIC = tuple(f"{kind}.{name}" for kind in "wabcl" for name in PROJECTIONS)


def answer(case: Case, given: Tensors) -> dict[str, Tensor]:
    """`out` and `dx` with the effective weights in float64."""
    block = Block(case.number("hidden"), {name: given[f"w.{name}"].double() for name in PROJECTIONS})
    return forward_backward(block, given["x"].double(), given["dout"].double())


def forward_backward(block: Block, x: Tensor, dout: Tensor) -> dict[str, Tensor]:
    """`out` and `dx` of a block with nothing trained."""
    x = x.detach().requires_grad_()
    out = block.requires_grad_(False)(x)
    (dx,) = torch.autograd.grad(out, x, dout)
    return {"out": out.detach(), "dx": dx}


def tolerance(case: Case, given: Tensors, right: Tensors) -> dict[str, float]:
    """Twice (dx: three times) the error of plain torch in the case's type, and 8 eps of the largest number.

    Plain is the worst of three blocks: with W itself; with W - s B A and s B A, rounded to that type and added; and
    with DoRA's weight computed in that type. A method that keeps its frozen weights in it has those roundings too.
    """
    found = _plain(case, given, right)
    if right["out"].numel() < LEAST_NUMBERS:
        for draw in range(DRAWS):
            other = inputs(case, given["x"].device.type, 1000 + draw)
            more = _plain(case, other, answer(case, other))
            found = {name: max(found[name], more[name]) for name in found}
    eps = torch.finfo(torch.promote_types(given["x"].dtype, torch.float32)).eps
    return {
        name: (OUTPUT_FACTOR if name == "out" else GRADIENT_FACTOR) * found[name]
        + EPSILONS * eps * float(right[name].abs().max())
        for name in right
    }


def _plain(case: Case, given: Tensors, right: Tensors) -> dict[str, float]:
    dtype, found = given["x"].dtype, dict.fromkeys(right, 0.0)
    split = {name: frozen_lora(case, given, name) + delta(case, given, name).to(dtype) for name in PROJECTIONS}
    for weights in ({name: given[f"w.{name}"] for name in PROJECTIONS}, split, _plain_dora(case, given)):
        got = forward_backward(Block(case.number("hidden"), weights), given["x"], given["dout"])
        found = {name: max(found[name], float((got[name].double() - right[name]).abs().max())) for name in right}
    return found


def _plain_dora(case: Case, given: Tensors) -> dict[str, Tensor]:
    found = {}
    for name in PROJECTIONS:
        W = given[f"w.{name}"]
        V = frozen_dora(case, given, name) + delta(case, given, name).to(W.dtype)
        found[name] = W.norm(dim=1, keepdim=True) / V.norm(dim=1, keepdim=True) * V
    return found


def delta(case: Case, given: Tensors, name: str) -> Tensor:
    """s B A in float64."""
    s = ALPHA / case.number("rank")
    return given[f"b.{name}"].double() @ given[f"a.{name}"].double() * s


def frozen_lora(case: Case, given: Tensors, name: str) -> Tensor:
    """W - s B A, rounded to the case's type."""
    W = given[f"w.{name}"]
    return (W.double() - delta(case, given, name)).to(W.dtype)


def frozen_dora(case: Case, given: Tensors, name: str) -> Tensor:
    """c W - s B A, rounded: with magnitudes ||W|| it makes W again."""
    W = given[f"w.{name}"]
    return (given[f"c.{name}"].double()[:, None] * W.double() - delta(case, given, name)).to(W.dtype)


def frozen_ia3(given: Tensors, name: str) -> Tensor:
    """W with the factors divided out, rounded."""
    W, l = given[f"w.{name}"], given[f"l.{name}"].double()
    return (W.double() / (l if name == "down_proj" else l[:, None])).to(W.dtype)


def work(case: Case) -> Work:
    """What no method can avoid: the products of the forward pass and of the input's gradient, each weight read twice.

    Full fine-tuning's gradients of the weights, and whatever adapters add, are on top.
    """
    batch, seq, hidden = (case.number(name) for name in ("batch", "seq_len", "hidden"))
    weights = sum(outer * inner for outer, inner in shapes_of(hidden).values())
    attention = 12 * batch * hidden * seq * (seq + 1) / 2  # six products over the causal half
    size = DTYPES[case.word("dtype")].itemsize
    return Work(4 * batch * seq * weights + attention, size * (2 * weights + 4 * batch * seq * hidden))
