"""The suites of parameter-efficient fine-tuning, registered under the entry-point group `bancada.suites`.

This folder alone imports the harness, and nothing in the package imports this folder.
"""

from __future__ import annotations

from bancada.suite import KernelSuite, Metric
from bancada.training import TrainingSuite
from bancada_peft._suites import contenders, cost, merging, quality
from bancada_peft._suites.catalogue import LORA, TECHNIQUES

_SETTINGS = "a method's settings: `adapt`, which takes them, is measured"
_STATE = "says or changes which adapter acts, and computes nothing"
EXCLUDED: dict[str, str] = {
    "Bottleneck": _SETTINGS,
    "Dora": _SETTINGS,
    "Forgetting": "what `forgetting` returns",
    "Ia3": _SETTINGS,
    "Interval": "what `forgetting` returns",
    "Lora": _SETTINGS,
    "PromptTuning": _SETTINGS,
    "TrainableSummary": "what `adapt` and `trainable_summary` return",
    "active_adapter": _STATE,
    "adapters_of": _STATE,
    "delete_adapter": _STATE,
    "disabled": _STATE,
    "forgetting": "statistics of losses that are there already; it runs once, after training",
    "load_adapter": "reads a file: bound by the disk",
    "save_adapter": "writes a file: bound by the disk",
    "train_upper_layers": "`train_only` by number of layers, which is measured",
    "trainable_summary": "counts parameters, and computes nothing",
    "use_adapter": _STATE,
}
"""Public names of `bancada_peft` that no suite measures, each with the reason."""


def suites() -> list[KernelSuite | TrainingSuite]:
    """The cost of one training pass, merging, and what training with each method comes to."""
    return [
        KernelSuite(
            id="peft.cost",
            title="Adapting a block, forward and backward",
            family="peft",
            question="What does a training pass cost with each way of adapting a model, in time and memory?",
            axes=cost.AXES,
            defaults=cost.DEFAULTS,
            inputs=cost.inputs,
            oracle=cost.answer,
            tolerance=cost.tolerance,
            work=cost.work,
            techniques=TECHNIQUES,
            contenders=contenders.contenders(),
            x_axis="seq_len",
            static=cost.STATIC,
            small=cost.SMALL,
            valid=cost.valid,
            metrics=(
                Metric("trainable_parameters", "Trained parameters", "", "lower", "log"),
                Metric("adamw_bytes", "AdamW's state", "bytes", "lower", "log"),
            ),
        ),
        KernelSuite(
            id="peft.merge",
            title="Merging LoRA and taking it out again",
            family="peft",
            question="How should I merge an adapter that must come out again, and what does exactness cost?",
            axes=merging.AXES,
            defaults=merging.DEFAULTS,
            inputs=merging.inputs,
            oracle=merging.answer,
            tolerance=merging.tolerance,
            work=merging.work,
            techniques=(LORA,),
            contenders=merging.contenders(),
            x_axis="features",
            mutates=merging.MUTATES,
            small=merging.SMALL,
            metrics=(Metric("copy_bytes", "Copies kept", "bytes"),),
        ),
        quality.suite(),
    ]
