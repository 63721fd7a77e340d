"""Inputs that broke attention implementations elsewhere, one test each, with where it was reported.

PT: pytorch/pytorch, FA: Dao-AILab/flash-attention, TR: triton-lang/triton; p stands for a pull request.
"""

from __future__ import annotations

import math
from functools import partial

import attention_rule as rule
import pytest
import torch
from memory_peak import peak_bytes

from bancada_attention import attention, flash_attention

OURS = {"attention": attention, "tiled": partial(flash_attention, backend="tiled")}


@pytest.fixture(params=OURS)
def attend(request: pytest.FixtureRequest):  # type: ignore[no-untyped-def]
    return OURS[request.param]


def run(problem: rule.Problem, attend) -> dict[str, torch.Tensor]:  # type: ignore[no-untyped-def]
    return rule.evaluate(problem, bound(problem, attend))


def bound(problem: rule.Problem, attend):  # type: ignore[no-untyped-def]
    return partial(attend, causal=problem.causal, scale=problem.scale, key_padding_mask=problem.mask, return_lse=True)


def check(problem: rule.Problem, attend) -> None:  # type: ignore[no-untyped-def]
    rule.check(problem, {"ours": bound(problem, attend)})


def mask(batch: int, k_len: int, *hidden: tuple[int, slice]) -> torch.Tensor:
    attended = torch.ones(batch, k_len, dtype=torch.bool)
    for b, keys in hidden:
        attended[b, keys] = False
    return attended


# Masks and infinities


def test_every_key_masked_pt103963(attend) -> None:  # type: ignore[no-untyped-def]
    problem = rule.make(2, 2, 70, 70, 16, mask=mask(2, 70, (0, slice(None)), (1, slice(None))))
    for name, x in run(problem, attend).items():
        assert torch.equal(x, torch.full_like(x, -math.inf if name == "lse" else 0.0)), name


def test_one_masked_row_leaves_the_others_right_pt41508(attend) -> None:  # type: ignore[no-untyped-def]
    """Rows that see no key, beside rows that do: more queries than keys, and one batch entry all hidden."""
    check(rule.make(2, 2, 80, 75, 16, causal=True, mask=mask(2, 75, (1, slice(None)))), attend)
    check(rule.make(2, 2, 80, 75, 16, causal=True, mask=mask(2, 75, (0, slice(0, 1)))), attend)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_finfo_min_in_place_of_minus_infinity_pt109517(dtype: torch.dtype) -> None:
    """An additive mask of the least finite number; `flash_attention` takes no additive mask."""
    problem = rule.make(1, 2, 8, 8, 16, dtype=dtype)
    hidden = torch.ones(8, 8, dtype=torch.bool).triu(1)
    additive = torch.zeros(8, 8, dtype=dtype).masked_fill(hidden, torch.finfo(dtype).min)
    found = rule.evaluate(problem, partial(attention, attn_mask=additive, return_lse=True))
    problem.causal = True
    right = rule.answer(problem)
    for name, x in found.items():
        error = (x.double() - right[name]).abs().max()
        assert error <= 8 * torch.finfo(dtype).eps, f"{name}: {error}"


@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("causal", [False, True])
def test_what_hidden_keys_hold_does_not_matter_pt101967(attend, poison: float, causal: bool) -> None:  # type: ignore[no-untyped-def]
    hidden = mask(2, 150, (0, slice(3, 9)), (0, slice(140, 150)), (1, slice(0, 70)))
    clean = rule.make(2, 4, 150, 150, 16, kv_heads=2, causal=causal, mask=hidden)
    right = run(clean, attend)
    dirty = rule.make(2, 4, 150, 150, 16, kv_heads=2, causal=causal, mask=hidden)
    for x in (dirty.k, dirty.v):
        x.masked_fill_(~hidden[:, None, :, None], poison)
    for name, x in run(dirty, attend).items():
        assert torch.equal(x, right[name]), name


