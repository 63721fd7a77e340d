"""Tensor parallelism: a layer's matrices cut over ranks, by columns, by rows, by the vocabulary."""

from bancada_parallelism.tensor.cut import cut_parameters
from bancada_parallelism.tensor.functions import copy_to_ranks, reduce_from_ranks
from bancada_parallelism.tensor.linear import ColumnParallelLinear, RowParallelLinear
from bancada_parallelism.tensor.reference import cross_entropy_of_shards
from bancada_parallelism.tensor.vocabulary import (
    VocabularyParallelEmbedding,
    vocabulary_parallel_cross_entropy,
    vocabulary_parallel_logits,
)

__all__ = [
    "ColumnParallelLinear",
    "RowParallelLinear",
    "VocabularyParallelEmbedding",
    "copy_to_ranks",
    "cross_entropy_of_shards",
    "cut_parameters",
    "reduce_from_ranks",
    "vocabulary_parallel_cross_entropy",
    "vocabulary_parallel_logits",
]
