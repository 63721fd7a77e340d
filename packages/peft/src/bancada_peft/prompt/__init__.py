"""Prompt tuning."""

from bancada_peft.prompt.adapter import PromptAdapter, PromptTuning
from bancada_peft.prompt.reference import with_prompt

__all__ = ["PromptAdapter", "PromptTuning", "with_prompt"]