def test_first_key_tile_wholly_masked_fa2082(attend) -> None:  # type: ignore[no-untyped-def]
    """88 queries, 448 keys; then the first keys hidden too, so that tiles are skipped or empty at the start."""
    check(rule.make(1, 2, 88, 448, 32, causal=True), attend)
    check(rule.make(2, 2, 88, 448, 32, causal=True, mask=mask(2, 448, (0, slice(0, 300)), (1, slice(1, 200)))), attend)
    check(rule.make(1, 1, 448, 88, 32, causal=True), attend)


def test_tile_of_hidden_keys_in_the_middle_fa2082() -> None:
    """Whole tiles hidden between visible ones, with the running maximum alive on both sides."""
    check(rule.make(1, 2, 40, 2000, 8, mask=mask(1, 2000, (0, slice(400, 1600)))), OURS["tiled"])
    check(rule.make(2, 2, 40, 2000, 8, mask=mask(2, 2000, (0, slice(0, 1600)), (1, slice(100, 2000)))), OURS["tiled"])


def test_lse_of_a_masked_row_is_minus_infinity_ptp134650(attend) -> None:  # type: ignore[no-untyped-def]
    problem = rule.make(1, 2, 9, 5, 8, causal=True)
    lse = run(problem, attend)["lse"]
    assert torch.equal(lse[..., :4], torch.full((1, 2, 4), -math.inf))
    assert lse[..., 4:].isfinite().all()


# Alignment


@pytest.mark.parametrize("k_len", [1, 5, 513])
def test_causal_decoding_sees_every_key_pt103082(attend, k_len: int) -> None:  # type: ignore[no-untyped-def]
    problem = rule.make(2, 2, 1, k_len, 16, causal=True)
    everything = rule.make(2, 2, 1, k_len, 16, causal=False)
    for name, x in run(problem, attend).items():
        torch.testing.assert_close(x, run(everything, attend)[name], rtol=0, atol=0)
    check(problem, attend)


# Lengths


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_sequences_of_one_fa334(attend, dtype: torch.dtype) -> None:  # type: ignore[no-untyped-def]
    """With one key the output is its value, and dQ and dK are 0 to the rounding of terms that cancel."""
    problem = rule.make(3, 2, 1, 1, 64, dtype=dtype)
    problem.dlse.zero_()
    found = run(problem, attend)
    assert torch.equal(found["out"], problem.v)
    for name in ("dq", "dk"):
        assert found[name].abs().max() <= 1e-4, name
    check(problem, attend)


def test_no_queries_fap2421(attend) -> None:  # type: ignore[no-untyped-def]
    found = run(rule.make(2, 2, 0, 30, 16), attend)
    assert found["out"].shape == (2, 2, 0, 16)
    assert found["lse"].shape == (2, 2, 0)
    for name in ("dk", "dv"):
        assert torch.equal(found[name], torch.zeros(2, 2, 30, 16)), name


@pytest.mark.parametrize("causal", [False, True])
def test_no_keys_fap2470(attend, causal: bool) -> None:  # type: ignore[no-untyped-def]
    found = run(rule.make(2, 2, 30, 0, 16, causal=causal), attend)
    assert torch.equal(found["out"], torch.zeros(2, 2, 30, 16))
    assert torch.equal(found["lse"], torch.full((2, 2, 30), -math.inf))
    assert torch.equal(found["dq"], torch.zeros(2, 2, 30, 16))
    assert found["dk"].shape == (2, 2, 0, 16)


def test_batch_of_none_fa1159(attend) -> None:  # type: ignore[no-untyped-def]
    found = run(rule.make(0, 2, 30, 40, 16, mask=torch.ones(0, 40, dtype=torch.bool)), attend)
    assert {name: tuple(x.shape[:3]) for name, x in found.items()} == {
        "out": (0, 2, 30), "lse": (0, 2, 30), "dq": (0, 2, 30), "dk": (0, 2, 40), "dv": (0, 2, 40),
    }  # fmt: skip


