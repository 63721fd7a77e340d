"""Codes of 2, 3, 4 or 8 bits in whole bytes, bit-exact and with the order of bits named."""

from bancada_compression.packing.lookup import decode
from bancada_compression.packing.packed import BITS, ORDERS, Order, pack, packed_bytes, unpack

__all__ = ["BITS", "ORDERS", "Order", "decode", "pack", "packed_bytes", "unpack"]
