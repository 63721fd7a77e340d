"""The right answer in float64, and how far from it a contender may be.

With S = scale * Q K^T (masked), P = softmax(S), O = P V, and a gradient dO of the output:
dV = P^T dO, dP = dO V^T, dS = P * (dP - rowsum(dO * O)), dQ = scale * dS K, dK = scale * dS^T Q
(Dao, arXiv 2307.08691, section 2.3). Both go through one key-value head and a block of query rows
at a time, and leave out the keys that the causal mask hides from the whole block, so that 32,768
tokens fit into memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

import torch

from bancada.suite import Case, Tensors
from bancada_attention._suites.problem import Shape, draw

BLOCK_BYTES = 1 << 26
"""About how much one block of scores takes: small enough to stay near the caches, large enough for the BLAS."""

MOST_PAIRS = 1 << 27
"""Query-key pairs that `tolerance` computes at most; of longer problems it takes evenly spaced heads."""

LEAST_NUMBERS, MORE_HEADS = 4096, 32
"""Of fewer numbers in the output, the plain error may be small by luck: it is taken over more heads, drawn anew."""

OUTPUT_FACTOR, GRADIENT_FACTOR, EPSILONS = 2.0, 3.0, 8.0


def forward_oracle(case: Case, inputs: Tensors) -> dict[str, torch.Tensor]:
    """`out` in float64."""
    return _oracle(Shape.of(case), inputs)


def training_oracle(case: Case, inputs: Tensors) -> dict[str, torch.Tensor]:
    """`out`, `dq`, `dk` and `dv` in float64."""
    return _oracle(Shape.of(case), inputs)


def _oracle(shape: Shape, inputs: Tensors) -> dict[str, torch.Tensor]:
    scale, training = 1 / math.sqrt(shape.dim), "dout" in inputs
    # [batch, kv_heads, group, ...]: the query heads that share a key-value head stand together.
    q, dout = _grouped(shape, inputs["q"]), _grouped(shape, inputs["dout"]) if training else None
    k, v = inputs["k"], inputs["v"]
    answer = {"out": torch.empty(q.shape, dtype=torch.float64, device=q.device)}
    if training:
        answer |= {"dq": torch.empty_like(answer["out"])}
        answer |= {f"d{name}": torch.zeros(k.shape, dtype=torch.float64, device=q.device) for name in "kv"}
    for b in range(shape.batch):
        for h in range(shape.kv_heads):
            keys, values = k[b, h].double(), v[b, h].double()
            for first, last, seen in _blocks(shape):
                rows, near, far = q[b, h, :, first:last].double(), keys[:seen], values[:seen]
                scores = (rows * scale) @ near.T
                if (mask := shape.mask(q.device, first, last)) is not None:
                    scores.masked_fill_(~mask[:, :seen], -math.inf)
                p = scores.sub_(scores.amax(-1, keepdim=True)).exp_()
                p /= p.sum(-1, keepdim=True)
                out = p @ far
                answer["out"][b, h, :, first:last] = out
                if dout is None:
                    continue
                grad = dout[b, h, :, first:last].double()
                answer["dv"][b, h, :seen] += torch.einsum("grk,grd->kd", p, grad)
                ds = (grad @ far.T).sub_((grad * out).sum(-1, keepdim=True)).mul_(p)
                answer["dq"][b, h, :, first:last] = ds @ near * scale
                answer["dk"][b, h, :seen] += torch.einsum("grk,grd->kd", ds, rows) * scale
    return {name: tensor if name in ("dk", "dv") else tensor.flatten(1, 2) for name, tensor in answer.items()}


def _grouped(shape: Shape, tensor: torch.Tensor) -> torch.Tensor:
    return tensor.reshape(shape.batch, shape.kv_heads, shape.group, *tensor.shape[2:])


def _blocks(shape: Shape) -> Iterator[tuple[int, int, int]]:
    """Blocks of query rows: the first, one past the last, and how many keys one of them sees at least."""
    rows = max(1, BLOCK_BYTES // (8 * shape.group * shape.keys))
    for first in range(0, shape.queries, rows):
        last = min(first + rows, shape.queries)
        yield first, last, min(shape.keys, last + shape.offset) if shape.causal else shape.keys


def tolerance(case: Case, inputs: Tensors, answer: Tensors) -> dict[str, float]:
    """The largest error allowed: twice (gradients: three times) that of plain torch in the case's dtype, by output.

    The plain computation is softmax(scale * q k^T + mask) v and its autograd, one key-value head and one block of query
    rows at a time; the rows are independent, and the blocks' dk and dv are added in fp32 or better, as a matrix product
    adds its terms. Where a problem has more than `MOST_PAIRS` query-key pairs, evenly spaced heads stand for all;
    where it is small, heads of the same shape with other random inputs are added.

    Where the plain error is 0, a method with another order of operations still has to round: 8 eps of the type that
    sums (fp32 for the half types) are added, of the scale of the terms summed, which is taken from the first block of
    rows, where probabilities are largest.
    """
    shape = Shape.of(case)
    plain, scale = dict.fromkeys(answer, 0.0), dict.fromkeys(answer, 0.0)
    _look(shape, inputs, answer, plain, scale)
    if answer["out"].numel() < LEAST_NUMBERS:
        more = replace(shape, batch=math.ceil(MORE_HEADS / shape.kv_heads))
        drawn = draw(more, inputs, inputs["q"].device, seed=1)
        _look(more, drawn, _oracle(more, drawn), plain, scale)
    eps = torch.finfo(torch.promote_types(shape.dtype, torch.float32)).eps
    return {
        name: (OUTPUT_FACTOR if name == "out" else GRADIENT_FACTOR) * plain[name] + EPSILONS * eps * scale[name]
        for name in answer
    }


def _look(shape: Shape, inputs: Tensors, answer: Tensors, plain: dict[str, float], scale: dict[str, float]) -> None:
    """Widens the plain errors and the scales of terms by those of a problem's heads."""
    for b, h in _sample(shape):
        one = {name: _head(shape, name, tensor, b, h) for name, tensor in inputs.items()}
        right = {name: _head(shape, name, tensor, b, h) for name, tensor in answer.items()}
        _widen(plain, _plain_error(shape, one, right))
        _widen(scale, _terms(shape, one))


