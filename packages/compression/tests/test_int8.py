"""int8 and group-wise weights against loops over numbers; W8A8's product against integers in Python."""

from __future__ import annotations

import pytest
import torch
from formats import normal, sqnr
from hypothesis import given
from hypothesis import strategies as st

from bancada_compression import W8A8, Groupwise, Int8, int8_matmul, quantize_groupwise, quantize_int8, unpack
from bancada_compression.groupwise.reference import quantize_group_reference
from bancada_compression.int8.reference import quantize_row_reference
from bancada_compression.packing import BITS, ORDERS
from bancada_compression.w8a8.reference import w8a8_reference

seeds = st.integers(0, 10_000)
numbers = st.sampled_from([0.0, 1.0, -1.0, 1e-30, -1e-30, 1e30, 1e-42]) | st.floats(-4, 4, width=32)


@st.composite
def matrices(draw: st.DrawFn) -> torch.Tensor:
    rows, columns = draw(st.integers(1, 4)), draw(st.integers(1, 20))
    row = st.lists(numbers, min_size=columns, max_size=columns)
    return torch.tensor(draw(st.lists(row, min_size=rows, max_size=rows)), dtype=torch.float64)


@given(weight=matrices())
def test_int8_is_that_of_the_definition(weight: torch.Tensor) -> None:
    found = quantize_int8(weight)
    right = [quantize_row_reference(row) for row in weight.tolist()]
    assert found.codes.tolist() == [codes for codes, _ in right]
    assert found.scale.tolist() == [scale for _, scale in right]
    back = torch.tensor([[code * scale for code in codes] for codes, scale in right], dtype=torch.float64)
    assert torch.equal(found.dequantize(torch.float64), back)
    assert bool(((back - weight).abs() <= found.scale[:, None].double() / 2 * (1 + 1e-5)).all())


@given(
    weight=matrices(),
    bits=st.sampled_from(BITS),
    group=st.integers(1, 23),
    symmetric=st.booleans(),
    order=st.sampled_from(ORDERS),
)
def test_groupwise_is_that_of_the_definition_torchchat1362(
    weight: torch.Tensor, bits: int, group: int, symmetric: bool, order: str
) -> None:
    """Any width, multiple of the group or not: every number is quantised, within half a step, and none is skipped."""
    found = quantize_groupwise(weight, bits, group, symmetric, order)  # type: ignore[arg-type]
    columns = weight.shape[1]
    for i, row in enumerate(weight.tolist()):
        right = [quantize_group_reference(row[k : k + group], bits, symmetric) for k in range(0, columns, group)]
        assert unpack(found.codes[i], bits, columns, order).tolist() == [q for codes, _, _ in right for q in codes]  # type: ignore[arg-type]
        assert found.scale[i].tolist() == [scale for _, scale, _ in right]
        back = [scale * (q - zero) for codes, scale, zero in right for q in codes]
        assert found.dequantize(torch.float64)[i].tolist() == back
        if found.zero is not None:
            zeros = unpack(found.zero[i], bits, len(right), order)  # type: ignore[arg-type]
            assert zeros.tolist() == [zero for _, _, zero in right]
        steps = [scale for codes, scale, _ in right for _ in codes]
        assert all(abs(a - b) <= s / 2 * (1 + 1e-5) for a, b, s in zip(row, back, steps, strict=True))


@pytest.mark.parametrize("bits", BITS)
def test_zero_points_at_both_ends_gptqmodel2251(bits: int) -> None:
    """A group of positive numbers has zero-point 0, one of negative numbers the largest; both come back exactly."""
    top = (1 << bits) - 1
    weight = torch.tensor([[k / top for k in range(top + 1)]])
    above, below = quantize_groupwise(weight, bits, top + 1), quantize_groupwise(-weight, bits, top + 1)
    assert above.zero is not None and below.zero is not None
    assert unpack(above.zero[0], bits, 1).tolist() == [0] and unpack(below.zero[0], bits, 1).tolist() == [top]
    for found, right in ((above, weight), (below, -weight)):
        torch.testing.assert_close(found.dequantize(), right, rtol=0, atol=1e-6)


