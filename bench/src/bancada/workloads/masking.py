"""BERT's corruption: what a masked language model has to restore."""

# ruff: noqa: F722  (axis names in jaxtyping strings are no Python expressions)
from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from bancada.workloads.packing import IGNORED

if TYPE_CHECKING:
    from jaxtyping import Int64

CHOSEN = 0.15
MASKED, RANDOM = 0.8, 0.1  # of the chosen; the rest stays as it is


def corrupt(
    ids: Int64[Tensor, "rows length"], *, special: int, vocab_size: int, mask: int, seed: int
) -> tuple[Int64[Tensor, "rows length"], Int64[Tensor, "rows length"]]:
    """Inputs with some tokens hidden, and labels that are -100 but at the chosen places.

    Each token that is not special is chosen with probability 0.15; of the chosen 80% become the mask token, 10% a
    random token that is not special, 10% stay.

    Args:
        ids: token ids; the first `special` ids of the vocabulary (filling among them) are never chosen.
        special: how many ids, from 0, are special.
        vocab_size: tokens in all, more than `special`.
        mask: the id of the mask token.
        seed: the same seed corrupts the same way, on every device.

    Raises:
        ValueError: a vocabulary of special tokens only.

    Paper: Devlin et al. 2019, arXiv 1810.04805, section 3.1.
    """
    if vocab_size <= special:
        raise ValueError(f"vocab_size is {vocab_size}, it must be above special, which is {special}")
    generator = torch.Generator().manual_seed(seed)
    draws = torch.rand(2, *ids.shape, generator=generator).to(ids.device)
    anything = torch.randint(special, vocab_size, ids.shape, generator=generator).to(ids.device)
    chosen = (draws[0] < CHOSEN) & (ids >= special)
    hidden = chosen & (draws[1] < MASKED)
    swapped = chosen & (draws[1] >= MASKED) & (draws[1] < MASKED + RANDOM)
    inputs = torch.where(swapped, anything, ids.masked_fill(hidden, mask))
    return inputs, ids.masked_fill(~chosen, IGNORED)
