"""Optimizers, schedules, precision and regularisation for Transformers."""

__version__ = "0.1.0"
