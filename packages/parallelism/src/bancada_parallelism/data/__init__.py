"""Data parallelism: gradients averaged in buckets while backward still runs."""

from bancada_parallelism.data.data_parallel import DataParallel
from bancada_parallelism.data.reference import average_gradients

__all__ = ["DataParallel", "average_gradients"]
