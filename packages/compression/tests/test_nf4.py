"""NF4 against its definition, and bit for bit against bitsandbytes."""

from __future__ import annotations

import itertools

import pytest
import torch
from formats import normal, sqnr
from hypothesis import given
from hypothesis import strategies as st

from bancada_compression import quantize_nf4, quantize_nf4_double, unpack
from bancada_compression.nf4.double import SCALES_A_BLOCK, dynamic_levels
from bancada_compression.nf4.reference import dynamic_levels_reference, nearest_reference, nf4_levels_reference
from bancada_compression.nf4.weight import LEVELS

SHAPES = [(4, 128), (3, 65), (7, 100), (1, 1), (65, 257)]


def test_the_levels_are_those_of_the_definition() -> None:
    """To seven digits: appendix E prints what float32 quantiles gave."""
    assert max(abs(a - b) for a, b in zip(LEVELS, nf4_levels_reference(), strict=True)) < 3e-7
    assert LEVELS[7] == 0.0 and len(LEVELS) == 16
    right = torch.tensor(dynamic_levels_reference(), dtype=torch.float64)
    torch.testing.assert_close(dynamic_levels().double(), right, rtol=1e-6, atol=0)
    assert dynamic_levels().numel() == 256


@given(count=st.integers(1, 40), block=st.sampled_from([2, 4, 16]), seed=st.integers(0, 999))
def test_codes_are_the_nearest_levels(count: int, block: int, seed: int) -> None:
    weight = normal(1, count, seed=seed)
    found = quantize_nf4(weight, block)
    codes = unpack(found.codes, 4, count + count % 2, "big").tolist()[:count]
    for k, value in enumerate(weight[0].tolist()):
        first = k - k % block
        largest = max(abs(x) for x in weight[0, first : first + block].tolist())
        assert found.absmax[k // block] == largest
        nearest = nearest_reference(value / largest, list(LEVELS))
        middles = [(a + b) / 2 for a, b in zip(LEVELS[1:], LEVELS[:-1], strict=True)]
        assert codes[k] == nearest or min(abs(value / largest - middle) for middle in middles) < 1e-6
        assert abs(float(found.dequantize()[0, k]) - LEVELS[codes[k]] * largest) <= 1e-6 * largest


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_codes_and_absmax_are_bitsandbytes_bnb2025(shape: tuple[int, int], dtype: torch.dtype) -> None:
    functional = pytest.importorskip("bitsandbytes.functional", reason="bitsandbytes is not installed")
    weight = (normal(*shape, seed=shape[1]) * 0.02).to(dtype)
    codes, state = functional.quantize_4bit(weight, blocksize=64, quant_type="nf4")
    found = quantize_nf4(weight)
    assert torch.equal(found.codes, codes.flatten())
    assert torch.equal(found.absmax, state.absmax)
    assert torch.equal(found.dequantize(dtype), functional.dequantize_4bit(codes, state))
    assert torch.equal(torch.tensor(LEVELS), functional.get_4bit_type("nf4", device="cpu"))


@pytest.mark.parametrize("shape", [(4, 128), (3, 65), (300, 1000)], ids=str)
def test_double_quantisation_is_bitsandbytes(shape: tuple[int, int]) -> None:
    """Offset, scales and codes of the scales; where a code differs, ours is the nearer level and theirs its neighbour.

    bitsandbytes' CPU kernel decides within 2^-15 of the middle of two levels by a table, not by distance.
    """
    functional = pytest.importorskip("bitsandbytes.functional", reason="bitsandbytes is not installed")
    weight = normal(*shape, seed=shape[0]) * 0.02
    codes, state = functional.quantize_4bit(weight, blocksize=64, quant_type="nf4", compress_statistics=True)
    found = quantize_nf4_double(weight)
    assert torch.equal(found.codes, codes.flatten())
    assert torch.equal(found.offset, state.offset) and torch.equal(found.scale, state.state2.absmax)
    assert torch.equal(dynamic_levels(), functional.create_dynamic_map())
    which = torch.arange(found.absmax.numel()) // SCALES_A_BLOCK
    scaled = (quantize_nf4(weight).absmax - found.offset) / found.scale[which]
    ours, theirs = (dynamic_levels()[codes.long()] for codes in (found.absmax, state.absmax))
    differ = found.absmax != state.absmax
    assert float(differ.float().mean()) < 0.02
    assert bool(((ours - scaled).abs() <= (theirs - scaled).abs()).all())
    assert bool((((ours + theirs) / 2 - scaled).abs()[differ] < 2.0**-15).all())


def test_bytes_of_double_quantisation_are_0127_bits_a_weight() -> None:
    """QLoRA, section 3: 8 / 64 + 32 / (64 * 256) = 0.127 bits in place of 32 / 64 = 0.5."""
    weight = normal(512, 512)
    plain, double = quantize_nf4(weight), quantize_nf4_double(weight)
    assert plain.nbytes * 8 / weight.numel() == 4.5
    assert double.nbytes * 8 - 32 == weight.numel() * (4 + 8 / 64 + 32 / (64 * 256))  # less 32 bits for the mean
    assert sqnr(weight, double.dequantize()) > sqnr(weight, plain.dequantize()) - 0.05


def test_the_error_grows_smoothly_with_the_block_bnb565() -> None:
    weight = normal(64, 4096)
    found = [sqnr(weight, quantize_nf4(weight, size).dequantize()) for size in (16, 32, 64, 128, 256, 512, 1024, 4096)]
    steps = [a - b for a, b in itertools.pairwise(found)]
    assert all(0 < step < 2 for step in steps), found
    assert abs(found[2] - 20.7) < 0.3


@pytest.mark.parametrize("quantize", [quantize_nf4, quantize_nf4_double])
@pytest.mark.parametrize("block", [3, 1, 0, 64.0, True])
def test_odd_blocks_are_refused(quantize, block: object) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match="block_size"):
        quantize(normal(2, 8), block)


def test_a_weight_beyond_float32_is_refused() -> None:
    with pytest.raises(ValueError, match="finite in float32"):
        quantize_nf4(torch.full((1, 2), 1e300, dtype=torch.float64))
