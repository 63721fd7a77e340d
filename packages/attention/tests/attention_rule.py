"""Random attention problems, their answer in float64, and the one rule that says how far off a result may be.

The answer is written from the formulas (Dao, arXiv 2307.08691, section 2), without the package and without autograd.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

OUTPUT_FACTOR, GRADIENT_FACTOR, EPSILONS = 2.0, 3.0, 8.0
NAMES = ("out", "lse", "dq", "dk", "dv")

Attend = Callable[..., Tensor | tuple[Tensor, Tensor]]


@dataclass
class Problem:
    """Inputs, and the gradients that arrive at output and log-sum-exp."""

    q: Tensor
    k: Tensor
    v: Tensor
    causal: bool = False
    mask: Tensor | None = None
    scale: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        generator = torch.Generator().manual_seed(self.seed)
        self.dout = torch.randn(self.q.shape, generator=generator, dtype=torch.float64).to(self.q.dtype)
        summing = torch.promote_types(self.q.dtype, torch.float32)
        self.dlse = torch.randn(self.q.shape[:3], generator=generator, dtype=torch.float64).to(summing)

    @property
    def groups(self) -> int:
        return self.q.shape[1] // self.k.shape[1]

    @property
    def factor(self) -> float:
        return 1 / math.sqrt(self.q.shape[3]) if self.scale is None else self.scale

    def visible(self) -> Tensor:
        """[batch, 1, q_len, k_len], True where a query sees a key; bottom-right where causal."""
        q_len, k_len = self.q.shape[2], self.k.shape[2]
        visible = torch.ones(self.q.shape[0], 1, q_len, k_len, dtype=torch.bool)
        if self.causal:
            visible &= torch.arange(k_len)[None, :] <= torch.arange(q_len)[:, None] + k_len - q_len
        if self.mask is not None:
            visible &= self.mask[:, None, None, :]
        return visible

    def leaves(self) -> tuple[Tensor, Tensor, Tensor]:
        """q, k, v with the same strides, ready to receive gradients."""
        return tuple(x.detach().requires_grad_() for x in (self.q, self.k, self.v))


def make(
    batch: int,
    heads: int,
    q_len: int,
    k_len: int,
    head_dim: int,
    *,
    kv_heads: int | None = None,
    dtype: torch.dtype = torch.float32,
    causal: bool = False,
    mask: Tensor | None = None,
    scale: float | None = None,
    layouts: tuple[str, str, str] = ("contiguous",) * 3,
    seed: int = 0,
) -> Problem:
    """A problem with normal inputs in the given layouts."""
    generator = torch.Generator().manual_seed(seed)
    shapes = [(batch, heads, q_len, head_dim)] + 2 * [(batch, kv_heads or heads, k_len, head_dim)]
    q, k, v = (layout(s, name, dtype, generator) for s, name in zip(shapes, layouts, strict=True))
    return Problem(q, k, v, causal, mask, scale, seed + 1)


LAYOUTS = ("contiguous", "transposed", "sliced", "inner", "expanded-batch", "expanded-heads", "expanded-length")


def layout(shape: tuple[int, ...], name: str, dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    """Normal numbers of that shape, laid out in memory as `name` says."""
    batch, heads, length, dim = shape

    def normal(*size: int) -> Tensor:
        return torch.randn(size, generator=generator, dtype=torch.float64).to(dtype)

    if name == "contiguous":
        return normal(*shape)
    if name == "transposed":  # as a model's projections leave it: [batch, length, heads, dim]
        return normal(batch, length, heads, dim).transpose(1, 2)
    if name == "sliced":  # a part of a larger cache, not aligned
        return normal(batch + 1, heads + 1, length + 3, dim + 1)[1:, :heads, 2 : length + 2, 1:]
    if name == "inner":  # the last dimension is not the fast one
        return normal(batch, heads, dim, length).transpose(2, 3)
    single = {"expanded-batch": (1, heads, length, dim), "expanded-heads": (batch, 1, length, dim)}
    return normal(*single.get(name, (batch, heads, 1, dim))).expand(shape)


def answer(problem: Problem) -> dict[str, Tensor]:
    """Output, log-sum-exp and all gradients, in float64, from the formulas."""
    return _formulas(problem)[0]


def _formulas(problem: Problem) -> tuple[dict[str, Tensor], dict[str, float]]:
    """The answer, and for each name the largest sum of absolute terms behind one of its elements."""
    scale, groups = problem.factor, problem.groups
    q, dout, dlse = problem.q.double(), problem.dout.double(), problem.dlse.double()
    k, v = problem.k.double(), problem.v.double()
    if problem.mask is not None:
        k, v = (x.masked_fill(~problem.mask[:, None, :, None], 0.0) for x in (k, v))
    k, v = (x.repeat_interleave(groups, dim=1) for x in (k, v))
    scores = (scale * q @ k.mT).masked_fill(~problem.visible(), -math.inf)
    lse = torch.logsumexp(scores, -1) if scores.shape[-1] else torch.full(scores.shape[:-1], -math.inf).double()
    p = torch.exp(scores - lse.masked_fill(lse == -math.inf, 0.0)[..., None])
    out = p @ v
    dp = dout @ v.mT
    ds = p * (dp - (dout * out).sum(-1, keepdim=True) + dlse[..., None])
    summed = lambda x: x.unflatten(1, (problem.k.shape[1], groups)).sum(2)  # noqa: E731
    found = {
        "out": out,
        "lse": lse,
        "dq": scale * ds @ k,
        "dk": summed(scale * ds.mT @ q),
        "dv": summed(p.mT @ dout),
    }
    dp_terms = dout.abs() @ v.abs().mT
    ds_terms = abs(scale) * p * (dp_terms + (p * dp_terms).sum(-1, keepdim=True) + dlse.abs()[..., None])
    terms = {
        "out": p @ v.abs(),
        "lse": (abs(scale) * q.abs() @ k.abs().mT).masked_fill(~problem.visible(), 0.0) + 1.0,
        "dq": ds_terms @ k.abs(),
        "dk": summed(ds_terms.mT @ q.abs()),
        "dv": summed(p.mT @ dout.abs()),
    }
    return found, {name: float(x.amax()) if x.numel() else 0.0 for name, x in terms.items()}


def plain(problem: Problem) -> Attend:
    """Attention as anybody writes it, in the inputs' dtype; rows that see no key are set to 0."""
    visible = problem.visible()
    alive = visible.any(-1, keepdim=True)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        k, v = (x.repeat_interleave(problem.groups, dim=1) for x in (k, v))
        scores = (q @ k.mT * problem.factor).masked_fill(~visible & alive, -math.inf)
        lse = (
            torch.logsumexp(scores.to(problem.dlse.dtype), -1)
            if scores.shape[-1]
            else scores.sum(-1).to(problem.dlse.dtype)
        )
        lse = lse.masked_fill(~alive[..., 0], -math.inf)
        return torch.softmax(scores, -1) * alive @ v, lse

    return attend


