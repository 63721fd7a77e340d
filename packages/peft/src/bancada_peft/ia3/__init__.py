"""(IA)^3."""

from bancada_peft.ia3.adapter import Ia3, Ia3Adapter
from bancada_peft.ia3.reference import ia3_input, ia3_output

__all__ = ["Ia3", "Ia3Adapter", "ia3_input", "ia3_output"]
