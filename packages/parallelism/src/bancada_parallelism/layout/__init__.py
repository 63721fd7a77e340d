"""Which rank does what: data, pipeline and tensor parallelism as the axes of one device mesh."""

from bancada_parallelism.layout.layout import Layout

__all__ = ["Layout"]
