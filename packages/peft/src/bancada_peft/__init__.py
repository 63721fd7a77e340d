"""Parameter-efficient fine-tuning: the LoRA family, prompts, adapters and merging."""

__version__ = "0.1.0"
