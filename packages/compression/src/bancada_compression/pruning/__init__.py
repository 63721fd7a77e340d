"""Pruning: which weights to remove (magnitude, Wanda), how many (a share, n of m), and masks that last."""

from bancada_compression.pruning.calibrate import activation_norms
from bancada_compression.pruning.masks import keep_mask, n_of_m_mask
from bancada_compression.pruning.model import PrunedLayer, make_permanent, prune
from bancada_compression.pruning.scores import magnitude_scores, wanda_scores

__all__ = [
    "PrunedLayer",
    "activation_norms",
    "keep_mask",
    "magnitude_scores",
    "make_permanent",
    "n_of_m_mask",
    "prune",
    "wanda_scores",
]
