"""What `flash_attention` promises beside its numbers: memory, no uninitialised output, autocast, refusals."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import attention_rule as rule
import jaxtyping
import pytest
import torch
from memory_peak import peak_bytes

import bancada_attention
from bancada_attention import attention, flash_attention
from bancada_attention.flash import api, tiled, tiles

TILED = partial(flash_attention, backend="tiled")


def gradients(problem: rule.Problem, **options: object) -> tuple[torch.Tensor, ...]:
    leaves = problem.leaves()
    return torch.autograd.grad(TILED(*leaves, **options), leaves, problem.dout)


# Memory


def test_memory_is_linear_in_the_sequence() -> None:
    """Twice the sequence: at most twice the memory; and far from a matrix of scores, which takes 268 MB at 8,192."""
    forward, backward = {}, {}
    for length in (4096, 8192):
        problem = rule.make(1, 1, length, length, 16)
        forward[length] = peak_bytes(lambda p=problem: TILED(p.q, p.k, p.v))
        leaves = problem.leaves()
        out = TILED(*leaves)
        backward[length] = peak_bytes(lambda o=out, x=leaves, p=problem: torch.autograd.grad(o, x, p.dout))
    scores = 8192 * 8192 * 4
    assert forward[8192] <= 2 * forward[4096]
    assert backward[8192] <= 2 * backward[4096]
    assert forward[8192] < 0.05 * scores
    assert backward[8192] < 0.10 * scores


def test_the_memory_measure_sees_a_matrix_of_scores() -> None:
    problem = rule.make(1, 2, 1024, 1024, 16)
    assert peak_bytes(lambda: attention(problem.q, problem.k, problem.v)) >= 2 * 1024 * 1024 * 4


# Uninitialised memory


def poisoned_empty(*args: object, **options: object) -> torch.Tensor:
    return torch.full(*(args if isinstance(args[0], (tuple, torch.Size)) else (args,)), math.nan, **options)  # type: ignore[call-overload]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize(
    ("q_len", "k_len", "causal", "hidden"),
    [
        (1, 1, False, 0),
        (70, 70, True, 0),
        (150, 40, True, 0),
        (40, 700, True, 650),
        (40, 0, False, 0),
        (40, 50, True, 50),
    ],
)
def test_uninitialised_memory_reaches_no_result(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, q_len: int, k_len: int, causal: bool, hidden: int
) -> None:
    """With NaN in every buffer that torch.empty returns, not one bit of any result changes."""
    mask = torch.ones(2, k_len, dtype=torch.bool)
    mask[0, :hidden] = False
    problem = rule.make(2, 4, q_len, k_len, 24, kv_heads=2, dtype=dtype, causal=causal, mask=mask if hidden else None)
    attend = partial(TILED, causal=causal, key_padding_mask=problem.mask, return_lse=True)
    right = rule.evaluate(problem, attend)
    monkeypatch.setattr(torch, "empty", poisoned_empty)
    assert torch.empty(3, dtype=dtype).isnan().all()
    for name, x in rule.evaluate(problem, attend).items():
        assert torch.equal(x, right[name]), name


# Tiles


@pytest.mark.parametrize("tiling", [(1, 16, 16), (1, 7, 33), (2, 64, 16), (4, 33, 200), (3, 1, 1)])
@pytest.mark.parametrize(("q_len", "k_len"), [(50, 50), (30, 90), (90, 30)])
def test_every_tiling_gives_the_same(
    monkeypatch: pytest.MonkeyPatch, tiling: tuple[int, int, int], q_len: int, k_len: int
) -> None:
    """Tiles of any shape, at every place on the diagonal, with grouped heads and padding at both ends."""
    monkeypatch.setattr(tiled, "choose", lambda *_, **__: tiles.Tiling(*tiling))
    mask = torch.ones(2, k_len, dtype=torch.bool)
    mask[0, :5], mask[1, -7:] = False, False
    problem = rule.make(2, 6, q_len, k_len, 8, kv_heads=2, dtype=torch.float64, causal=True, mask=mask)
    attend = partial(TILED, causal=True, key_padding_mask=mask, return_lse=True)
    right = rule.answer(problem)
    for name, x in rule.evaluate(problem, attend).items():
        rule.compare(name, x, right[name], 1e-12)


@pytest.mark.parametrize("shape", [(1, 8, 8, 8192, 64), (64, 16, 16, 64, 64), (256, 32, 8, 1, 128), (1, 64, 1, 7, 256)])
@pytest.mark.parametrize("k_len", [1, 100, 8192])
@pytest.mark.parametrize("causal", [False, True])
def test_tiles_fit_the_budget(shape: tuple[int, int, int, int, int], k_len: int, causal: bool) -> None:
    batch, heads, kv_heads, q_len, head_dim = shape
    q = torch.empty(batch, heads, q_len, head_dim, device="meta")
    k = torch.empty(batch, kv_heads, k_len, head_dim, device="meta")
    tiling = tiles.choose(q, k, budget=2**19, keys=512, causal=causal)
    scores = tiling.units * (heads // kv_heads) * tiling.queries * tiling.keys
    assert min(tiling.units, tiling.queries, tiling.keys) >= 1
    assert scores <= 2**19 or tiling.units == 1
    assert tiling.units <= kv_heads or tiling.units % kv_heads == 0


# Gradients: what autograd asks for


@pytest.mark.parametrize("which", [0, 1], ids=["output", "lse"])
def test_gradient_of_the_output_alone_and_of_lse_alone(which: int) -> None:
    problem = rule.make(1, 2, 40, 50, 8, causal=True, dtype=torch.float64)
    results = []
    for attend in (TILED, attention):
        leaves = problem.leaves()
        output = attend(*leaves, causal=True, return_lse=True)[which]
        arriving = (problem.dout, problem.dlse)[which]
        results.append(torch.autograd.grad(output, leaves, arriving, materialize_grads=True))
    for found, right in zip(*results, strict=True):
        torch.testing.assert_close(found, right, rtol=0, atol=1e-12)


def test_an_expanded_gradient() -> None:
    """`out.sum().backward()` sends a gradient of stride 0."""
    problem = rule.make(1, 2, 40, 50, 8, dtype=torch.float64)
    found, right = [], []
    for attend, into in ((TILED, found), (attention, right)):
        leaves = problem.leaves()
        attend(*leaves).sum().backward()
        into.extend(leaf.grad for leaf in leaves)
    for a, b in zip(found, right, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


def test_inputs_that_need_no_gradient() -> None:
    problem = rule.make(1, 2, 40, 50, 8)
    q, k, v = problem.leaves()
    assert TILED(q.detach(), k.detach(), v.detach()).grad_fn is None
    (dv,) = torch.autograd.grad(TILED(q.detach(), k.detach(), v), v, problem.dout)
    assert torch.equal(dv, gradients(problem)[2])


def test_a_second_derivative_is_refused_in_words() -> None:
    problem = rule.make(1, 1, 4, 4, 4)
    q, k, v = problem.leaves()
    (dq,) = torch.autograd.grad(TILED(q, k, v), q, problem.dout, create_graph=True)
    assert torch.equal(dq.detach(), gradients(problem)[0])
    with pytest.raises(RuntimeError, match=r"no second derivative: use bancada_attention\.attention"):
        dq.sum().backward()


@pytest.mark.parametrize(
    ("name", "backward_inside"), [("attention", False), ("flash_attention", False), ("flash_attention", True)]
)
def test_autocast_casts_as_sdpa_does(name: str, backward_inside: bool) -> None:
    """Under autocast: the result on inputs cast by hand, in its dtype; gradients arrive in the inputs' own."""
    problem = rule.make(1, 2, 40, 50, 8)
    attend = getattr(bancada_attention, name)
    leaves, dout = problem.leaves(), problem.dout.bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = attend(*leaves, causal=True)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=backward_inside):
        found = torch.autograd.grad(out, leaves, dout)
    halves = [x.detach().bfloat16().requires_grad_() for x in leaves]
    right = attend(*halves, causal=True)
    assert out.dtype == torch.bfloat16
    assert torch.equal(out, right)
    for a, b in zip(found, torch.autograd.grad(right, halves, dout), strict=True):
        assert a.dtype == torch.float32
        assert torch.equal(a, b.float())


