"""Activation checkpointing: computing again in backward what forward did not keep."""

from bancada_parallelism.checkpointing.checkpoint import checkpoint

__all__ = ["checkpoint"]
