"""What else of a model's input and output has one entry a token, and so grows and shrinks with the prompt."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

IGNORED = -100
"""The label of a position that adds nothing to the loss, in torch's cross-entropy and in transformers."""
CACHES = ("cache", "past_key_values")
_BY_TOKEN = ("logits", "last_hidden_state", "start_logits", "end_logits", "prediction_logits", "hidden_states")
_TABLES = ("position_embeddings", "wpe", "embed_positions")


class Positions(NamedTuple):
    """How a model numbers tokens: from `first` on, and at most `places` of them where positions are a table."""

    first: int = 0
    places: int | None = None


def positions_of(model: nn.Module) -> Positions:
    """Read off the model's table of positions; a model without one counts from 0 and has no end.

    A table with a padding index (RoBERTa's) begins after it.
    """
    for path, module in model.named_modules():
        if path.rsplit(".", 1)[-1] in _TABLES and isinstance(module, nn.Embedding):
            first = 0 if module.padding_idx is None else module.padding_idx + 1
            stated = getattr(getattr(model, "config", None), "max_position_embeddings", module.num_embeddings)
            return Positions(first, min(module.num_embeddings, stated) - first)
    return Positions()


def seen_by(given: Mapping[str, Any]) -> int:
    """How many positions the cache among a call's arguments holds already, the prompt's among them."""
    cache = next((given[name] for name in CACHES if given.get(name) is not None), None)
    if cache is None:
        return 0
    if not hasattr(cache, "get_seq_length"):
        raise ValueError(f"cache: a {type(cache).__name__}; must have get_seq_length(), as transformers' caches do")
    return int(cache.get_seq_length())


def extend(
    given: MutableMapping[str, Any], n: int, length: int, seen: int, first: int, takes_positions: bool, shape: Any
) -> None:
    """Makes the other arguments fit a sequence of n virtual tokens and `length` of the caller's.

    With a cache that holds the prompt (`seen` > 0) only what counts from the sequence's beginning is extended: the mask
    and the positions.

    Positions are counted along the mask, so that tokens have the numbers n, n + 1, ... wherever the padding is; given
    ones are those that the tokens would have without a prompt.

    Args:
        shape: of the caller's tokens, [batch, length].

    Raises:
        ValueError: a mask that is not [batch, tokens so far].
    """
    mask, fresh = given.get("attention_mask"), seen == 0
    if mask is not None:
        wanted = [shape[0], length if fresh else seen - n + length]
        if not isinstance(mask, Tensor) or list(mask.shape) != wanted:
            kind = f"of shape {list(mask.shape)}" if isinstance(mask, Tensor) else f"a {type(mask).__name__}"
            raise ValueError(f"attention_mask: {kind}; with a prompt it must be of shape {wanted}, one entry a token")
        given["attention_mask"] = mask = torch.cat([mask.new_ones(shape[0], n), mask], dim=1)
    positions = given.get("position_ids")
    if positions is not None:
        virtual = torch.arange(first, first + n, device=positions.device).expand(*positions.shape[:-1], n)
        given["position_ids"] = torch.cat([virtual, positions + n], dim=-1) if fresh else positions + n
    elif mask is not None and takes_positions:
        counted = (mask.long().cumsum(dim=1) - 1 + first)[:, seen:]
        given["position_ids"] = counted
    if not fresh:
        return
    if (kinds := given.get("token_type_ids")) is not None:
        given["token_type_ids"] = torch.cat([kinds.new_zeros(shape[0], n), kinds], dim=1)
    labels = given.get("labels")
    if isinstance(labels, Tensor) and not labels.is_floating_point() and labels.shape == shape:
        given["labels"] = torch.cat([labels.new_full((shape[0], n), IGNORED), labels], dim=1)


def without_prompt(out: Any, length: int) -> Any:
    """A model's output with the last `length` positions alone in whatever has one entry a token.

    Args:
        out: a tensor [batch, positions, features], or a mapping as transformers' models return; a loss, pooled
            features, attentions and caches in it stay as they are.

    Raises:
        ValueError: anything else, such as the tuple that `return_dict=False` gives.
    """
    if isinstance(out, Tensor):
        return _last(out, length, 3)
    if not isinstance(out, MutableMapping):
        raise ValueError(f"return_dict: the model returned a {type(out).__name__}; must be a tensor or a mapping")
    for name in _BY_TOKEN:
        value = out.get(name)
        if isinstance(value, Tensor):
            out[name] = _last(value, length, 2 if name in ("start_logits", "end_logits") else 3)
        elif isinstance(value, tuple):
            out[name] = tuple(_last(part, length, 3) for part in value)
    return out


def _last(tensor: Tensor, length: int, dims: int) -> Tensor:
    """Tensors of other dimensions have no entry a token: the logits of a sequence's class are [batch, classes]."""
    return tensor[:, -length:] if tensor.dim() == dims and tensor.shape[1] > length else tensor
