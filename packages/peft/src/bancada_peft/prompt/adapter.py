"""Prompt tuning on models that take `inputs_embeds`."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from bancada_peft._check import check_count
from bancada_peft.layers import AdaptedModule, Adapter, adapter_dtype, original_class, wide
from bancada_peft.methods import Method
from bancada_peft.prompt.inputs import extend, read_off, seen_by, without_prompt
from bancada_peft.prompt.reference import with_prompt


class PromptAdapter(Adapter):
    """P [n, dim], the learned embeddings of n virtual tokens before every sequence.

    Lester et al., arXiv 2104.08691.
    """

    mergeable = False

    def __init__(self, host: nn.Module, P: Tensor) -> None:
        super().__init__()
        self.prompt = nn.Parameter(P)
        self.model = read_off(host)

    def forward(self, host: AdaptedModule, base: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """The model's output for the caller's own tokens, with the prompt before them.

        With a cache the prompt goes in with the first tokens, and is found in it afterwards.
        """
        named = dict(zip(self.model.accepts, args, strict=False))
        if len(args) > len(named) or named.keys() & kwargs.keys():
            return base(*args, **kwargs)  # which says what is wrong with such a call
        given = named | kwargs
        ids, E = given.get("input_ids"), given.get("inputs_embeds")
        tokens = ids if E is None else E
        if tokens is None or (ids is not None and E is not None):
            raise ValueError("input_ids, inputs_embeds: one of the two must be given, and not both")
        shape, n = tokens.shape[:2], len(self.prompt)
        if tokens.dim() != (2 if E is None else 3):
            raise ValueError(f"input_ids: of shape {list(tokens.shape)}; must be [batch, tokens]")
        seen = seen_by(given)
        if (places := self.model.places) is not None and (seen or n) + shape[1] > places:
            raise ValueError(
                f"input_ids: {seen or n} + {shape[1]} tokens with the prompt's; the model has {places} places"
            )
        extend(given, self.model, n, shape, seen)
        if seen:
            return base(**given)
        if E is None:
            E = _embedding(host)(given.pop("input_ids"))
        given["inputs_embeds"] = with_prompt(self.prompt.to(E.dtype), E)
        if (mask := given.get("attention_mask")) is not None and mask.dtype == torch.bool and mask.dim() == 4:
            given["attention_mask"] = _for_attention(host, mask, E.dtype)
        return without_prompt(base(**given), shape[1])

    def extra_repr(self) -> str:
        """What a printed model shows."""
        return f"virtual tokens={len(self.prompt)}"


@dataclass(frozen=True)
class PromptTuning(Method):
    """Prompt tuning: n learned embeddings before every sequence, n dim parameters. It cannot be merged.

    It goes on the outermost module that takes `inputs_embeds` and has `get_input_embeddings`: any of transformers'
    decoders and encoders. The adapted model takes and returns what it did: masks, positions, token types and labels
    (with -100) are extended inside, and what has one entry a token comes back without the prompt's. Every document of a
    packed row (positions that start again, and no mask) has the prompt before it. A causal model's own loss also counts
    the first token, which the prompt's last position predicts, as HF peft's does.

    Args:
        n: virtual tokens, at least 1.
        token_ids: begin as the embeddings of these tokens (of a text that says what the task is), repeated or cut to n.
        embeddings: begin as these, [n, dim]. Without either the beginning is random: normal, with the root mean square
            of the model's embeddings. (The paper's uniform [-0.5, 0.5] was chosen for one model.)
        modules_to_save, dtype: see `Method`.

    Raises:
        ValueError: n < 1, both beginnings at once, embeddings of another shape, ids that the model does not have.

    Lester et al., arXiv 2104.08691.
    """

    n: int = 20
    token_ids: tuple[int, ...] = ()
    embeddings: Tensor | None = field(default=None, compare=False, repr=False)
    modules_to_save: tuple[str, ...] = ()
    dtype: torch.dtype | None = None

    def __post_init__(self) -> None:
        self.check()
        check_count("n", self.n)
        ids = tuple(self.token_ids)
        if not all(isinstance(number, int) and not isinstance(number, bool) and number >= 0 for number in ids):
            raise ValueError(f"token_ids={self.token_ids!r}: must be whole numbers of at least 0")
        object.__setattr__(self, "token_ids", ids)
        if self.embeddings is not None:
            if ids:
                raise ValueError("token_ids, embeddings: a prompt has one beginning; leave one of them out")
            if self.embeddings.dim() != 2 or len(self.embeddings) != self.n or not self.embeddings.is_floating_point():
                raise ValueError(
                    f"embeddings: {self.embeddings.dtype} {list(self.embeddings.shape)}; must be [n={self.n}, dim]"
                )

    def targets(self, model: nn.Module) -> dict[str, nn.Module]:
        """The outermost module that embeddings can be given to."""
        for path, module in model.named_modules():
            accepts = inspect.signature(type(module).forward).parameters
            if "inputs_embeds" not in accepts or not callable(getattr(module, "get_input_embeddings", None)):
                continue
            if getattr(getattr(module, "config", None), "is_encoder_decoder", False):
                raise ValueError(f"model: {path!r} is an encoder-decoder model; prompts go on encoders and on decoders")
            if "cache_params" in accepts:
                raise ValueError(f"model: {path!r} keeps a recurrent state; prompts need caches that tell their length")
            return _inside(path, module)
        raise ValueError("model: no module of it takes inputs_embeds and has get_input_embeddings()")

    def build(self, path: str, module: nn.Module) -> PromptAdapter:
        """A new prompt for a model."""
        embed = _embedding(module)
        table = embed.get_parameter("weight").detach()
        dim, dtype = table.shape[1], adapter_dtype(table, self.dtype)
        if self.embeddings is not None:
            if self.embeddings.shape[1] != dim:
                raise ValueError(f"embeddings: {self.embeddings.shape[1]} features; {path or 'the model'!r} has {dim}")
            return PromptAdapter(module, self.embeddings.detach().to(table.device, dtype, copy=True))
        if self.token_ids:
            if max(self.token_ids) >= len(table):
                raise ValueError(f"token_ids: {max(self.token_ids)} is beyond the model's {len(table)} tokens")
            repeated = self.token_ids * -(-self.n // len(self.token_ids))
            with torch.no_grad():  # through the module, which may scale what it looks up
                P: Tensor = embed(torch.tensor(repeated[: self.n], device=table.device))
            return PromptAdapter(module, P.to(dtype, copy=True))
        size = torch.linalg.vector_norm(table, dtype=wide(table.dtype)) / math.sqrt(table.numel())
        return PromptAdapter(module, torch.randn(self.n, dim, dtype=dtype, device=table.device) * size)


def _inside(path: str, module: nn.Module) -> dict[str, nn.Module]:
    """The module itself; of a decoder that classifies sequences its body.

    Such a model finds a sequence's last token by its id, and with embeddings in place of ids takes the last place,
    which may be padding.
    """
    prefix = getattr(module, "base_model_prefix", "")
    if not original_class(module).__name__.endswith("ForSequenceClassification") or not read_off(module).causal:
        return {path: module}
    return {f"{path}.{prefix}" if path else prefix: module.get_submodule(prefix)}


def _for_attention(host: nn.Module, mask: Tensor, dtype: torch.dtype) -> Tensor:
    """A mask of packed documents as the model's attention takes it."""
    kind = getattr(getattr(host, "config", None), "_attn_implementation", "sdpa")
    if kind not in ("sdpa", "eager"):
        raise ValueError(
            f"position_ids: documents packed into one row; with a prompt they need attention sdpa or eager, not {kind}"
        )
    return mask if kind == "sdpa" else torch.zeros_like(mask, dtype=dtype).masked_fill(~mask, torch.finfo(dtype).min)


def _embedding(model: nn.Module) -> nn.Module:
    getter = getattr(model, "get_input_embeddings")  # noqa: B009  (of transformers' models, which mypy does not see)
    embed = getter()
    assert isinstance(embed, nn.Module)
    return embed
