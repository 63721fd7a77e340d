"""Attention: exact, and computed in tiles so that the matrix of scores never exists.

Tensors are [batch, heads, seq, head_dim], as in torch's scaled_dot_product_attention.
"""

from bancada_attention.exact import attention
from bancada_attention.flash import flash_attention

__all__ = ["__version__", "attention", "flash_attention"]

__version__ = "0.1.0"
