"""Rows of one length from token sequences: packed for language models, padded for single sentences."""

# ruff: noqa: F722  (axis names in jaxtyping strings are no Python expressions)
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from jaxtyping import Int64

IGNORED = -100  # the label that no loss counts: torch's default for cross-entropy, and transformers'


def pack(
    documents: Sequence[Sequence[int]], length: int, eos: int, pad: int
) -> dict[str, Int64[Tensor, "rows length"]]:
    """All documents one after another, each with its end token, cut into rows; the last row is filled up.

    `labels` equal `input_ids` (the loss shifts them), but -100 at each document's first token, which nothing before it
    tells, and at filling. `position_ids` count from 0 at each row's and each document's start: a transformers decoder
    that gets them and no attention mask keeps the documents of a row apart.

    Args:
        documents: token ids; an empty one leaves no trace.
        length: tokens a row, at least 2.
        eos: the token that ends a document.
        pad: the token that fills the last row up.

    Returns:
        `input_ids`, `position_ids` and `labels`, `[rows, length]`; together they hold every token once.

    Raises:
        ValueError: a row of fewer than 2 tokens, or no document with a token.
    """
    if length < 2:
        raise ValueError(f"length is {length}, it must be at least 2: one token to read and one to predict")
    full = [document for document in documents if len(document)]
    if not full:
        raise ValueError("documents hold no token: there is nothing to pack")
    tokens = torch.tensor([token for document in full for token in (*document, eos)])
    sizes = torch.tensor([len(document) + 1 for document in full])
    starts = (sizes.cumsum(0) - sizes).repeat_interleave(sizes)
    places = torch.arange(len(tokens))
    positions = places - torch.maximum(starts, places // length * length)
    labels = tokens.masked_fill(places == starts, IGNORED)
    filling = -len(tokens) % length
    # Filling counts on from 0, as a document of its own.
    ends = [torch.full((filling,), pad), torch.arange(filling), torch.full((filling,), IGNORED)]
    names = ("input_ids", "position_ids", "labels")
    return {
        name: torch.cat([body, end]).reshape(-1, length)
        for name, body, end in zip(names, (tokens, positions, labels), ends, strict=True)
    }


def pad_rows(sequences: Sequence[Sequence[int]], length: int, pad: int) -> dict[str, Int64[Tensor, "rows length"]]:
    """One sequence a row: longer ones are cut at their end, shorter ones filled up at theirs.

    Args:
        sequences: token ids, none of them empty.
        length: tokens a row, at least 1.
        pad: the token that fills up.

    Returns:
        `input_ids`; `attention_mask`, 1 at tokens and 0 at filling; `position_ids`, counted from 0, 0 at filling.

    Raises:
        ValueError: a row of no tokens, no sequence, or an empty one.
    """
    if length < 1:
        raise ValueError(f"length is {length}, it must be at least 1")
    if not sequences:
        raise ValueError("sequences are none: there is nothing to pad")
    empty = next((index for index, sequence in enumerate(sequences) if not len(sequence)), None)
    if empty is not None:
        raise ValueError(f"sequences[{empty}] is empty: a row without a token has nothing to attend to")
    ids = torch.full((len(sequences), length), pad)
    mask = torch.zeros((len(sequences), length), dtype=torch.int64)
    for row, sequence in enumerate(sequences):
        kept = min(len(sequence), length)
        ids[row, :kept] = torch.tensor(list(sequence[:kept]))
        mask[row, :kept] = 1
    return {"input_ids": ids, "attention_mask": mask, "position_ids": torch.arange(length) * mask}