@given(m=st.integers(1, 4), n=st.integers(1, 4), k=st.integers(1, 9), seed=seeds)
def test_w8a8_is_the_product_of_integers(m: int, n: int, k: int, seed: int) -> None:
    x, weight = normal(m, k, seed=seed, dtype=torch.float64), normal(n, k, seed=seed + 1, dtype=torch.float64)
    right = torch.tensor(w8a8_reference(x.tolist(), weight.tolist()), dtype=torch.float64)
    torch.testing.assert_close(W8A8().layer(weight)(x), right, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("k", [0, 1, 1039, 1040, 1041, 2500])
def test_integer_sums_are_exact_at_the_extremes(k: int) -> None:
    """127 * 127 summed 1040 times is the most that float32 holds exactly: longer sums are cut there."""
    a, b = torch.full((2, k), 127, dtype=torch.int8), torch.full((3, k), -127, dtype=torch.int8)
    b[0] = 127
    b[1, ::2] = 126
    assert torch.equal(int8_matmul(a, b).long(), a.long() @ b.long().T)
    generator = torch.Generator().manual_seed(k)
    a, b = (torch.randint(-127, 128, (4, k), generator=generator, dtype=torch.int8) for _ in range(2))
    assert torch.equal(int8_matmul(a, b).long(), a.long() @ b.long().T)


def test_w8a8_of_zeros_and_of_no_rows() -> None:
    layer = W8A8().layer(normal(3, 5))
    assert torch.equal(layer(torch.zeros(2, 5)), torch.zeros(2, 3))
    assert layer(torch.empty(0, 4, 5)).shape == (0, 4, 3)


def test_noise_of_each_width_is_that_of_the_theory() -> None:
    """Uniform weights in -1 to 1: SQNR = 20 log10(steps) dB where the range is used whole (Bennett)."""
    weight = torch.rand(64, 512, generator=torch.Generator().manual_seed(0)) * 2 - 1
    for bits, decibels in ((2, 9.5), (3, 16.9), (4, 23.5), (8, 48.1)):
        found = quantize_groupwise(weight, bits, 64)
        assert abs(sqnr(weight, found.dequantize()) - decibels) < 0.6
    assert abs(sqnr(weight, quantize_int8(weight).dequantize()) - 48.1) < 0.5
    assert abs(sqnr(normal(64, 512), quantize_int8(normal(64, 512)).dequantize()) - 42) < 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: quantize_int8(torch.tensor([[1.0, float("nan")]])), "weight: holds NaN"),
        (lambda: quantize_int8(torch.ones(3)), r"weight: shape \[3\]"),
        (lambda: quantize_int8(torch.ones(0, 3)), "weight: shape"),
        (lambda: quantize_int8(torch.ones(2, 3, dtype=torch.int8)), "weight: dtype torch.int8"),
        (lambda: quantize_int8(torch.full((1, 2), 1e300, dtype=torch.float64)), "finite in float32"),
        (lambda: quantize_groupwise(torch.ones(2, 3), 5), "bits=5"),
        (lambda: quantize_groupwise(torch.ones(2, 3), True), "bits=True"),
        (lambda: quantize_groupwise(torch.ones(2, 3), 4, 0), "group_size=0"),
        (lambda: quantize_groupwise(torch.ones(2, 3), 4, 8, symmetric=1), "symmetric=1"),  # type: ignore[arg-type]
        (lambda: quantize_groupwise(torch.tensor([[3e38, -3e38]]), 4), "beyond float32"),
        (lambda: Groupwise(bits=6), "bits=6"),
        (lambda: Groupwise(group_size=-1), "group_size=-1"),
        (lambda: W8A8().layer(torch.ones(1, 133_145)), "at most 133144"),
        (lambda: int8_matmul(torch.ones(2, 3), torch.ones(2, 3)), "a: torch.float32"),
        (lambda: int8_matmul(torch.ones(2, 3).char(), torch.ones(2, 4).char()), "must have a's columns, 3"),
        (lambda: Int8().layer(torch.ones(2, 3), torch.nn.Parameter(torch.ones(3))), r"bias: shape \[3\]"),
    ],
)
def test_bad_input_is_refused(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        call()
