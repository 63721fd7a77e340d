"""NF4 and the dynamic 8-bit code, number by number: the oracle of `weight.py` and `double.py`.

Dettmers et al., QLoRA, arXiv 2305.14314, section 3 and appendix E; the dynamic code: Dettmers et al., 8-bit
Optimizers via Block-wise Quantization, arXiv 2110.02861, section 2.2.
"""

from __future__ import annotations

import statistics


def nf4_levels_reference() -> list[float]:
    """The sixteen levels from their definition: quantiles of N(0, 1), 8 below 0, 0, and 7 above, scaled to -1 to 1.

    The outermost quantile is taken midway between 1 - 1/30 and 1 - 1/32, as the tails would lie at infinity.
    """
    edge = ((1 - 1 / 32) + (1 - 1 / 30)) / 2
    normal = statistics.NormalDist()
    above = [normal.inv_cdf(0.5 + (edge - 0.5) * i / 8) for i in range(1, 9)]
    below = [-normal.inv_cdf(0.5 + (edge - 0.5) * i / 7) for i in range(7, 0, -1)]
    return [x / above[-1] for x in (*below, 0.0, *above)]


def dynamic_levels_reference() -> list[float]:
    """The 256 levels of the signed dynamic code: 2^i even steps in each decade 10^(i-7) to 10^(i-6), 0, and 1."""
    positive = [(0.1 + 0.9 * (2 * j + 1) / (2 << i)) * 10.0 ** (i - 6) for i in range(7) for j in range(1 << i)]
    return sorted([*(-x for x in positive), 0.0, *positive, 1.0])


def nearest_reference(value: float, levels: list[float]) -> int:
    """The index of the nearest level, the lower of two equally near."""
    return min(range(len(levels)), key=lambda i: (abs(levels[i] - value), i))
