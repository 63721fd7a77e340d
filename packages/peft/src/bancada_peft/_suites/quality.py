"""`peft.quality`: what each method learns of new data, what of the old it forgets, and how much it trains for that."""

from __future__ import annotations

from bancada.suite import Axis, Case, Metric, Scalar, Work
from bancada.training import Budget, TrainingSuite
from bancada_peft._suites.adaptation import MATRICES, PARAMETERS, TASKS, task
from bancada_peft._suites.catalogue import QUALITY
from bancada_peft._suites.learners import contenders

AXES = (
    Axis("task", "{}", str, choices=TASKS),
    Axis("updates", "u{}", int, minimum=1, scale="log"),
    Axis("batch", "b{}", int, minimum=1),
    Axis("seq_len", "s{}", int, minimum=8, unit="tokens", scale="log"),
    Axis("rank", "r{}", int, minimum=1, scale="log"),
)
DEFAULTS: dict[str, Scalar] = {"task": "kjv-to-pydoc", "updates": 20, "batch": 4, "seq_len": 64, "rank": 8}
SMALL: dict[str, Scalar] = {"task": "kjv-to-pydoc", "updates": 2, "batch": 1, "seq_len": 16, "rank": 2}
METRICS = (
    Metric("loss", "Loss on new data", "nats"),
    Metric("accuracy", "Accuracy on new data", "", "higher", drawn=False),
    Metric("gain", "Gain: fall of the loss on new data", "nats", "higher", drawn=False),
    Metric("forgetting", "Forgetting: rise of the loss on old data", "nats"),
    Metric("trained", "Trained parameters", "%", "lower", "log"),
)
LONGEST = 256  # with the prompt's tokens it fits both models


def valid(case: Case) -> str | None:
    """Why a case cannot be trained."""
    length = case.number("seq_len")
    return f"seq_len={length}: must be at most {LONGEST}" if length > LONGEST else None


def work(case: Case) -> Work:
    """The products of the forward pass and of the activations' gradients; every weight read for both.

    Full fine-tuning's gradients of the weights come on top; where all lower layers are frozen there is less.
    """
    name = case.word("task")
    tokens = case.number("batch") * case.number("seq_len")
    return Work(4.0 * MATRICES[name] * tokens, 4.0 * 2 * PARAMETERS[name])


def suite() -> TrainingSuite:
    """The suite."""
    return TrainingSuite(
        id="peft.quality",
        title="Adapting a model to new data",
        family="peft",
        question="How much does each way of adapting learn, and how much does it forget, for how few parameters?",
        axes=AXES,
        defaults=DEFAULTS,
        work=work,
        techniques=QUALITY,
        contenders=contenders(),
        x_axis="updates",
        small=SMALL,
        valid=valid,
        metrics=METRICS,
        task=task,
        budget=lambda case: Budget(updates=case.number("updates")),
        evaluations=2,
    )
