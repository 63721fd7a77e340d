"""Exact attention, written plainly: the oracle of everything else in this package."""

from bancada_attention.exact.reference import attention

__all__ = ["attention"]
