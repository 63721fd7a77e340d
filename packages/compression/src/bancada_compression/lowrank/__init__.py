"""Factorisation: a weight as the product of two thin matrices, by truncated or by activation-whitened SVD."""

from bancada_compression.lowrank.factor import rank_for, svd_factor, whitened_svd_factor
from bancada_compression.lowrank.linear import FactoredLayer, LowRankLinear, factorize, input_grams

__all__ = [
    "FactoredLayer",
    "LowRankLinear",
    "factorize",
    "input_grams",
    "rank_for",
    "svd_factor",
    "whitened_svd_factor",
]
