"""The vocabulary: byte-level BPE trained on both texts, committed so that weights and vocabulary cannot drift apart."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from bancada.workloads import store
from bancada.workloads.corpus import corpus
from bancada.workloads.needs import need
from bancada.workloads.sources import TextName
from bancada.workloads.splits import Split

if TYPE_CHECKING:
    from tokenizers import Tokenizer

FILE = Path(__file__).parent / "data" / "tokenizer.json"
SIZE = 2048
SPECIAL = ("<pad>", "<eos>", "<cls>", "<mask>")
PAD, EOS, CLS, MASK = range(len(SPECIAL))
# Three million characters of one text and a quarter of a million of the other: without this the vocabulary would
# know one of them only.
PYDOC_COPIES = 8


def train(texts: Iterable[str], size: int = SIZE) -> Tokenizer:
    """A byte-level BPE vocabulary: merge the commonest pair of neighbours until there are `size` tokens.

    Every text can be encoded, and decodes to itself: the 256 bytes are tokens. The same texts give the same vocabulary.

    Args:
        texts: to learn from.
        size: tokens in all, with the 4 special ones and the 256 bytes.

    Raises:
        ValueError: a size that does not hold these.
        ImportError: tokenizers is missing.

    Papers: Sennrich et al. 2016, arXiv 1508.07909; Radford et al. 2019 (GPT-2: bytes).
    """
    least = len(SPECIAL) + 256
    if size < least:
        raise ValueError(f"size is {size}, it must be at least {least}: the special tokens and the 256 bytes")
    tokenizers = need("tokenizers", "a vocabulary")
    tokenizer: Tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def training_texts() -> list[str]:
    """What the committed vocabulary learned from: the train parts of both texts, the short one several times."""
    return corpus("kjv").texts("train") + corpus("pydoc").texts("train") * PYDOC_COPIES


def fingerprint_of_texts() -> str:
    """SHA-256 of what the vocabulary learns from: it is another where Python's own documentation is another."""
    return hashlib.sha256("\0".join(training_texts()).encode()).hexdigest()


@cache
def tokenizer() -> Tokenizer:
    """The committed vocabulary of 2,048 tokens; `python -m bancada.workloads.train_tiny_lm --tokenizer` made it.

    Raises:
        ImportError: tokenizers is missing.
    """
    found: Tokenizer = need("tokenizers", "a text workload").Tokenizer.from_file(str(FILE))
    found.encode_special_tokens = True  # what looks like a special token in a text is text
    return found


def encode(texts: Sequence[str]) -> list[list[int]]:
    """The token ids of each text, none of them special; `tokenizer().decode(ids)` is the text again.

    Raises:
        ImportError: tokenizers is missing.
    """
    return [encoding.ids for encoding in tokenizer().encode_batch(list(texts), add_special_tokens=False)]


@cache
def encoded(name: TextName, part: Split) -> tuple[list[int], ...]:
    """The token ids of every document of a part of a text; made once, then read from the cache folder.

    Raises:
        ValueError: an unknown text.
        ImportError: the package with the text, or tokenizers, is missing.
    """
    text = corpus(name)
    made_from = (text.fingerprint.encode(), part.encode(), FILE.read_bytes())
    return tuple(store.sequences(f"{name}-{part}", made_from, lambda: encode(text.texts(part))))
