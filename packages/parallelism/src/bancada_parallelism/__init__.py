"""Data, sharded, tensor, sequence, pipeline and expert parallelism for Transformers."""

__version__ = "0.1.0"