def test_no_backend_runs_under_autocast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither forward nor backward, wherever autocast is on: the backends choose their own precision."""
    seen = []

    def spied(function: Callable[..., object]) -> Callable[..., object]:
        def run(*arguments: object, **options: object) -> object:
            seen.append((function.__name__, torch.is_autocast_enabled("cpu")))
            return function(*arguments, **options)

        return run

    for name in ("tiled_forward", "tiled_backward"):
        monkeypatch.setattr(api, name, spied(getattr(api, name)))
    leaves = rule.make(1, 2, 4, 5, 8).leaves()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        TILED(*leaves).sum().backward()
        assert torch.is_autocast_enabled("cpu")
    assert seen == [("tiled_forward", False), ("tiled_backward", False)]


@pytest.mark.parametrize("name", ["attention", "flash_attention"])
def test_meta_tensors_give_shapes_and_dtypes(name: str) -> None:
    """Sizes are known before there is memory for them."""
    problem = rule.make(2, 4, 300, 400, 8, kv_heads=2, dtype=torch.bfloat16)
    leaves = [x.to("meta").requires_grad_() for x in (problem.q, problem.k, problem.v)]
    mask = torch.ones(2, 400, dtype=torch.bool, device="meta")
    out, lse = getattr(bancada_attention, name)(*leaves, causal=True, key_padding_mask=mask, return_lse=True)
    assert (out.shape, out.dtype, out.device.type) == (problem.q.shape, torch.bfloat16, "meta")
    assert (lse.shape, lse.dtype) == (problem.q.shape[:3], torch.float32)
    out.sum().backward()
    assert all(x.grad is not None and x.grad.shape == x.shape for x in leaves)


def test_transforms_of_torch_func_are_for_the_reference() -> None:
    problem = rule.make(1, 2, 4, 5, 8, dtype=torch.float64)
    q, k, v = problem.leaves()
    gradient = torch.func.grad(lambda q: attention(q, k, v).sum())(q.detach())
    (right,) = torch.autograd.grad(TILED(q, k, v).sum(), q)
    torch.testing.assert_close(gradient, right, rtol=0, atol=1e-12)
    with pytest.raises(RuntimeError, match="functorch"):
        torch.func.grad(lambda q: TILED(q, k, v).sum())(q.detach())


def test_auto_is_tiled_on_a_cpu() -> None:
    problem = rule.make(1, 2, 40, 50, 8)
    assert torch.equal(flash_attention(problem.q, problem.k, problem.v), TILED(problem.q, problem.k, problem.v))


# The package


def test_annotated_shapes_are_checked_while_tests_run() -> None:
    good = rule.make(2, 4, 5, 6, 8, kv_heads=2)
    with pytest.raises(jaxtyping.TypeCheckError):
        attention(good.q, good.k[..., :7], good.v)
    with pytest.raises(jaxtyping.TypeCheckError):
        TILED(good.q, good.k, good.v[:, :, :3])


def test_it_works_without_jaxtyping() -> None:
    """jaxtyping is for tests: where it is missing, the package imports and runs."""
    program = (
        "import sys; sys.modules['jaxtyping'] = None\n"
        "import torch, bancada_attention as a\n"
        "q = torch.randn(1, 2, 3, 4)\n"
        "print((a.flash_attention(q, q, q) - a.attention(q, q, q)).abs().max() < 1e-5)\n"
    )
    source = Path(bancada_attention.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=source, check=True)
    assert done.stdout == "tensor(True)\n"
    assert done.stderr == ""
