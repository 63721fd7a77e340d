"""`optimizers.accumulation`: the gradient of one large batch, made from micro-batches of equal or unequal length.

What a rule is off by is its figure here and no failure: the limit is what no weighing of micro-batches can exceed.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from bancada.ceilings import TORCH_DTYPES
from bancada.suite import Axis, Case, Contender, KernelSuite, Run, Scalar, Technique, Tensors, Work

CLASSES, IGNORED = 256, -100
AXES = (
    Axis("micro_batches", "m{}", minimum=1, unit="micro-batches", scale="log"),
    Axis("tokens", "t{}", minimum=1, unit="tokens", scale="log"),
    Axis("width", "w{}", minimum=1, scale="log"),
    Axis("lengths", "{}", str, choices=("equal", "unequal")),
    Axis("dtype", "{}", str, choices=("fp64", "fp32", "bf16")),
)
DEFAULTS: dict[str, Scalar] = {"micro_batches": 4, "tokens": 128, "width": 128, "lengths": "unequal", "dtype": "fp32"}
SMALL: dict[str, Scalar] = {"micro_batches": 3, "tokens": 4, "width": 8, "lengths": "unequal", "dtype": "fp32"}
TECHNIQUES = (
    Technique(
        id="whole-batch",
        title="The whole batch at once",
        title_pt="O lote inteiro de uma vez",
        family="optimizers",
        summary="One forward and backward pass over all tokens of an update. What accumulation stands in for.",
        formula="g = (1/N) sum_t g_t over the N tokens of the batch",
        paper="Goyal et al., Accurate, Large Minibatch SGD, arXiv 1706.02677",
    ),
    Technique(
        id="gradient-accumulation",
        title="Gradient accumulation",
        title_pt="Acumulação de gradientes",
        family="optimizers",
        summary=(
            "The batch of an update is taken in micro-batches, one after another, so that only one of them has to fit. "
            "Each loss is divided by the tokens of all of them: a mean of means weighs tokens by the company they keep."
        ),
        formula="g = sum_m (1/N) sum_t g_mt, N = sum_m N_m; the mean of means is (1/M) sum_m (1/N_m) sum_t g_mt",
        paper="transformers 34191; Goyal et al., Accurate, Large Minibatch SGD, arXiv 1706.02677",
        files=("packages/optimizers/src/bancada_optimizers/accumulation.py",),
        snippet="""\
import torch
from bancada_optimizers import accumulate