def evaluate(problem: Problem, attend: Attend) -> dict[str, Tensor]:
    """Outputs and gradients of `attend(q, k, v)`, which returns the output, or output and lse."""
    leaves = problem.leaves()
    results = attend(*leaves)
    if isinstance(results, tuple):
        gradients = torch.autograd.grad(results, leaves, (problem.dout, problem.dlse))
        names = NAMES
    else:
        gradients = torch.autograd.grad(results, leaves, problem.dout)
        names, results = ("out", "dq", "dk", "dv"), (results,)
    return dict(zip(names, (*(x.detach() for x in results), *gradients), strict=True))


def check(problem: Problem, ways: dict[str, Attend], names: Iterable[str] = NAMES) -> None:
    """Every way's results are as near the float64 answer as the rule of DESIGN.md, section 6, demands.

    |x - answer| <= 2 (gradients: 3) times the error of `plain` in the same dtype
    + 8 eps of the dtype that sums, times the scale of the terms
    + half a unit in the last place of the result (no result can be nearer than its dtype allows).
    Ways that return no log-sum-exp are compared with the answer where none of its gradient arrives.
    """
    for name, attend in ways.items():
        found = evaluate(problem, attend)
        compared = problem if "lse" in found else _without_dlse(problem)
        right, terms = _formulas(compared)
        base = evaluate(_unhidden(compared), plain(compared))
        for output in (output for output in names if output in found):
            limit = _limit(output, base[output], right[output], terms[output], problem.q.dtype)
            compare(f"{name}: {output}", found[output], right[output], limit)


def check_plain(problem: Problem) -> None:
    """The yardstick itself, torch's eager formula: within 32 eps of the scale of the terms, whatever the problem."""
    right, terms = _formulas(problem)
    for output, x in evaluate(_unhidden(problem), plain(problem)).items():
        scores = max(1.0, terms["lse"])  # a score's rounding enters every probability as a relative error
        compare(
            f"plain: {output}", x, right[output], 32 * torch.finfo(x.dtype).eps * scores * max(terms[output], 1e-30)
        )


def compare(what: str, found: Tensor, right: Tensor, limit: float) -> None:
    """Same shape, same infinities, no NaN, and nowhere further apart than `limit`."""
    assert found.shape == right.shape, f"{what}: shape {list(found.shape)}, not {list(right.shape)}"
    assert not found.isnan().any(), f"{what}: NaN"
    infinite = right.isinf()
    assert torch.equal(found.isinf(), infinite), f"{what}: infinities in other places"
    assert torch.equal(found[infinite].double(), right[infinite]), f"{what}: infinities of another sign"
    error = float((found.double() - right)[~infinite].abs().amax()) if (~infinite).any() else 0.0
    assert error <= limit, f"{what}: error {error:.3g}, allowed {limit:.3g}"


def _limit(output: str, base: Tensor, right: Tensor, terms: float, dtype: torch.dtype) -> float:
    finite = ~right.isinf()
    if not finite.any():
        return 0.0
    factor = GRADIENT_FACTOR if output.startswith("d") else OUTPUT_FACTOR
    plain_error = float((base.double() - right)[finite].abs().amax())
    summing = torch.promote_types(dtype, torch.float32)
    last_place = torch.finfo(dtype if output != "lse" else summing).eps / 2 * float(right[finite].abs().amax())
    return factor * plain_error + EPSILONS * torch.finfo(summing).eps * terms + last_place


def _without_dlse(problem: Problem) -> Problem:
    other = Problem(problem.q, problem.k, problem.v, problem.causal, problem.mask, problem.scale, problem.seed)
    other.dlse.zero_()
    return other


def _unhidden(problem: Problem) -> Problem:
    """The same with 0 where keys are hidden: `plain` has no defence against a NaN there."""
    if problem.mask is None:
        return problem
    k, v = (x.masked_fill(~problem.mask[:, None, :, None], 0.0) for x in (problem.k, problem.v))
    other = Problem(problem.q, k, v, problem.causal, problem.mask, problem.scale, problem.seed)
    other.dlse = problem.dlse
    return other
