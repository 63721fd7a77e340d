"""Two, three, four or eight bits a weight, with a scale and a zero-point a group of columns."""

from bancada_compression.groupwise.weight import Groupwise, GroupwiseLinear, GroupwiseWeight, quantize_groupwise

__all__ = ["Groupwise", "GroupwiseLinear", "GroupwiseWeight", "quantize_groupwise"]
