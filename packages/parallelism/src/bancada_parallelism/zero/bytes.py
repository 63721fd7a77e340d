"""What a rank holds and sends, in closed form: the formulas that the counted bytes must equal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bancada_parallelism._check import check_count


@dataclass(frozen=True)
class ModelState:
    """Bytes that one rank holds between steps."""

    parameters: int
    gradients: int
    optimizer: int

    @property
    def total(self) -> int:
        """All three together."""
        return self.parameters + self.gradients + self.optimizer


def _padded(numels: Sequence[int], ranks: int) -> int:
    return sum(-(-check_count("numels", numel) // check_count("ranks", ranks)) * ranks for numel in numels)


def _check_stage(stage: int) -> None:
    if stage not in (0, 1, 2, 3):
        raise ValueError(f"stage={stage!r}: allowed are 0, 1, 2, 3")


def zero_state_bytes(stage: int, numels: Sequence[int], ranks: int, itemsize: int = 4) -> ModelState:
    """Model state of a rank with AdamW in one precision, P = sum of the padded units, N = ranks, b = itemsize.

    Stage 0: bP + bP + 2bP. 1: bP + bP + 2bP/N. 2: bP + bP/N + 2bP/N. 3: all of it / N. In fp32: 16P, 8P + 8P/N,
    4P + 12P/N, 16P/N (arXiv 1910.02054, with K = 8: one precision has no master copy).

    Args:
        numels: elements of each unit; a unit is padded to a multiple of N, but at stage 0.

    Raises:
        ValueError: an unknown stage, or a count below 1.
    """
    _check_stage(stage)
    whole = check_count("itemsize", itemsize) * (_padded(numels, ranks) if stage else _padded(numels, 1))
    shard = whole // ranks
    return ModelState(
        parameters=whole if stage < 3 else shard,
        gradients=whole if stage < 2 else shard,
        optimizer=2 * (whole if stage < 1 else shard),
    )


def zero_sent_elements(stage: int, numels: Sequence[int], ranks: int) -> int:
    """Elements a rank sends in a step: 2(N-1)/N P at stages 0 to 2, 3(N-1)/N P at stage 3, with the padding.

    Exact for stages 1 to 3; stage 0 counts an all-reduce of the padded units.

    Raises:
        ValueError: an unknown stage, or a count below 1.
    """
    _check_stage(stage)
    return (3 if stage == 3 else 2) * (ranks - 1) * (_padded(numels, ranks) // ranks)
