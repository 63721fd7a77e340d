"""An all-reduce of all ranks in one process: the tables carried out on a list of tensors."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from bancada_parallelism.collectives.table import all_reduce_table


def simulate_all_reduce(tensors: Sequence[Tensor], algorithm: str) -> list[Tensor]:
    """What each rank holds after the all-reduce of one tensor a rank: new tensors of the same shape.

    Every transfer of a step takes what its source held before the step, as if all happened at once.

    Raises:
        ValueError: no tensors, tensors of several shapes, or an unknown algorithm.
    """
    if not tensors or any(tensor.shape != tensors[0].shape for tensor in tensors):
        raise ValueError(f"tensors: shapes {[list(t.shape) for t in tensors]}; must be one at least, all of one shape")
    held = [tensor.flatten().clone() for tensor in tensors]
    for step in all_reduce_table(algorithm, len(held), held[0].numel()):
        sent = [held[move.source][move.first : move.last].clone() for move in step]
        for move, values in zip(step, sent, strict=True):
            place = held[move.target][move.first : move.last]
            place.copy_(place + values if move.adds else values)
    return [flat.reshape(tensors[0].shape) for flat in held]
