"""Bottleneck adapters."""

from bancada_peft.bottleneck.adapter import Bottleneck, BottleneckAdapter
from bancada_peft.bottleneck.reference import bottleneck

__all__ = ["Bottleneck", "BottleneckAdapter", "bottleneck"]
