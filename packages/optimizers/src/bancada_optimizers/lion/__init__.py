"""Lion (arXiv 2302.06675)."""

from bancada_optimizers.lion.api import Lion
from bancada_optimizers.lion.reference import lion_step

__all__ = ["Lion", "lion_step"]
