"""What else of a model's input and output has one entry a token, and so grows and shrinks with the prompt."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, MutableMapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

IGNORED = -100
"""The label of a position that adds nothing to the loss, in torch's cross-entropy and in transformers."""
CACHES = ("cache", "past_key_values")
_BY_TOKEN = ("logits", "last_hidden_state", "start_logits", "end_logits", "prediction_logits", "hidden_states")
_TABLES = ("position_embeddings", "wpe", "embed_positions")


class Model(NamedTuple):
    """What has to be known of a model to call it with a prompt.

    `first` is the number of its first token, `places` how many there are where positions are a table, `causal` whether
    tokens look back alone.
    """

    accepts: tuple[str, ...]
    first: int = 0
    places: int | None = None
    causal: bool = False


def read_off(model: nn.Module) -> Model:
    """Read off a model's signature, its table of positions and its attentions.

    A table with a padding index (RoBERTa's) begins after it.
    """
    accepts = tuple(inspect.signature(model.forward).parameters)
    causal = any(getattr(module, "is_causal", False) for module in model.modules())
    for path, module in model.named_modules():
        if path.rsplit(".", 1)[-1] in _TABLES and isinstance(module, nn.Embedding):
            first = 0 if module.padding_idx is None else module.padding_idx + 1
            stated = getattr(getattr(model, "config", None), "max_position_embeddings", module.num_embeddings)
            return Model(accepts, first, min(module.num_embeddings, stated) - first, causal)
    return Model(accepts, causal=causal)


def seen_by(given: Mapping[str, Any]) -> int:
    """How many positions the cache among a call's arguments holds already, the prompt's among them."""
    cache = next((given[name] for name in CACHES if given.get(name) is not None), None)
    if cache is None:
        return 0
    if not hasattr(cache, "get_seq_length"):
        raise ValueError(f"cache: a {type(cache).__name__}; must have get_seq_length(), as transformers' caches do")
    return int(cache.get_seq_length())


def extend(given: MutableMapping[str, Any], model: Model, n: int, shape: torch.Size, seen: int) -> None:
    """Makes the other arguments fit a sequence of n virtual tokens and the caller's.

    With a cache that holds the prompt (`seen` > 0) only what counts from the sequence's beginning is extended: the mask
    and the positions.

    Positions are counted along the mask, so that tokens have the numbers n, n + 1, ... wherever the padding is; given
    ones are those that the tokens would have without a prompt.

    Args:
        given: the arguments by name, changed in place.
        shape: of the caller's tokens, [batch, length].

    Raises:
        ValueError: a mask that is not [batch, tokens so far].
    """
    mask, positions, fresh = given.get("attention_mask"), given.get("position_ids"), seen == 0
    if mask is not None:
        wanted = [shape[0], shape[1] if fresh else seen - n + shape[1]]
        if not isinstance(mask, Tensor) or list(mask.shape) != wanted:
            kind = f"of shape {list(mask.shape)}" if isinstance(mask, Tensor) else f"a {type(mask).__name__}"
            raise ValueError(f"attention_mask: {kind}; with a prompt it must be of shape {wanted}, one entry a token")
        given["attention_mask"] = mask = torch.cat([mask.new_ones(shape[0], n), mask], dim=1)
    elif fresh and model.causal and positions is not None and (packed := documents(positions)) is not None:
        given["attention_mask"] = apart(packed, n).expand(shape[0], -1, -1, -1)
    if positions is not None:
        virtual = torch.arange(model.first, model.first + n, device=positions.device)
        virtual = virtual.expand(*positions.shape[:-1], n)
        given["position_ids"] = torch.cat([virtual, positions + n], dim=-1) if fresh else positions + n
    elif mask is not None and "position_ids" in model.accepts:
        given["position_ids"] = (mask.long().cumsum(dim=1) - 1 + model.first)[:, seen:]
    if not fresh:
        return
    if (kinds := given.get("token_type_ids")) is not None:
        given["token_type_ids"] = torch.cat([kinds.new_zeros(shape[0], n), kinds], dim=1)
    labels = given.get("labels")
    if isinstance(labels, Tensor) and not labels.is_floating_point() and labels.shape == shape:
        given["labels"] = torch.cat([labels.new_full((shape[0], n), IGNORED), labels], dim=1)


def documents(positions: Tensor) -> Tensor | None:
    """Which document of its row a token is of, [batch, length]; None where positions never start again.

    transformers' decoders keep documents apart that are packed into a row so, and no mask is given.
    """
    if positions.dim() != 2:
        return None
    found = (positions.diff(dim=1, prepend=positions[:, :1] - 1) != 1).cumsum(dim=1)
    return found if bool(found[:, -1].any()) else None


def apart(document: Tensor, n: int) -> Tensor:
    """[batch, 1, n + length, n + length]: True where a token looks back at its own document or at the prompt.

    Without it the prompt would belong to the first document of a row alone.
    """
    whole = nn.functional.pad(document, (n, 0), value=-1)
    at = torch.arange(whole.shape[1], device=whole.device)
    same = whole[:, :, None] == whole[:, None, :]
    return ((same | (at < n)) & (at[:, None] >= at))[:, None]


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
