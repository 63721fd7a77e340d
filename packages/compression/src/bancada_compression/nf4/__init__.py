"""NF4: sixteen levels at the quantiles of a normal distribution, a scale a block; and its double quantisation."""

from bancada_compression.nf4.double import NF4DoubleWeight, quantize_nf4_double
from bancada_compression.nf4.weight import NF4, NF4Linear, NF4Weight, quantize_nf4

__all__ = ["NF4", "NF4DoubleWeight", "NF4Linear", "NF4Weight", "quantize_nf4", "quantize_nf4_double"]
