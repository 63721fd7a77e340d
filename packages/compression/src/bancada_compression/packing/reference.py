"""Packing bit by bit, as the definition says it: the oracle of `packed.py`."""

from __future__ import annotations

from collections.abc import Sequence


def pack_reference(codes: Sequence[int], bits: int, order: str) -> list[int]:
    """The bytes of one row of codes.

    The row is a stream of bits, code after code. Order `little`: the lowest bit of a code comes first, and the stream
    fills a byte from its lowest bit. Order `big`: the highest bit comes first, and fills from the highest.
    """
    steps = range(bits) if order == "little" else range(bits - 1, -1, -1)
    stream = [(code >> step) & 1 for code in codes for step in steps]
    stream += [0] * (-len(stream) % 8)
    places = range(8) if order == "little" else range(7, -1, -1)
    return [sum(stream[first + i] << place for i, place in enumerate(places)) for first in range(0, len(stream), 8)]


def unpack_reference(packed: Sequence[int], bits: int, order: str, count: int) -> list[int]:
    """The first `count` codes of one row of bytes."""
    places = range(8) if order == "little" else range(7, -1, -1)
    stream = [(byte >> place) & 1 for byte in packed for place in places]
    steps = range(bits) if order == "little" else range(bits - 1, -1, -1)
    return [sum(stream[bits * i + j] << step for j, step in enumerate(steps)) for i in range(count)]
