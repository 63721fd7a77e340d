"""Eight bits a weight, one scale an output channel."""

from bancada_compression.int8.weight import Int8, Int8Linear, Int8Weight, quantize_int8

__all__ = ["Int8", "Int8Linear", "Int8Weight", "quantize_int8"]
