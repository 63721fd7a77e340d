"""Language modelling on the two texts: causal and masked."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from bancada.workloads import masking, objectives, tiny_lm
from bancada.workloads.models import bert_config, seeded
from bancada.workloads.needs import need
from bancada.workloads.order import stream_seed
from bancada.workloads.packing import pack, pad_rows
from bancada.workloads.sources import TEXTS, TextName
from bancada.workloads.splits import SPLITS, Split
from bancada.workloads.task import Rows, RowsTask, logits_of
from bancada.workloads.vocabulary import CLS, EOS, MASK, PAD, SIZE, SPECIAL, encoded

CausalModel = Literal["tiny-lm", "tiny-lm-random", "gpt2-small-random"]
MaskedModel = Literal["bert-small-random"]
LONGEST = 512


def causal_lm(
    text: TextName = "kjv",
    model: CausalModel = "tiny-lm",
    *,
    batch_size: int = 8,
    seq_len: int = 128,
    seed: int = 0,
    device: torch.device | str = "cpu",
    eval_rows: int = 64,
) -> RowsTask:
    """Predict the next token: `-log p(x_t | x_<t)`, mean over the tokens of the batch.

    Batches hold `input_ids`, `position_ids`, `labels` `[batch_size, seq_len]`: documents packed, positions from 0 at
    each document's start, labels -100 at each document's first token and at filling.

    Args:
        text: `kjv`, or `pydoc`: the domain that the tiny model has not seen.
        model: `tiny-lm` (trained on kjv), `tiny-lm-random` (the same, untrained), `gpt2-small-random` (GPT-2: learned
            positions, LayerNorm, GELU, Conv1D; width 128, 4 layers, 4 heads).
        batch_size: rows an update.
        seq_len: tokens a row, 2 to 512.
        seed: of random weights and of the order of the rows.
        device: of models and batches.
        eval_rows: at most that many rows are evaluated.

    Raises:
        ValueError: an unknown name or a size out of range.
        ImportError: what the extra `bancada[workloads]` holds is missing.
    """
    _check(text, model, get_args(CausalModel), seq_len)
    makers: dict[CausalModel, Callable[[], nn.Module]] = {
        "tiny-lm": tiny_lm.load,
        "tiny-lm-random": lambda: tiny_lm.untrained(seed),
        "gpt2-small-random": lambda: _gpt2(seed),
    }
    return RowsTask(
        f"causal-lm-{text}-{model}-b{batch_size}-l{seq_len}-s{seed}",
        make_model=makers[model],
        rows={part: _packed(text, part, seq_len) for part in SPLITS},
        predictions=_next_tokens,
        batch_size=batch_size,
        eval_rows=eval_rows,
        tokens_per_row=seq_len,
        seed=seed,
        device=device,
        perplexity=True,
    )


def masked_lm(
    text: TextName = "kjv",
    model: MaskedModel = "bert-small-random",
    *,
    batch_size: int = 8,
    seq_len: int = 128,
    seed: int = 0,
    device: torch.device | str = "cpu",
    eval_rows: int = 64,
) -> RowsTask:
    """Restore hidden tokens: `-log p(x_t | corrupted x)`, mean over the chosen 15% (see `masking.corrupt`).

    Batches hold `input_ids`, `attention_mask`, `position_ids`, `labels` `[batch_size, seq_len]`: a row is `<cls>` and a
    piece of one document, filled up at its end. An update's corruption depends on seed and update alone; that of an
    evaluation never changes.

    Args:
        text: `kjv` or `pydoc`.
        model: `bert-small-random` (BERT: width 128, 4 layers, 4 heads).
        batch_size: rows an update.
        seq_len: tokens a row, 2 to 512.
        seed: of weights, order and corruption.
        device: of models and batches.
        eval_rows: at most that many rows are evaluated.

    Raises:
        ValueError: an unknown name or a size out of range.
        ImportError: what the extra `bancada[workloads]` holds is missing.
    """
    _check(text, model, get_args(MaskedModel), seq_len)

    def hide(batch: Rows, stream: int | str) -> Rows:
        words = ("mask", seed, stream) if isinstance(stream, int) else ("mask", stream)
        ids, labels = masking.corrupt(
            batch["input_ids"], special=len(SPECIAL), vocab_size=SIZE, mask=MASK, seed=stream_seed(*words)
        )
        return {**batch, "input_ids": ids, "labels": labels}

    return RowsTask(
        f"masked-lm-{text}-{model}-b{batch_size}-l{seq_len}-s{seed}",
        make_model=lambda: _bert(seed),
        rows={part: _pieces(text, part, seq_len) for part in SPLITS},
        predictions=_hidden_tokens,
        batch_size=batch_size,
        eval_rows=eval_rows,
        tokens_per_row=seq_len,
        seed=seed,
        device=device,
        alter=hide,
        perplexity=True,
    )


def _next_tokens(model: nn.Module, batch: Rows) -> tuple[Tensor, Tensor]:
    logits = logits_of(model(input_ids=batch["input_ids"], position_ids=batch["position_ids"]))
    return objectives.shifted(logits, batch["labels"])


def _hidden_tokens(model: nn.Module, batch: Rows) -> tuple[Tensor, Tensor]:
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask", "position_ids")}
    return logits_of(model(**inputs)).flatten(0, 1), batch["labels"].flatten()


@cache
def _packed(text: TextName, part: Split, length: int) -> Rows:
    return pack(encoded(text, part), length, EOS, PAD)


@cache
def _pieces(text: TextName, part: Split, length: int) -> Rows:
    step = length - 1
    pieces = [
        [CLS, *document[at : at + step]] for document in encoded(text, part) for at in range(0, len(document), step)
    ]
    return pad_rows(pieces, length, PAD)


def _gpt2(seed: int) -> nn.Module:
    library = need("transformers", "the model 'gpt2-small-random'")
    config = library.GPT2Config(
        vocab_size=SIZE,
        n_positions=LONGEST,
        n_embd=128,
        n_layer=4,
        n_head=4,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        use_cache=False,
        bos_token_id=EOS,
        eos_token_id=EOS,
        pad_token_id=PAD,
    )
    made: nn.Module = seeded(seed, lambda: library.GPT2LMHeadModel(config))
    return made


def _bert(seed: int) -> nn.Module:
    library = need("transformers", "the model 'bert-small-random'")
    made: nn.Module = seeded(seed, lambda: library.BertForMaskedLM(bert_config()))
    return made


def _check(text: str, model: str, models: tuple[str, ...], seq_len: int) -> None:
    if text not in TEXTS:
        raise ValueError(f"text is {text!r}, it must be one of {', '.join(TEXTS)}")
    if model not in models:
        raise ValueError(f"model is {model!r}, it must be one of {', '.join(models)}")
    if not 2 <= seq_len <= LONGEST:
        raise ValueError(f"seq_len is {seq_len}, it must be from 2 to {LONGEST}")