def test_length_zero_on_cpu_pt141219(attend) -> None:  # type: ignore[no-untyped-def]
    found = run(rule.make(2, 2, 0, 0, 16, causal=True, mask=torch.ones(2, 0, dtype=torch.bool)), attend)
    assert all(x.numel() == 0 for x in found.values())


@pytest.mark.parametrize("length", [1023, 1024, 1025])
def test_lengths_around_a_power_of_two_pt153799(attend, length: int) -> None:  # type: ignore[no-untyped-def]
    check(rule.make(1, 1, length, length, 32, causal=True), attend)


@pytest.mark.parametrize("pair", [(113, 203), (108, 256), (1023, 1024)])
@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_unequal_lengths_pt153799(attend, pair: tuple[int, int], swap: bool, causal: bool) -> None:  # type: ignore[no-untyped-def]
    q_len, k_len = reversed(pair) if swap else pair
    check(rule.make(1, 2, q_len, k_len, 16, kv_heads=1, causal=causal), attend)


# Grids and strides


def test_many_heads_fla172_pt142228(attend) -> None:  # type: ignore[no-untyped-def]
    """More than 65,535 batch entries and heads together."""
    problem = rule.make(33_000, 2, 1, 2, 1)
    found = run(problem, attend)
    right = rule.answer(problem)
    for name, x in found.items():
        torch.testing.assert_close(x.double(), right[name], rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["expanded-batch", "expanded-heads", "expanded-length"])
@pytest.mark.parametrize("k_len", [33, 65, 513])
def test_stride_zero_with_a_ragged_tile_pt191937(attend, name: str, k_len: int) -> None:  # type: ignore[no-untyped-def]
    check(rule.make(2, 2, 40, k_len, 16, causal=True, layouts=("contiguous", name, name)), attend)


def test_transposed_v_flaggems5896(attend) -> None:  # type: ignore[no-untyped-def]
    for name in ("transposed", "inner"):
        check(rule.make(2, 3, 40, 70, 16, layouts=("contiguous", "contiguous", name)), attend)


def test_inner_stride_not_one_ptp187506(attend) -> None:  # type: ignore[no-untyped-def]
    check(rule.make(2, 3, 65, 70, 16, causal=True, layouts=("inner",) * 3), attend)


def test_grouped_heads_are_not_expanded_ffpa299() -> None:
    """64 query heads read one key head: K and V repeated for each would take 64 times their size."""
    problem = rule.make(1, 64, 4, 4096, 64, kv_heads=1)
    forward = peak_bytes(lambda: flash_attention(problem.q, problem.k, problem.v, backend="tiled"))
    assert forward < 2 * problem.k.nbytes
    leaves = problem.leaves()
    out = flash_attention(*leaves, backend="tiled")
    backward = peak_bytes(lambda: torch.autograd.grad(out, leaves, problem.dout))
    assert backward < 8 * problem.k.nbytes


# Head dimensions, gradients, numerics


@pytest.mark.parametrize("head_dim", [1, 16, 32, 40, 59, 64, 72, 80, 96, 104, 111, 128, 160, 192, 224, 256])
def test_every_head_dim_tr621_fap2896(attend, head_dim: int) -> None:  # type: ignore[no-untyped-def]
    check(rule.make(1, 2, 70, 90, head_dim, kv_heads=1, causal=True), attend)


