"""Random numbers that agree between the ranks that share an activation, and differ elsewhere."""

from bancada_parallelism.streams.streams import RandomStreams

__all__ = ["RandomStreams"]
