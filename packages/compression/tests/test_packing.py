"""Packing against a loop over bits: every width, order, length, stride, and extreme."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bancada_compression import pack, unpack
from bancada_compression.packing import BITS, ORDERS, decode, packed_bytes
from bancada_compression.packing.reference import pack_reference, unpack_reference

widths, orders = st.sampled_from(BITS), st.sampled_from(ORDERS)


@st.composite
def rows_of_codes(draw: st.DrawFn) -> tuple[list[list[int]], int]:
    bits, count, rows = draw(widths), draw(st.integers(0, 21)), draw(st.integers(1, 3))
    code = st.sampled_from([0, (1 << bits) - 1]) | st.integers(0, (1 << bits) - 1)
    return [draw(st.lists(code, min_size=count, max_size=count)) for _ in range(rows)], bits


@given(made=rows_of_codes(), order=orders, dtype=st.sampled_from([torch.uint8, torch.int16, torch.int32, torch.int64]))
def test_packing_is_that_of_the_definition_gptqmodel2251(made, order: str, dtype: torch.dtype) -> None:  # type: ignore[no-untyped-def]
    rows, bits = made
    codes = torch.tensor(rows, dtype=dtype)
    packed = pack(codes, bits, order)
    assert packed.tolist() == [pack_reference(row, bits, order) for row in rows]
    assert packed.shape[-1] == packed_bytes(codes.shape[-1], bits) and packed.dtype == torch.uint8
    assert unpack(packed, bits, codes.shape[-1], order).tolist() == rows
    assert [unpack_reference(row, bits, order, codes.shape[-1]) for row in packed.tolist()] == rows


@given(made=rows_of_codes(), order=orders, dtype=st.sampled_from([torch.float32, torch.float64]))
def test_decoding_is_the_level_of_each_code_gptqmodel2251(made, order: str, dtype: torch.dtype) -> None:  # type: ignore[no-untyped-def]
    """The fast look-up against the definition, of levels with no two alike; from bytes that lie apart, too."""
    rows, bits = made
    packed = pack(torch.tensor(rows, dtype=torch.int64), bits, order)
    levels = tuple((-1) ** code * 1.1**code for code in range(1 << bits))
    right = torch.tensor([[levels[code] for code in row] for row in rows], dtype=torch.float64).to(dtype)
    apart = torch.stack([packed, ~packed], dim=-1)[..., 0]
    for stored in (packed, apart):
        found = decode(stored, bits, right.shape[1], levels, dtype, order)
        assert found.dtype == dtype and found.tolist() == right.view(found.shape).tolist()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("bits", BITS)
def test_non_contiguous_codes_pack_as_contiguous_bnb1342(bits: int, order: str) -> None:
    codes = torch.randint(0, 1 << bits, (13, 7), generator=torch.Generator().manual_seed(0))
    for view in (codes.T, codes[::2], codes[:, ::3], codes[:1].expand(4, 7)):
        packed = pack(view, bits, order)
        assert torch.equal(packed, pack(view.contiguous(), bits, order))
        wide = torch.stack([packed, packed], dim=-1)[..., 0]
        assert torch.equal(unpack(wide, bits, view.shape[-1], order), view.to(torch.uint8))


def test_the_two_orders_of_four_bits_by_hand() -> None:
    codes = torch.tensor([0x1, 0x2, 0x3])
    assert pack(codes, 4).tolist() == [0x21, 0x03]
    assert pack(codes, 4, "big").tolist() == [0x12, 0x30]
    three = torch.tensor([1, 2, 3])  # little: bits 100 010 11|0 -> bytes; big: 001 010 01|1
    assert pack(three, 3).tolist() == [0b11010001, 0b00000000]
    assert pack(three, 3, "big").tolist() == [0b00101001, 0b10000000]


def test_more_dimensions_and_no_codes() -> None:
    codes = torch.arange(24).reshape(2, 3, 4) % 4
    assert torch.equal(unpack(pack(codes, 2), 2, 4), codes.to(torch.uint8))
    assert pack(torch.empty(3, 0, dtype=torch.int64), 3).shape == (3, 0)
    assert unpack(torch.empty(3, 0, dtype=torch.uint8), 3, 0).shape == (3, 0)


def test_eight_bits_are_a_copy() -> None:
    codes = torch.arange(5, dtype=torch.uint8)
    packed = pack(codes, 8)
    packed[0] = 9
    assert codes[0] == 0
    unpacked = unpack(packed, 8, 5)
    unpacked[1] = 9
    assert packed[1] == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pack(torch.tensor([4]), 2), "codes: from 4 to 4; must be 0 to 3"),
        (lambda: pack(torch.tensor([-1]), 4), "codes: from -1"),
        (lambda: pack(torch.tensor([1.0]), 4), "codes: torch.float32"),
        (lambda: pack(torch.tensor([True]), 4), "codes: torch.bool"),
        (lambda: pack(torch.tensor(1), 4), "codes: no dimension"),
        (lambda: pack(torch.tensor([1]), 5), "bits=5: allowed are 2, 3, 4, 8"),
        (lambda: pack(torch.tensor([1]), 4, "middle"), "order='middle'"),  # type: ignore[arg-type]
        (lambda: unpack(torch.zeros(2, dtype=torch.uint8), 4, 5), "packed: 2 bytes a row; 5 codes of 4 bits take 3"),
        (lambda: unpack(torch.zeros(2), 4, 4), "packed: torch.float32"),
        (lambda: unpack(torch.zeros(2, dtype=torch.uint8), 4, -1), "count=-1"),
    ],
)
def test_bad_input_is_refused(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        call()