@pytest.mark.parametrize("causal", [False, True])
def test_backward_heeds_causal_tr4541_tr5660(attend, causal: bool) -> None:  # type: ignore[no-untyped-def]
    problem = rule.make(2, 2, 130, 130, 16, causal=causal)
    other = rule.make(2, 2, 130, 130, 16, causal=not causal)
    check(problem, attend)
    assert (run(problem, attend)["dk"] - run(other, attend)["dk"]).abs().max() > 0.01


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_values_of_one_give_one_fap2721(attend, dtype: torch.dtype) -> None:  # type: ignore[no-untyped-def]
    """Probabilities and their sum must be rounded alike: in half precision the output is exactly 1."""
    problem = rule.make(1, 2, 300, 700, 64, dtype=dtype, causal=True)
    problem.v.fill_(1.0)
    out = attend(problem.q, problem.k, problem.v, causal=True)
    assert (out.double() - 1).abs().max() <= (1e-6 if dtype == torch.float32 else 0)


def test_batch_of_three_triton_tutorial(attend) -> None:  # type: ignore[no-untyped-def]
    """The Triton tutorial's descriptor path is right for a batch of 1 only."""
    check(rule.make(3, 2, 64, 64, 16, causal=True), attend)


def test_large_scores_do_not_overflow(attend) -> None:  # type: ignore[no-untyped-def]
    """Scores of some thousands: exp would overflow without the running maximum."""
    problem = rule.make(1, 1, 40, 700, 16, scale=300.0)
    found = run(problem, attend)
    right = rule.answer(problem)
    assert all(x.isfinite().all() for x in found.values())
    torch.testing.assert_close(found["lse"].double(), right["lse"], rtol=1e-6, atol=0)


# Metamorphic (case 36)


def test_grouped_heads_equal_repeated_ones_with_summed_gradients(attend) -> None:  # type: ignore[no-untyped-def]
    grouped = rule.make(2, 6, 70, 90, 16, kv_heads=2, causal=True, dtype=torch.float64)
    repeated = rule.make(2, 6, 70, 90, 16, causal=True, dtype=torch.float64)
    repeated.q = grouped.q
    repeated.k, repeated.v = (x.repeat_interleave(3, dim=1) for x in (grouped.k, grouped.v))
    found, right = run(grouped, attend), run(repeated, attend)
    for name in ("dk", "dv"):
        right[name] = right[name].unflatten(1, (2, 3)).sum(2)
    for name, x in found.items():
        torch.testing.assert_close(x, right[name], rtol=0, atol=1e-12, msg=lambda m, n=name: f"{n}: {m}")


def test_permuting_keys_with_their_mask_changes_nothing(attend) -> None:  # type: ignore[no-untyped-def]
    hidden = mask(2, 700, (0, slice(20, 400)), (1, slice(600, 700)))
    problem = rule.make(2, 2, 30, 700, 16, mask=hidden, dtype=torch.float64)
    order = torch.randperm(700, generator=torch.Generator().manual_seed(0))
    permuted = rule.make(2, 2, 30, 700, 16, mask=hidden[:, order], dtype=torch.float64)
    permuted.k, permuted.v = problem.k[:, :, order], problem.v[:, :, order]
    found, right = run(permuted, attend), run(problem, attend)
    for name, x in found.items():
        expected = right[name][:, :, order] if name in ("dk", "dv") else right[name]
        torch.testing.assert_close(x, expected, rtol=0, atol=1e-12, msg=lambda m, n=name: f"{n}: {m}")


def test_batch_entries_do_not_see_each_other(attend) -> None:  # type: ignore[no-untyped-def]
    problem = rule.make(3, 2, 70, 90, 16, causal=True, mask=mask(3, 90, (1, slice(50, 90))), dtype=torch.float64)
    together = run(problem, attend)
    for b in range(3):
        alone = rule.make(1, 2, 70, 90, 16, causal=True, mask=problem.mask[b : b + 1], dtype=torch.float64)
        alone.q, alone.k, alone.v = (x[b : b + 1] for x in (problem.q, problem.k, problem.v))
        alone.dout, alone.dlse = problem.dout[b : b + 1], problem.dlse[b : b + 1]
        for name, x in run(alone, attend).items():
            torch.testing.assert_close(x, together[name][b : b + 1], rtol=0, atol=1e-12)
