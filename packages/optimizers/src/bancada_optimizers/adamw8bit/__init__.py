"""AdamW with 8-bit blockwise states (arXiv 2110.02861)."""

from bancada_optimizers.adamw8bit.api import AdamW8bit
from bancada_optimizers.adamw8bit.blockwise import dequantize_blockwise, quantize_blockwise
from bancada_optimizers.adamw8bit.reference import BLOCK, dynamic_map

__all__ = ["BLOCK", "AdamW8bit", "dequantize_blockwise", "dynamic_map", "quantize_blockwise"]
