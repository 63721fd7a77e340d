"""Quantisation, pruning, factorisation and distillation for Transformers."""

from bancada_compression.distillation import soft_target_loss, student_of
from bancada_compression.groupwise import Groupwise, quantize_groupwise
from bancada_compression.int8 import Int8, quantize_int8
from bancada_compression.lowrank import (
    FactoredLayer,
    LowRankLinear,
    factorize,
    input_grams,
    rank_for,
    svd_factor,
    whitened_svd_factor,
)
from bancada_compression.model import LayerReport, ModelReport, quantize
from bancada_compression.nf4 import NF4, quantize_nf4, quantize_nf4_double
from bancada_compression.packing import pack, unpack
from bancada_compression.pruning import (
    PrunedLayer,
    activation_norms,
    keep_mask,
    magnitude_scores,
    make_permanent,
    n_of_m_mask,
    prune,
    wanda_scores,
)
from bancada_compression.quantized import QuantizedLinear
from bancada_compression.w8a8 import W8A8, int8_matmul

__all__ = [
    "NF4",
    "W8A8",
    "FactoredLayer",
    "Groupwise",
    "Int8",
    "LayerReport",
    "LowRankLinear",
    "ModelReport",
    "PrunedLayer",
    "QuantizedLinear",
    "__version__",
    "activation_norms",
    "factorize",
    "input_grams",
    "int8_matmul",
    "keep_mask",
    "magnitude_scores",
    "make_permanent",
    "n_of_m_mask",
    "pack",
    "prune",
    "quantize",
    "quantize_groupwise",
    "quantize_int8",
    "quantize_nf4",
    "quantize_nf4_double",
    "rank_for",
    "soft_target_loss",
    "student_of",
    "svd_factor",
    "unpack",
    "wanda_scores",
    "whitened_svd_factor",
]

__version__ = "0.1.0"
