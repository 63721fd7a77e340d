"""The tiny language model: a Llama of 1.1 million parameters that has learned the train part of the KJV.

Small enough to be trained, sharded, quantised and adapted in seconds on a CPU, and trained, so that what a technique
does to its quality can be seen. What is found on it holds for it: it says nothing of larger models.

    width 128, 4 layers, 4 heads of 32 (as many for keys and values), SwiGLU of 384, 2,048 tokens, RoPE, RMSNorm; the
    output matrix is the embedding matrix (tied). Trained on rows of 128 tokens.

Names of its linear layers, for techniques that address layers by name (each without bias, `[out, in]`):

    model.embed_tokens                              [2048, 128], an Embedding; `lm_head.weight` is the same tensor
    model.layers.{0..3}.self_attn.q_proj .k_proj .v_proj .o_proj      [128, 128]
    model.layers.{0..3}.mlp.gate_proj .up_proj                        [384, 128]
    model.layers.{0..3}.mlp.down_proj                                 [128, 384]
    model.layers.{0..3}.input_layernorm .post_attention_layernorm     norms, no linear layers
    model.norm, lm_head
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from bancada.workloads.models import seeded
from bancada.workloads.needs import need
from bancada.workloads.vocabulary import EOS, PAD, SIZE

if TYPE_CHECKING:
    from transformers import LlamaConfig, LlamaForCausalLM

WEIGHTS = Path(__file__).parent / "data" / "tiny_lm.safetensors"
RECORD = Path(__file__).parent / "data" / "tiny_lm.json"
SEQ_LEN = 128


def config() -> LlamaConfig:
    """Its transformers configuration.

    Raises:
        ImportError: transformers is missing.
    """
    made: LlamaConfig = need("transformers", "the tiny language model").LlamaConfig(
        vocab_size=SIZE,
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        use_cache=False,  # with a cache transformers would not keep the documents of a packed row apart
        pad_token_id=PAD,
        bos_token_id=EOS,
        eos_token_id=EOS,
    )
    return made


def untrained(seed: int) -> LlamaForCausalLM:
    """The model with random weights, in training mode; the global random state stays as it was.

    Args:
        seed: of the weights.

    Raises:
        ImportError: transformers is missing.
    """
    library = need("transformers", "the tiny language model")
    made = config()
    model: LlamaForCausalLM = seeded(seed, lambda: library.LlamaForCausalLM(made))
    return model


def load(device: torch.device | str = "cpu") -> LlamaForCausalLM:
    """The trained model in float32, in training mode: fresh tensors at every call.

    Args:
        device: where its weights go.

    Raises:
        ImportError: transformers or safetensors is missing.
    """
    stored = need("safetensors.torch", "the tiny language model").load_file(WEIGHTS)
    model = untrained(seed=0)
    missing, unexpected = model.load_state_dict({name: value.float() for name, value in stored.items()}, strict=False)
    if set(missing) != {"lm_head.weight"} or unexpected:  # the tied head is stored once
        raise RuntimeError(f"{WEIGHTS.name} does not fit the model: missing {missing}, unexpected {unexpected}")
    torch.nn.Module.to(model, device)
    return model


def record() -> dict[str, Any]:
    """How the committed weights were made and what they reach: seed, updates, losses, perplexity, versions."""
    found: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8"))
    return found
