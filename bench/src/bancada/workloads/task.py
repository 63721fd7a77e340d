"""What a training suite trains: a model, batches, a loss and an evaluation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, Protocol

import torch
from torch import Tensor, nn

from bancada.workloads import objectives
from bancada.workloads.order import Order, evenly, take
from bancada.workloads.splits import Split

EvaluatedSplit = Literal["validation", "held_out"]
Rows = Mapping[str, Tensor]
Predictions = Callable[[nn.Module, Rows], tuple[Tensor, Tensor]]  # logits [places, classes], labels [places]
Altered = Callable[[Rows, int | str], Rows]
EVAL_BATCH = 32  # a constant, so that an evaluation is the same whatever the batch size that was trained with


class Task(Protocol):
    """A workload of fixed content: whoever trains on it with one seed sees the same weights and the same batches.

    `name` says what it is and all its sizes; `tokens_per_update` counts a batch's places, filling with them (images:
    its images).
    """

    name: str
    tokens_per_update: int

    def model(self) -> nn.Module:
        """A fresh model in training mode, with the same weights at every call."""

    def batch(self, update: int) -> Rows:
        """The batch of that update (0-based): a function of seed and update alone."""

    def loss(self, model: nn.Module, batch: Rows) -> Tensor:
        """The scalar loss, differentiable: the mean over the tokens or examples that count."""

    def evaluate(self, model: nn.Module, split: EvaluatedSplit) -> Mapping[str, float]:
        """Figures on a fixed sample of that part, without gradients, in evaluation mode; modes are restored."""


class RowsTask:
    """A task over rows that are in memory; the functions beside it (`causal_lm`, ...) make the ones there are.

    Args:
        name: of the task.
        make_model: a fresh model on the CPU, the same at every call.
        rows: the columns of each part, `[rows, ...]` each.
        predictions: logits and labels that count, from a model and a batch.
        batch_size: rows an update.
        eval_rows: at most that many rows of a part are evaluated, spread evenly over it.
        tokens_per_row: places a row.
        seed: of the order of the rows.
        device: of models and batches.
        alter: what a batch goes through at last, such as masking; told the update, or the part that is evaluated.
        perplexity: whether `exp(loss)` is a figure of its evaluation.

    Raises:
        ValueError: no rows to evaluate, or an empty batch.
    """

    def __init__(
        self,
        name: str,
        *,
        make_model: Callable[[], nn.Module],
        rows: Mapping[Split, Rows],
        predictions: Predictions,
        batch_size: int,
        eval_rows: int,
        tokens_per_row: int,
        seed: int,
        device: torch.device | str,
        alter: Altered | None = None,
        perplexity: bool = False,
    ) -> None:
        if eval_rows < 1:
            raise ValueError(f"eval_rows is {eval_rows}, it must be at least 1")
        self.name, self.tokens_per_update = name, batch_size * tokens_per_row
        self._order = Order(_length(rows["train"]), batch_size, seed)
        self._make_model, self._rows, self._predictions = make_model, rows, predictions
        self._eval_rows, self._device = eval_rows, torch.device(device)
        self._alter, self._perplexity = alter, perplexity

    def model(self) -> nn.Module:
        """A fresh model in training mode, with the same weights at every call."""
        return self._make_model().to(self._device).train()

    def batch(self, update: int) -> Rows:
        """The batch of that update (0-based): a function of seed and update alone.

        Raises:
            ValueError: a negative update.
        """
        return self._altered(take(self._rows["train"], self._order.indices(update), self._device), update)

    def loss(self, model: nn.Module, batch: Rows) -> Tensor:
        """The scalar loss in nats, differentiable: the mean over the tokens or examples that count."""
        return objectives.mean_loss(*self._predictions(model, batch))

    def evaluate(self, model: nn.Module, split: EvaluatedSplit) -> dict[str, float]:
        """`loss` (nats), `accuracy` and, for language, `perplexity` on a fixed sample of a part.

        Args:
            model: any module that takes the batches' columns; the mode of each of its modules is restored.
            split: `validation` (tuning may look at it) or `held_out` (what is reported).

        Raises:
            ValueError: another part.
        """
        if split not in ("validation", "held_out"):
            raise ValueError(f"split is {split!r}, it must be validation or held_out")
        modes = {module: module.training for module in model.modules()}
        sums = torch.zeros(3, dtype=torch.float64)
        chosen = evenly(_length(self._rows[split]), self._eval_rows)
        steps = [chosen[at : at + EVAL_BATCH] for at in range(0, len(chosen), EVAL_BATCH)]
        model.eval()
        try:
            with torch.no_grad():
                for number, indices in enumerate(steps):
                    batch = self._altered(take(self._rows[split], indices, self._device), f"{split} {number}")
                    sums += objectives.tally(*self._predictions(model, batch)).cpu()
        finally:
            for module, mode in modes.items():
                module.training = mode
        total, right, counted = sums.tolist()
        figures = {"loss": total / counted, "accuracy": right / counted}
        return {**figures, "perplexity": torch.tensor(figures["loss"]).exp().item()} if self._perplexity else figures

    def _altered(self, batch: Rows, stream: int | str) -> Rows:
        return batch if self._alter is None else self._alter(batch, stream)


def logits_of(output: object) -> Tensor:
    """The logits of what a model returned: transformers' output object, or the tensor itself.

    Raises:
        TypeError: it is neither.
    """
    found = getattr(output, "logits", output)
    if not isinstance(found, Tensor):
        raise TypeError(f"the model returned {type(output).__name__}, it must return logits or an object that has them")
    return found


def _length(rows: Rows) -> int:
    return len(next(iter(rows.values())))