def _sample(shape: Shape) -> list[tuple[int, int]]:
    """The (batch, key-value head) pairs that stand for all: every one, or evenly spaced ones of a long problem."""
    every = [(b, h) for b in range(shape.batch) for h in range(shape.kv_heads)]
    count = max(1, min(len(every), MOST_PAIRS // (shape.pairs * shape.group)))
    return [every[i * len(every) // count] for i in range(count)]


def _head(shape: Shape, name: str, tensor: torch.Tensor, b: int, h: int) -> torch.Tensor:
    return tensor[b, h] if name in ("k", "v", "dk", "dv") else _grouped(shape, tensor)[b, h]


def _widen(most: dict[str, float], found: Mapping[str, float]) -> None:
    for name, value in found.items():
        most[name] = max(most[name], value)


def _plain_error(shape: Shape, one: Tensors, right: Tensors) -> dict[str, float]:
    """max |x - answer| of the plain computation for one key-value head, by output name."""
    summing = torch.promote_types(shape.dtype, torch.float32)
    error = dict.fromkeys(right, 0.0)
    sums = {name: torch.zeros_like(right[name], dtype=summing) for name in ("dk", "dv") if name in right}
    for first, last, seen in _blocks(shape):
        q, k, v = one["q"][:, first:last], one["k"][:seen], one["v"][:seen]
        leaves = [tensor.detach().requires_grad_(bool(sums)) for tensor in (q, k, v)]
        out = _plain(shape, leaves, first, last)
        found = {"out": out.detach()}
        if sums:
            dq, dk, dv = torch.autograd.grad(out, leaves, one["dout"][:, first:last])
            found["dq"] = dq
            sums["dk"][:seen] += dk
            sums["dv"][:seen] += dv
        _widen(error, {n: float((x.double() - right[n][:, first:last]).abs().max()) for n, x in found.items()})
    rounded = {name: total.to(shape.dtype).double() for name, total in sums.items()}
    _widen(error, {name: float((total - right[name]).abs().max()) for name, total in rounded.items()})
    return error


def _plain(shape: Shape, leaves: list[torch.Tensor], first: int, last: int) -> torch.Tensor:
    q, *shared = leaves
    k, v = (tensor.expand(shape.group, -1, -1) for tensor in shared)  # autograd adds their gradients over the group
    scores = q @ k.mT * (1 / math.sqrt(shape.dim))
    if (mask := shape.mask(q.device, first, last)) is not None:
        scores = scores.masked_fill(~mask[:, : k.shape[1]], -math.inf)
    return torch.softmax(scores, dim=-1) @ v


def _terms(shape: Shape, one: Tensors) -> dict[str, float]:
    """The largest sum of absolute terms behind an element of each output, over the first block of rows."""
    first, last, seen = next(_blocks(shape))
    q, k, v = one["q"][:, first:last].double(), one["k"][:seen].double(), one["v"][:seen].double()
    scores = q @ k.T * (1 / math.sqrt(shape.dim))
    if (mask := shape.mask(q.device, first, last)) is not None:
        scores = scores.masked_fill(~mask[:, :seen], -math.inf)
    p = torch.softmax(scores, dim=-1)
    found = {"out": p @ v.abs()}
    if "dout" in one:
        dout = one["dout"][:, first:last].double().abs()
        dp = dout @ v.abs().T
        ds = p * (dp + (p * dp).sum(-1, keepdim=True)) / math.sqrt(shape.dim)
        found |= {"dq": ds @ k.abs(), "dk": ds.mT @ q.abs(), "dv": p.mT @ dout}
    return {name: float(terms.amax()) for name, terms in found.items()}
