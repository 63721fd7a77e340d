"""Models from transformers' configurations: random weights by seed, and no dropout, so that a loss is a function of
model and batch alone."""

# ruff: noqa: F722  (axis names in jaxtyping strings are no Python expressions)
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor, nn

from bancada.workloads.needs import need
from bancada.workloads.vocabulary import PAD, SIZE

if TYPE_CHECKING:
    from jaxtyping import Float, Int64
    from transformers import BertConfig

Made = TypeVar("Made", bound=nn.Module)


def seeded(seed: int, make: Callable[[], Made]) -> Made:
    """What `make` makes with the random state of that seed; the global one stays as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()


def bert_config() -> BertConfig:
    """A small BERT over the committed vocabulary: width 128, 4 layers, 4 heads, feed-forward 512, 512 positions.

    Raises:
        ImportError: transformers is missing.
    """
    made: BertConfig = need("transformers", "a small BERT").BertConfig(
        vocab_size=SIZE,
        hidden_size=128,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=512,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        pad_token_id=PAD,
    )
    return made


class EncoderClassifier(nn.Module):
    """A Transformer encoder, the mean of its tokens, and one linear layer: `logits = W mean_t(h_t) + b`.

    Args:
        encoder: a transformers encoder that returns `last_hidden_state`.
        width: of its hidden states.
        classes: how many there are to tell apart.
    """

    def __init__(self, encoder: nn.Module, width: int, classes: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.classifier = nn.Linear(width, classes)

    def embed(
        self,
        input_ids: Int64[Tensor, "batch length"],
        attention_mask: Int64[Tensor, "batch length"],
        position_ids: Int64[Tensor, "batch length"] | None = None,
    ) -> Float[Tensor, "batch width"]:
        """The mean of the last hidden states over the tokens whose mask is 1."""
        output = self.encoder(input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids)
        hidden: Tensor = output.last_hidden_state
        weights = attention_mask.unsqueeze(-1).to(hidden.dtype)
        return (hidden * weights).sum(1) / weights.sum(1)

    def forward(
        self,
        input_ids: Int64[Tensor, "batch length"],
        attention_mask: Int64[Tensor, "batch length"],
        position_ids: Int64[Tensor, "batch length"] | None = None,
    ) -> Float[Tensor, "batch classes"]:
        """The logits of each row."""
        logits: Tensor = self.classifier(self.embed(input_ids, attention_mask, position_ids))
        return logits
