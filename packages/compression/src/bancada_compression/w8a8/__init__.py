"""Eight-bit weights and eight-bit activations, multiplied as integers."""

from bancada_compression.w8a8.linear import W8A8, DynamicInt8Linear, int8_matmul

__all__ = ["W8A8", "DynamicInt8Linear", "int8_matmul"]
