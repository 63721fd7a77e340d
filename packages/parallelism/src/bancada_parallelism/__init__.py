"""Data, sharded, tensor and pipeline parallelism for Transformers, over torch.distributed.

Every class takes the `Layout` or the process group it works in; nothing is global.
"""

from bancada_parallelism.checkpointing import checkpoint
from bancada_parallelism.clipping import clip_grad_norm, grad_norm
from bancada_parallelism.collectives import (
    CountCollectives,
    all_reduce,
    all_reduce_cost,
    all_reduce_table,
    simulate_all_reduce,
)
from bancada_parallelism.data import DataParallel, average_gradients
from bancada_parallelism.failures import RankFailure, RankWatch
from bancada_parallelism.layout import Layout
from bancada_parallelism.pipeline import Action, PipelineStage, pipeline_schedule, simulate_pipeline
from bancada_parallelism.states import load_whole_state, whole_state
from bancada_parallelism.streams import RandomStreams
from bancada_parallelism.tensor import (
    ColumnParallelLinear,
    RowParallelLinear,
    VocabularyParallelEmbedding,
    copy_to_ranks,
    cross_entropy_of_shards,
    cut_parameters,
    reduce_from_ranks,
    vocabulary_parallel_cross_entropy,
    vocabulary_parallel_logits,
)
from bancada_parallelism.zero import (
    AdamWConfig,
    ZeroStage1,
    ZeroStage2,
    ZeroStage3,
    adamw_reference,
    zero_sent_elements,
    zero_state_bytes,
)

__all__ = [
    "Action",
    "AdamWConfig",
    "ColumnParallelLinear",
    "CountCollectives",
    "DataParallel",
    "Layout",
    "PipelineStage",
    "RandomStreams",
    "RankFailure",
    "RankWatch",
    "RowParallelLinear",
    "VocabularyParallelEmbedding",
    "ZeroStage1",
    "ZeroStage2",
    "ZeroStage3",
    "__version__",
    "adamw_reference",
    "all_reduce",
    "all_reduce_cost",
    "all_reduce_table",
    "average_gradients",
    "checkpoint",
    "clip_grad_norm",
    "copy_to_ranks",
    "cross_entropy_of_shards",
    "cut_parameters",
    "grad_norm",
    "load_whole_state",
    "pipeline_schedule",
    "reduce_from_ranks",
    "simulate_all_reduce",
    "simulate_pipeline",
    "vocabulary_parallel_cross_entropy",
    "vocabulary_parallel_logits",
    "whole_state",
    "zero_sent_elements",
    "zero_state_bytes",
]

__version__ = "0.1.0"
