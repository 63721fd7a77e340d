"""The parallelism suites, registered under the entry-point group `bancada.suites`.

This folder alone imports the harness, and nothing in the package imports this folder.

`parallelism.checkpointing` is forward and backward of a stack of feed-forward blocks, with activations kept or computed
again: what checkpointing costs in time, and what it saves in memory. The others run on several ranks:
`parallelism.training` trains one decoder in every way that the package and the libraries have, `parallelism.memory`
does so with longer sequences and with checkpoints, `parallelism.pipeline` takes one batch through stages, and
`parallelism.collectives` sums a vector.
"""

from __future__ import annotations

from bancada.ranks import RanksSuite
from bancada.suite import KernelSuite
from bancada_parallelism._suites import checkpointing, collectives, pipeline, training

_FORMULA = "a formula or a table, checked by tests: there is no speed to compare"
_ORACLE = "an oracle of the tests, in one process"
_PART = "part of a training step that a user adds, of no cost beside it: its results are checked by tests"

EXCLUDED: dict[str, str] = {
    **dict.fromkeys(
        (
            "RandomStreams",
            "clip_grad_norm",
            "grad_norm",
            "load_whole_state",
            "reduce_from_ranks",
            "vocabulary_parallel_logits",
            "whole_state",
        ),
        _PART,
    ),
    **dict.fromkeys(
        (
            "CountCollectives",
            "Layout",
            "RankFailure",
            "RankWatch",
            "all_reduce_table",
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


def suites() -> list[KernelSuite | RanksSuite]:
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
        ),
        training.TRAINING,
        training.MEMORY,
        collectives.COLLECTIVES,
        pipeline.PIPELINE,
    ]
