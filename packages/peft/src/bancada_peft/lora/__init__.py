"""LoRA and rsLoRA."""

from bancada_peft.lora.adapter import Lora, LoraAdapter
from bancada_peft.lora.reference import lora_linear, lora_weight, scaling

__all__ = ["Lora", "LoraAdapter", "lora_linear", "lora_weight", "scaling"]
