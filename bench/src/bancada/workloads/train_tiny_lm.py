"""Makes the committed tiny language model: `python -m bancada.workloads.train_tiny_lm`.

It trains on the train part of the KJV, never on pydoc (adapters go from the one to the other), and writes the weights
in float16 and a record beside them. The same seed, threads and torch give the same weights.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from bancada.workloads import objectives, tiny_lm, vocabulary
from bancada.workloads.corpus import corpus
from bancada.workloads.needs import need
from bancada.workloads.order import Order, evenly, take
from bancada.workloads.packing import pack
from bancada.workloads.splits import Split

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM

PEAK_RATE = 4e-3
WARM_UP = 50
WEIGHT_DECAY = 0.1
CLIP_NORM = 1.0
BATCH_SIZE = 8
SAMPLE = 64  # rows: what a task evaluates by default
CPU = torch.device("cpu")


def rate(update: int, updates: int) -> float:
    """The learning rate of an update (0-based): linear up over 50 updates, then a cosine to a tenth of the peak."""
    if update < WARM_UP:
        return PEAK_RATE * (update + 1) / WARM_UP
    progress = (update - WARM_UP) / max(1, updates - WARM_UP)
    return PEAK_RATE * (0.1 + 0.45 * (1 + math.cos(math.pi * progress)))


def train(updates: int, seed: int) -> tuple[LlamaForCausalLM, list[float]]:
    """The trained model and its training losses, one an update.

    AdamW (0.9, 0.95), decay of matrices only, gradients clipped to norm 1.
    """
    rows = pack(vocabulary.encoded("kjv", "train"), tiny_lm.SEQ_LEN, vocabulary.EOS, vocabulary.PAD)
    order = Order(len(rows["input_ids"]), BATCH_SIZE, seed)
    model = tiny_lm.untrained(seed)
    matrices = [parameter for parameter in model.parameters() if parameter.ndim > 1]
    vectors = [parameter for parameter in model.parameters() if parameter.ndim == 1]
    groups = [{"params": matrices, "weight_decay": WEIGHT_DECAY}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.95), fused=True)
    losses: list[float] = []
    for update in range(updates):
        batch = take(rows, order.indices(update), CPU)
        for group in optimizer.param_groups:
            group["lr"] = rate(update, updates)
        loss = objectives.mean_loss(*_predictions(model, batch))
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        if (update + 1) % 50 == 0:
            print(f"update {update + 1} of {updates}: loss {sum(losses[-50:]) / 50:.3f}", flush=True)
    return model, losses


@torch.no_grad()
def measure(model: LlamaForCausalLM, part: Split, at_most: int | None = None) -> dict[str, float]:
    """Loss (nats a token), perplexity and accuracy on a part of the KJV.

    Args:
        model: it is left in evaluation mode.
        part: of the text.
        at_most: that many rows, spread evenly over the part; None for all.
    """
    rows = pack(vocabulary.encoded("kjv", part), tiny_lm.SEQ_LEN, vocabulary.EOS, vocabulary.PAD)
    torch.nn.Module.eval(model)
    sums = torch.zeros(3, dtype=torch.float64)
    chosen = evenly(len(rows["input_ids"]), at_most or len(rows["input_ids"]))
    for start in range(0, len(chosen), 64):
        sums += objectives.tally(*_predictions(model, take(rows, chosen[start : start + 64], CPU)))
    total, right, counted = sums.tolist()
    return {"loss": total / counted, "perplexity": math.exp(total / counted), "accuracy": right / counted}


def unigram_loss() -> float:
    """What knowing only how common each token is reaches on the held-out part: its cross-entropy with train's counts.

    Counts have one added to each, so that no token is impossible.
    """
    counts = torch.ones(vocabulary.SIZE, dtype=torch.float64)
    for document in vocabulary.encoded("kjv", "train"):
        counts += torch.bincount(torch.tensor(document), minlength=vocabulary.SIZE)
    held_out = torch.tensor([token for document in vocabulary.encoded("kjv", "held_out") for token in document])
    return -(counts / counts.sum()).log()[held_out].mean().item()


def save(model: LlamaForCausalLM, losses: Sequence[float], seed: int, seconds: float) -> dict[str, Any]:
    """Writes the weights in float16 and the record; what it records is measured on the rounded weights."""
    stored = {name: value.half().contiguous() for name, value in model.state_dict().items() if name != "lm_head.weight"}
    need("safetensors.torch", "the tiny language model").save_file(stored, tiny_lm.WEIGHTS, {"format": "pt"})
    rounded = tiny_lm.load()
    record: dict[str, Any] = {
        "made_by": f"python -m bancada.workloads.train_tiny_lm --updates {len(losses)} --seed {seed}",
        "seed": seed,
        "updates": len(losses),
        "tokens_per_update": BATCH_SIZE * tiny_lm.SEQ_LEN,
        "parameters": sum(parameter.numel() for parameter in rounded.parameters()),
        "train_loss_of_last_50_updates": sum(losses[-50:]) / len(losses[-50:]),
        "validation": measure(rounded, "validation"),
        "held_out": measure(rounded, "held_out"),
        f"held_out_of_{SAMPLE}_rows": measure(rounded, "held_out", SAMPLE),
        "held_out_unigram_loss": unigram_loss(),
        "dtype": "float16",
        "seconds": round(seconds, 1),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "transformers": need("transformers", "the tiny language model").__version__,
        "corpus": corpus("kjv").fingerprint,
        "vocabulary_texts": vocabulary.fingerprint_of_texts(),
    }
    tiny_lm.RECORD.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return record


def _predictions(model: LlamaForCausalLM, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    logits = model(input_ids=batch["input_ids"], position_ids=batch["position_ids"]).logits
    return objectives.shifted(logits, batch["labels"])


def main() -> None:
    """Reads the command line, trains, and writes weights and record into the package."""
    parser = argparse.ArgumentParser(description="Train the tiny language model and replace the committed weights.")
    parser.add_argument("--updates", type=int, default=1000, help=f"updates of {BATCH_SIZE * tiny_lm.SEQ_LEN} tokens")
    parser.add_argument("--seed", type=int, default=0, help="of the weights and of the order of the rows")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads")
    parser.add_argument("--tokenizer", action="store_true", help="train the vocabulary anew first")
    arguments = parser.parse_args()
    if arguments.updates < 1:
        parser.error(f"--updates is {arguments.updates}, it must be at least 1")
    torch.set_num_threads(arguments.threads)
    if arguments.tokenizer:
        vocabulary.train(vocabulary.training_texts()).save(str(vocabulary.FILE))
    start = time.monotonic()
    model, losses = train(arguments.updates, arguments.seed)
    print(json.dumps(save(model, losses, arguments.seed, time.monotonic() - start), indent=2))


if __name__ == "__main__":
    main()
