"""FlashAttention-2 (arXiv 2307.08691): the mathematics, the same in torch, the same in Triton."""

from bancada_attention.flash.api import flash_attention

__all__ = ["flash_attention"]
