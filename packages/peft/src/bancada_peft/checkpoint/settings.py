"""A method's settings to and from `adapter_config.json`, as HF peft writes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import nn

from bancada_peft.dora import Dora
from bancada_peft.ia3 import Ia3
from bancada_peft.layers import layout_of, original_class
from bancada_peft.lora import Lora
from bancada_peft.methods import LayerMethod, Method
from bancada_peft.prompt import PromptTuning

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
_READ_PROMPT = {"num_virtual_tokens", "num_transformer_submodules"}
_TOLD_PROMPT = {  # sizes of the model, which the tensors are held against, and how the prompt began
    "num_attention_heads",
    "num_layers",
    "prompt_tuning_init",
    "prompt_tuning_init_text",
    "token_dim",
    "tokenizer_kwargs",
    "tokenizer_name_or_path",
}
_TASKS = {
    "ForCausalLM": "CAUSAL_LM",
    "LMHeadModel": "CAUSAL_LM",
    "ForSequenceClassification": "SEQ_CLS",
    "ForTokenClassification": "TOKEN_CLS",
    "ForQuestionAnswering": "QUESTION_ANS",
}
_CLASSIFIERS = ("classifier", "score")


def to_hf(method: Method, model: nn.Module, hosts: Mapping[str, nn.Module]) -> dict[str, Any]:
    """The settings as HF peft names them.

    Args:
        model: the whole model.
        hosts: the modules that the adapter is on, by path.

    Raises:
        ValueError: a method that HF peft does not have, or has on whole models only.
    """
    found: dict[str, Any] = {
        "base_model_name_or_path": None,
        "inference_mode": True,
        "modules_to_save": list(method.modules_to_save) or None,
        "task_type": None,
    }
    if isinstance(method, PromptTuning):
        return found | _prompt_to_hf(method, model, hosts)
    if isinstance(method, LayerMethod):
        targets = method.target_modules if isinstance(method.target_modules, str) else list(method.target_modules)
        conv1d = any(layout_of(module) == "conv1d" for module in hosts.values())
        found |= {"fan_in_fan_out": conv1d, "target_modules": targets}
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


def _prompt_to_hf(method: PromptTuning, model: nn.Module, hosts: Mapping[str, nn.Module]) -> dict[str, Any]:
    if not hosts.keys() & {"", getattr(model, "base_model_prefix", "")}:
        raise ValueError(f"model: the prompt is on {next(iter(hosts))!r}; HF peft has prompts on whole models only")
    kind = original_class(model).__name__
    return {
        "num_transformer_submodules": 1,
        "num_virtual_tokens": method.n,
        "peft_type": "PROMPT_TUNING",
        # HF peft leaves prompts out where it is not told what the model is for.
        "task_type": next((task for end, task in _TASKS.items() if kind.endswith(end)), "FEATURE_EXTRACTION"),
    }


def from_hf(settings: Mapping[str, Any]) -> Method:
    """The method that a file's settings describe.

    Raises:
        ValueError: a type or a setting that this package does not have, named with its value; nothing is ignored that
            changes what the tensors mean.
    """
    kind = settings.get("peft_type")
    more = {"LORA": _READ_LORA, "IA3": _READ_IA3, "PROMPT_TUNING": _READ_PROMPT | _TOLD_PROMPT}
    if kind not in more:
        raise ValueError(f"peft_type={kind!r}: allowed here are {', '.join(map(repr, more))}")
    known = _TOLD | _READ | more[kind]
    for name, value in settings.items():
        if name not in known and value not in (None, False, "none", [], {}):
            raise ValueError(f"{name}={value!r} in adapter_config.json: not supported, so the file is not read")
    start = settings.get("init_lora_weights")
    if isinstance(start, str) and start.lower().startswith(_BASE_CHANGING):
        raise ValueError(f"init_lora_weights={start!r}: its adapters belong to a base that was changed; not supported")
    if kind == "PROMPT_TUNING":
        if (parts := settings.get("num_transformer_submodules")) not in (None, 1):
            raise ValueError(f"num_transformer_submodules={parts!r}: an encoder-decoder's prompts are not supported")
        saved = tuple(settings.get("modules_to_save") or ())
        return PromptTuning(n=_given(settings, "num_virtual_tokens"), modules_to_save=saved)
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


def without_missing_classifiers(method: Method, settings: Mapping[str, Any], model: nn.Module) -> Method:
    """HF peft writes both of a classifier's usual names for every classification model, which has one of them."""
    names = {path.rsplit(".", 1)[-1] for path, _ in model.named_modules()}
    kept = tuple(name for name in method.modules_to_save if name in names or name not in _CLASSIFIERS)
    if settings.get("task_type") not in ("SEQ_CLS", "TOKEN_CLS") or not names & set(_CLASSIFIERS):
        return method
    return replace(method, modules_to_save=kept)  # type: ignore[type-var]  # every method is a dataclass


def _given(settings: Mapping[str, Any], name: str) -> Any:
    if name not in settings:
        raise ValueError(f"{name} is missing in adapter_config.json")
    return settings[name]