w = torch.zeros(3, requires_grad=True)
batches = [torch.ones(2, 3), 3 * torch.ones(6, 3)]  # two and six tokens
accumulate(batches, lambda x: (x @ w).sum(), len)
print(w.grad)  # (2 x 1 + 6 x 3) / 8 in each place
""",
    ),
)


def lengths(case: Case) -> list[int]:
    """Labels that count in each micro-batch: all of them, or half as many in each as in the one before."""
    tokens, number = case.number("tokens"), case.number("micro_batches")
    return [tokens if case["lengths"] == "equal" else max(1, tokens >> place) for place in range(number)]


def inputs(case: Case, device: str, seed: int) -> dict[str, Tensor]:
    """`x` [micro_batches, tokens, width], `labels` [micro_batches, tokens], `w1` [width, width], `w2` [256, width]."""
    generator = torch.Generator().manual_seed(seed)
    number, tokens, width = (case.number(name) for name in ("micro_batches", "tokens", "width"))
    dtype = TORCH_DTYPES[case.word("dtype")]
    shapes = {"x": (number, tokens, width), "w1": (width, width), "w2": (CLASSES, width)}
    found = {
        name: (torch.randn(shape, generator=generator) / (1 if name == "x" else math.sqrt(width))).to(device, dtype)
        for name, shape in shapes.items()
    }
    labels = torch.randint(CLASSES, (number, tokens), generator=generator)
    for row, length in zip(labels, lengths(case), strict=True):
        row[length:] = IGNORED
    return found | {"labels": labels.to(device)}


def _logits(x: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
    return torch.tanh(x @ w1.T) @ w2.T


Rule = Callable[[Tensors, Tensor, Tensor], None]
"""Adds gradients to the two matrices."""


def _whole(given: Tensors, w1: Tensor, w2: Tensor) -> None:
    logits = _logits(given["x"].flatten(0, 1), w1, w2)
    F.cross_entropy(logits, given["labels"].flatten(), ignore_index=IGNORED).backward()  # type: ignore[no-untyped-call]


def _mean_of_means(given: Tensors, w1: Tensor, w2: Tensor) -> None:
    for x, labels in zip(given["x"], given["labels"], strict=True):
        loss = F.cross_entropy(_logits(x, w1, w2), labels, ignore_index=IGNORED)
        (loss / len(given["x"])).backward()  # type: ignore[no-untyped-call]


def _by_token(given: Tensors, w1: Tensor, w2: Tensor) -> None:
    import bancada_optimizers

    def loss_sum(batch: tuple[Tensor, Tensor]) -> Tensor:
        return F.cross_entropy(_logits(batch[0], w1, w2), batch[1], ignore_index=IGNORED, reduction="sum")

    batches = list(zip(given["x"], given["labels"], strict=True))
    bancada_optimizers.accumulate(batches, loss_sum, lambda batch: bancada_optimizers.count_labels(batch[1]))


def _gradients(rule: Rule, given: Tensors) -> dict[str, Tensor]:
    w1, w2 = (given[name].detach().requires_grad_() for name in ("w1", "w2"))
    rule(given, w1, w2)
    assert w1.grad is not None and w2.grad is not None
    return {"dw1": w1.grad, "dw2": w2.grad}


def _double(given: Tensors) -> dict[str, Tensor]:
    return {name: tensor.double() if tensor.is_floating_point() else tensor for name, tensor in given.items()}


def oracle(case: Case, given: Tensors) -> dict[str, Tensor]:
    """`dw1` and `dw2` of the whole batch in float64."""
    return _gradients(_whole, _double(given))


def tolerance(case: Case, given: Tensors, answer: Tensors) -> dict[str, float]:
    """Twice the largest gradient of a single micro-batch: two ways of weighing them differ by no more."""
    exact = _double(given)
    parts = [
        _gradients(_whole, exact | {name: exact[name][i : i + 1] for name in ("x", "labels")})
        for i in range(case.number("micro_batches"))
    ]
    return {name: 2.02 * max(float(part[name].abs().max()) for part in parts) for name in answer}


def work(case: Case) -> Work:
    """Three products a weight and token, padding included; inputs, weights and gradients once."""
    number, tokens, width = (case.number(name) for name in ("micro_batches", "tokens", "width"))
    weights = width * width + CLASSES * width
    size = TORCH_DTYPES[case.word("dtype")].itemsize
    return Work(6.0 * number * tokens * weights, float(size * (number * tokens * width + 2 * weights)))


def _run(rule: Rule, case: Case, given: Tensors) -> Run:
    return functools.partial(_gradients, rule, given)


def suite() -> KernelSuite:
    """The suite: the whole batch, and two ways of accumulating it."""
    accumulated = "gradient-accumulation"
    return KernelSuite(
        id="optimizers.accumulation",
        title="Gradient accumulation",
        family="optimizers",
        question="Is accumulating micro-batches the same as one large batch, and what does it cost?",
        axes=AXES,
        defaults=DEFAULTS,
        inputs=inputs,
        oracle=oracle,
        tolerance=tolerance,
        work=work,
        techniques=TECHNIQUES,
        contenders=(
            Contender("torch-whole", "whole-batch", "peer", functools.partial(_run, _whole),
                      label="torch, the whole batch", reference=True),
            Contender("accumulate", accumulated, "bancada", functools.partial(_run, _by_token),
                      label="accumulate, exact by token (ours)"),
            Contender("mean-of-means", accumulated, "peer", functools.partial(_run, _mean_of_means),
                      label="torch, mean of the micro-batches' means"),
        ),
        x_axis="micro_batches",
        small=SMALL,
    )  # fmt: skip
