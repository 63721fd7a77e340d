"""AdamW (arXiv 1711.05101)."""

from bancada_optimizers.adamw.api import AdamW
from bancada_optimizers.adamw.reference import adamw_step

__all__ = ["AdamW", "adamw_step"]
