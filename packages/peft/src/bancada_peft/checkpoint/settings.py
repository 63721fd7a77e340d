"""A method's settings to and from `adapter_config.json`, as HF peft writes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bancada_peft.dora import Dora
from bancada_peft.ia3 import Ia3
from bancada_peft.lora import Lora
from bancada_peft.methods import Method

# Settings of HF peft's that say where a file came from or how it is run, and not what its tensors mean.
_TOLD = {
    "auto_mapping",
    "base_model_name_or_path",
    "inference_mode",
    "peft_version",
    "revision",
    "task_type",
    "fan_in_fan_out",  # seen from the layer itself
    "init_lora_weights",  # overwritten by the file's tensors; those that change the base are refused below
    "init_ia3_weights",
    "megatron_core",
    "qalora_group_size",  # of use_qalora only
    "runtime_config",
    "ensure_weight_tying",  # of trainable tokens and saved embeddings, which are refused where they are tied
}
_BASE_CHANGING = ("pissa", "olora", "corda", "loftq", "lora_ga", "eva")
_READ = {"peft_type", "target_modules", "modules_to_save"}
_READ_LORA = {"r", "lora_alpha", "lora_dropout", "use_rslora", "use_dora"}
_READ_IA3 = {"feedforward_modules"}


def to_hf(method: Method, conv1d: bool) -> dict[str, Any]:
    """The settings as HF peft names them.

    Raises:
        ValueError: a method that HF peft does not have.
    """
    targets = method.target_modules if isinstance(method.target_modules, str) else list(method.target_modules)
    found: dict[str, Any] = {
        "base_model_name_or_path": None,
        "fan_in_fan_out": conv1d,
        "inference_mode": True,
        "modules_to_save": list(method.modules_to_save) or None,
        "target_modules": targets,
        "task_type": None,
    }
    if isinstance(method, Lora):
        return found | {
            "peft_type": "LORA",
            "bias": "none",
            "lora_alpha": method.alpha,
            "lora_dropout": method.dropout,
            "r": method.r,
            "use_dora": isinstance(method, Dora),
            "use_rslora": method.rank_stabilised,
        }
    if isinstance(method, Ia3):
        return found | {"peft_type": "IA3", "feedforward_modules": list(method.feedforward_modules)}
    raise ValueError(f"method: HF peft has no {type(method).__name__}, so no file of its form can hold one")


def from_hf(settings: Mapping[str, Any]) -> Method:
    """The method that a file's settings describe.

    Raises:
        ValueError: a type or a setting that this package does not have, named with its value; nothing is ignored that
            changes what the tensors mean.
    """
    kind = settings.get("peft_type")
    if kind not in ("LORA", "IA3"):
        raise ValueError(f"peft_type={kind!r}: allowed here are 'LORA', 'IA3' (prompts: PromptTuned.load)")
    known = _TOLD | _READ | (_READ_LORA if kind == "LORA" else _READ_IA3)
    for name, value in settings.items():
        if name not in known and value not in (None, False, "none", [], {}):
            raise ValueError(f"{name}={value!r} in adapter_config.json: not supported, so the file is not read")
    start = settings.get("init_lora_weights")
    if isinstance(start, str) and start.lower().startswith(_BASE_CHANGING):
        raise ValueError(f"init_lora_weights={start!r}: its adapters belong to a base that was changed; not supported")
    if (targets := settings.get("target_modules")) is None:
        raise ValueError("target_modules=None in adapter_config.json: must name the adapted modules")
    shared: dict[str, Any] = {
        "target_modules": targets if isinstance(targets, str) else tuple(targets),
        "modules_to_save": tuple(settings.get("modules_to_save") or ()),
    }
    if kind == "IA3":
        return Ia3(**shared, feedforward_modules=tuple(settings.get("feedforward_modules") or ()))
    return (Dora if settings.get("use_dora") else Lora)(
        **shared,
        r=_given(settings, "r"),
        alpha=_given(settings, "lora_alpha"),
        dropout=settings.get("lora_dropout", 0.0),
        rank_stabilised=settings.get("use_rslora", False),
    )


def _given(settings: Mapping[str, Any], name: str) -> Any:
    if name not in settings:
        raise ValueError(f"{name} is missing in adapter_config.json")
    return settings[name]
