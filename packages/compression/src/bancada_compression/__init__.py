"""Quantisation, pruning, factorisation and distillation for Transformers."""

__version__ = "0.1.0"
