"""Small models, perturbed adapters, and HF peft where it is installed."""

from __future__ import annotations

import copy
import functools
import types
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import bancada_peft as bp
from bancada_peft.methods import Method


class Network(nn.Module):
    """An embedding, a mixture over tokens, two linear layers (out > 1, out != in) and a head tied to nothing."""

    def __init__(self, dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 6, dtype=dtype)
        self.first = nn.Linear(6, 10, dtype=dtype)
        self.second = nn.Linear(10, 6, bias=False, dtype=dtype)
        self.head = nn.Linear(6, 5, dtype=dtype)

    def get_input_embeddings(self) -> nn.Embedding:
        return self.embed

    def forward(self, input_ids: Tensor | None = None, inputs_embeds: Tensor | None = None) -> Tensor:
        h = self.embed(input_ids) if inputs_embeds is None else inputs_embeds
        h = h + h.cumsum(dim=1) / 4
        h = h + self.second(torch.tanh(self.first(h)))
        return self.head(h)  # type: ignore[no-any-return]


IDS = torch.tensor([[1, 2, 3, 10], [0, 4, 4, 9]])


def perturb(model: nn.Module, size: float = 0.3, seed: int = 1) -> None:
    """Moves every adapter away from its beginning, where most mistakes are invisible."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".adapters." in name or ".prompt" in f".{name}":
                parameter += size * torch.randn(parameter.shape, generator=generator).to(parameter.dtype)


def state(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def same_state(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@functools.cache
def library(name: str) -> types.ModuleType:
    """A peer library, its import's warnings apart; the test is skipped where it is missing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(name, reason=f"{name} is not installed", exc_type=ImportError)  # type: ignore[no-any-return]


def llama(tie: bool = False, **settings: Any) -> Any:
    """A Llama of two layers with grouped heads and random weights."""
    transformers = library("transformers")
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "vocab_size": 64}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64}
    torch.manual_seed(3)
    config = transformers.LlamaConfig(**{**sizes, **heads, "tie_word_embeddings": tie, "pad_token_id": 0, **settings})
    return transformers.LlamaForCausalLM(config).eval()


def gpt2() -> Any:
    """A GPT-2 of one layer: its projections are Conv1D, its head is tied to its embedding."""
    transformers = library("transformers")
    torch.manual_seed(3)
    config = transformers.GPT2Config(
        n_layer=1, n_head=2, n_embd=16, vocab_size=64, n_positions=32, bos_token_id=1, eos_token_id=2
    )
    return transformers.GPT2LMHeadModel(config).eval()


_ENCODER = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}


def bert() -> Any:
    """A BERT classifier of two layers."""
    transformers = library("transformers")
    torch.manual_seed(3)
    config = transformers.BertConfig(**_ENCODER, vocab_size=64, num_labels=3)
    return transformers.BertForSequenceClassification(config).eval()


def roberta() -> Any:
    """A RoBERTa of two layers, whose positions begin after its padding's id, 1."""
    transformers = library("transformers")
    torch.manual_seed(3)
    config = transformers.RobertaConfig(**_ENCODER, vocab_size=64, max_position_embeddings=40, pad_token_id=1)
    return transformers.RobertaModel(config).eval()


def tokens(length: int = 9, vocabulary: int = 64) -> Tensor:
    return torch.randint(1, vocabulary, (2, length), generator=torch.Generator().manual_seed(5))


def logits(model: Any, ids: Tensor, **arguments: Any) -> Tensor:
    with torch.no_grad():
        return model(input_ids=ids, **arguments).logits  # type: ignore[no-any-return]


METHODS: dict[str, Method] = {
    "lora": bp.Lora(("first", "second", "embed"), r=3, alpha=5),
    "rslora": bp.Lora(("first", "second", "embed"), r=3, alpha=5, rank_stabilised=True),
    "dora": bp.Dora(("first", "second"), r=3, alpha=5),
    "ia3": bp.Ia3(("first", "second"), feedforward_modules=("second",)),
    "bottleneck": bp.Bottleneck(("first", "second"), r=3),
}
METHODS["saved"] = bp.Lora(("first",), r=2, modules_to_save=("head",))
METHODS["prompt"] = bp.PromptTuning(n=4)
MERGEABLE = [name for name in METHODS if name not in ("bottleneck", "prompt")]


def adapted(name: str, dtype: torch.dtype = torch.float64) -> Network:
    """A network with a perturbed adapter of `METHODS`."""
    torch.manual_seed(2)
    model = Network(dtype)
    bp.adapt(model, METHODS[name])
    perturb(model)
    return model


def twin(model: nn.Module) -> nn.Module:
    return copy.deepcopy(model)
