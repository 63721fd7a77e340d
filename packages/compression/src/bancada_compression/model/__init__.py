"""A whole model at once: which layers, in which format, and what that did to each."""

from bancada_compression.model.quantize import quantize
from bancada_compression.model.report import LayerReport, ModelReport

__all__ = ["LayerReport", "ModelReport", "quantize"]
