"""The least time that a target's published rates allow for a piece of work."""

from __future__ import annotations

from bancada.compiled.targets import Target
from bancada.suite import Work


def bound_s(target: Target, work: Work, dtype: str, matrix: bool) -> float:
    """Seconds: max(operations / rate of the units that do them, least bytes / bandwidth).

    Args:
        dtype: of the operands, which decides the matrix units' rate.
        matrix: whether the kernel uses matrix units at all; else fp32 vector arithmetic has to do.
    """
    rate = target.matrix.get(dtype, target.vector) if matrix else target.vector
    return max(work.flops / rate, work.bytes / target.bandwidth)
