"""What `peft.quality` adapts: a model that knows one thing to another, judged on both.

* `kjv-to-pydoc`: the tiny language model, trained on the King James Bible, is adapted to Python's documentation. Old
  data: the Bible's held-out text.
* `verse-to-book`: the pretrained MiniLM encoder is adapted to tell which book a verse is from. Old data: what it was
  pretrained for, to find the other half of a passage among those of other passages (the contrastive loss of sentence
  embeddings, -log softmax_j(20 cos(a_i, b_j))_i, over Python's documentation).

gain = loss on new data before - after; forgetting = loss on old data after - before; both in nats, both on the same
examples for every contender.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bancada.suite import Case
from bancada.training import Task
from bancada.training.declare import Split

TASKS = ("kjv-to-pydoc", "verse-to-book")
PARAMETERS = {"kjv-to-pydoc": 1_115_264, "verse-to-book": 22_565_376}
MATRICES = {  # weights of matrix products: an embedding's look-up is none, the tied output matrix is one
    "kjv-to-pydoc": 4 * (4 * 128 * 128 + 3 * 128 * 384) + 2048 * 128,
    "verse-to-book": 6 * (4 * 384 * 384 + 2 * 384 * 1536),
}
EVALUATED = {"kjv-to-pydoc": 16, "verse-to-book": 64}
PAIRS, SCALE = 32, 20.0
Old = Callable[[nn.Module, Split], float]


class Adaptation:
    """A task with a memory: beside the new data's loss and accuracy, gain, forgetting and the trained share."""

    def __init__(self, new: Task, old: Old) -> None:
        self._new, self._old = new, old
        self.name, self.tokens_per_update = new.name, new.tokens_per_update
        self._before: dict[Split, tuple[float, float]] = {}

    def model(self) -> nn.Module:
        """The model that knows the old data."""
        return self._new.model()

    def batch(self, update: int) -> Mapping[str, Tensor]:
        """New data."""
        return self._new.batch(update)

    def loss(self, model: nn.Module, batch: Mapping[str, Tensor]) -> Tensor:
        """The new data's loss."""
        return self._new.loss(model, batch)

    def evaluate(self, model: nn.Module, split: Split) -> dict[str, float]:
        """`loss`, `accuracy` and `gain` of the new data, `forgetting` of the old; `trained`, a share in percent."""
        if split not in self._before:
            untouched = self.model()
            self._before[split] = self._new.evaluate(untouched, split)["loss"], self._old(untouched, split)
        before, known = self._before[split]
        found = self._new.evaluate(model, split)
        parameters = list(model.parameters())
        trained = sum(parameter.numel() for parameter in parameters if parameter.requires_grad)
        return {
            "loss": found["loss"],
            "accuracy": found["accuracy"],
            "gain": before - found["loss"],
            "forgetting": self._old(model, split) - known,
            "trained": 100 * trained / sum(parameter.numel() for parameter in parameters),
        }


def task(case: Case, device: str, seed: int) -> Task:
    """The adaptation of a case; the seed decides the order of the new data, and a classifier's first weights."""
    from bancada.workloads.classification import verse_to_book
    from bancada.workloads.language import causal_lm

    name, length = case.word("task"), case.number("seq_len")
    if name == "kjv-to-pydoc":
        sizes = {"seq_len": length, "batch_size": case.number("batch"), "eval_rows": EVALUATED[name]}
        bible = causal_lm("kjv", "tiny-lm", seed=seed, device=device, **sizes)
        documentation = causal_lm("pydoc", "tiny-lm", seed=seed, device=device, **sizes)
        return Adaptation(documentation, lambda model, split: bible.evaluate(model, split)["loss"])
    verses = verse_to_book(
        "minilm",
        batch_size=case.number("batch"),
        seq_len=length,
        seed=seed,
        device=device,
        eval_rows=EVALUATED[name],
    )
    return Adaptation(verses, functools.partial(contrastive, length=length, device=device))


@torch.no_grad()
def contrastive(model: nn.Module, split: Split, *, length: int, device: str) -> float:
    """The mean of -log softmax_j(20 cos(a_i, b_j))_i: a_i, b_i embed the halves of passage i of a fixed sample.

    Reimers and Gurevych, arXiv 1908.10084; the loss: Henderson et al., arXiv 1705.00652.
    """
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        embed: Callable[..., Tensor] = getattr(model, "embed")  # noqa: B009  (EncoderClassifier's)
        a, b = (
            F.normalize(embed(**{name: rows.to(device) for name, rows in half.items()}), dim=1)
            for half in _halves(split, length)
        )
    finally:
        for module, mode in modes.items():
            module.training = mode
    return float(F.cross_entropy(SCALE * a @ b.T, torch.arange(len(a), device=device)))


@functools.cache
def _halves(split: Split, length: int) -> tuple[Mapping[str, Tensor], Mapping[str, Tensor]]:
    """The first and the second halves of `PAIRS` passages, spread evenly over a part of the documentation."""
    from bancada.workloads import minilm
    from bancada.workloads.corpus import corpus

    passages = [
        passage.split()
        for document in corpus("pydoc").parts[split]
        for passage in document.passages
        if len(passage.split()) >= length
    ]
    chosen = [passages[number * len(passages) // PAIRS] for number in range(PAIRS)]
    middles = [len(words) // 2 for words in chosen]
    firsts = [" ".join(words[:middle]) for words, middle in zip(chosen, middles, strict=True)]
    seconds = [" ".join(words[middle:]) for words, middle in zip(chosen, middles, strict=True)]
    return minilm.rows(firsts, length), minilm.rows(seconds, length)
