"""The parallelism suites that run in one process, registered under the entry-point group `bancada.suites`.

This folder alone imports the harness, and nothing in the package imports this folder.

`parallelism.checkpointing` is forward and backward of a stack of feed-forward blocks, with activations kept or computed
again: what checkpointing costs in time, and what it saves in memory.
"""

from __future__ import annotations

from bancada.suite import KernelSuite
from bancada_parallelism._suites import checkpointing

_RANKS = "needs several ranks: tested at 2 and 4 gloo ranks against one process, no call of one process to time"
_FORMULA = "a formula or a table, checked by tests: there is no speed to compare"
_ORACLE = "an oracle of the tests, in one process"

EXCLUDED: dict[str, str] = {
    **dict.fromkeys(
        (
            "ColumnParallelLinear",
            "DataParallel",
            "PipelineStage",
            "RowParallelLinear",
            "VocabularyParallelEmbedding",
            "ZeroStage1",
            "ZeroStage2",
            "ZeroStage3",
            "all_reduce",
            "clip_grad_norm",
            "copy_to_ranks",
            "grad_norm",
            "reduce_from_ranks",
            "vocabulary_parallel_cross_entropy",
            "vocabulary_parallel_logits",
        ),
        _RANKS,
    ),
    **dict.fromkeys(
        (
            "Action",
            "AdamWConfig",
            "CountCollectives",
            "Layout",
            "RankFailure",
            "RankWatch",
            "RandomStreams",
            "all_reduce_cost",
            "all_reduce_table",
            "cut_parameters",
            "pipeline_schedule",
            "simulate_pipeline",
            "zero_sent_elements",
            "zero_state_bytes",
        ),
        _FORMULA,
    ),
    **dict.fromkeys(
        ("adamw_reference", "average_gradients", "cross_entropy_of_shards", "simulate_all_reduce"), _ORACLE
    ),
}
"""Public names of `bancada_parallelism` that no suite measures, each with the reason."""


def suites() -> list[KernelSuite]:
    """The suites of this package."""
    return [
        KernelSuite(
            id="parallelism.checkpointing",
            title="Activation checkpointing, forward and backward",
            family="parallelism",
            question="How much memory does computing activations again save, and what does it cost in time?",
            axes=checkpointing.AXES,
            defaults=checkpointing.DEFAULTS,
            inputs=checkpointing.inputs,
            oracle=checkpointing.oracle,
            tolerance=checkpointing.tolerance,
            work=checkpointing.work,
            techniques=checkpointing.TECHNIQUES,
            contenders=checkpointing.CONTENDERS,
            x_axis="layers",
            small=checkpointing.SMALL,
        )
    ]
