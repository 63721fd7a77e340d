"""DoRA."""

from bancada_peft.dora.adapter import Dora, DoraAdapter
from bancada_peft.dora.reference import dora_linear, dora_weight

__all__ = ["Dora", "DoraAdapter", "dora_linear", "dora_weight"]
