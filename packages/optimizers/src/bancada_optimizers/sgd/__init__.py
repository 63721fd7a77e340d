"""Stochastic gradient descent with momentum."""

from bancada_optimizers.sgd.api import SGD
from bancada_optimizers.sgd.reference import sgd_step

__all__ = ["SGD", "sgd_step"]
