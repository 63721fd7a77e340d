"""Adapters in files that HF peft reads, and the reverse."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bancada_peft.adapting import adapted_modules, adapters_of, install, prepare
from bancada_peft.bottleneck import BottleneckAdapter
from bancada_peft.checkpoint import safetensors
from bancada_peft.checkpoint.settings import from_hf, to_hf, without_missing_classifiers
from bancada_peft.ia3 import Ia3Adapter
from bancada_peft.layers import Adapter
from bancada_peft.lora import LoraAdapter
from bancada_peft.methods import Method
from bancada_peft.prompt import PromptAdapter, PromptTuning
from bancada_peft.saved import SavedModule
from bancada_peft.summary import TrainableSummary, trainable_summary

SETTINGS, TENSORS = "adapter_config.json", "adapter_model.safetensors"
_PREFIX = "base_model.model."


def save_adapter(model: nn.Module, folder: str | Path, name: str = "default") -> Path:
    """Writes one adapter, and nothing of the base, as `adapter_config.json` and `adapter_model.safetensors`.

    Returns:
        the folder, which is made where it is missing.

    Raises:
        ValueError: no such adapter, or a method that HF peft does not have; nothing is then written.
    """
    methods = adapters_of(model)
    if name not in methods:
        raise ValueError(f"name={name!r}: the model's adapters are {', '.join(sorted(methods)) or 'none'}")
    hosts = {path: module for path, module in adapted_modules(model).items() if name in module.adapters}
    settings, prefix = to_hf(methods[name], model, hosts), _prefix(methods[name])
    tensors: dict[str, Tensor] = {}
    for path, module in hosts.items():
        adapter = module.adapters[name]
        assert isinstance(adapter, Adapter)
        tensors |= {key: _to_file(tensor, adapter) for key, tensor in _tensors(prefix, path, adapter).items()}
    return write_files(folder, settings, tensors)


def load_adapter(
    model: nn.Module,
    folder: str | Path,
    name: str = "default",
    *,
    trainable: bool = False,
    dtype: torch.dtype | None = None,
) -> TrainableSummary:
    """Puts an adapter from a file on a model, active.

    The file's numbers are converted to the adapter's type: `dtype`, or float32 on half-precision layers and the layer's
    own elsewhere; a saved module's to those of the model's own.

    Args:
        trainable: whether it goes on being trained.

    Raises:
        ValueError: a missing file (a pickle is never read), a setting that is not supported, a tensor that is missing,
            left over or of another shape, named; a target that is not there. The model is then as it was.
    """
    settings, tensors = read_files(folder)
    method = without_missing_classifiers(from_hf(settings), settings, model)
    method = replace(method, dtype=dtype)  # type: ignore[type-var]  # every method is a dataclass
    adapters = prepare(model, method, name)
    wanted: dict[str, tuple[Adapter, Tensor]] = {}
    for path, adapter in adapters.items():
        wanted |= {key: (adapter, tensor) for key, tensor in _tensors(_prefix(method), path, adapter).items()}
    if missing := sorted(set(wanted) - set(tensors)):
        raise ValueError(f"{folder}: lacks {_some(missing)}")
    if stray := sorted(key for key in set(tensors) - set(wanted) if not _same_in_base(model, key, tensors[key])):
        raise ValueError(
            f"{folder}: has {_some(stray)}, of no target and not the model's own; needed are {_some(wanted)}"
        )
    with torch.no_grad():
        for key, (adapter, tensor) in wanted.items():
            value = tensors[key]
            shape = _to_file(tensor, adapter).shape
            if value.shape != shape or value.is_floating_point() != tensor.is_floating_point():
                kind = "floating" if tensor.is_floating_point() else str(tensor.dtype)
                raise ValueError(f"{folder}: {key} is {value.dtype} {list(value.shape)}; must be {kind} {list(shape)}")
            tensor.copy_(value.reshape(tensor.shape))
    install(model, method, name, adapters)
    if not trainable:
        for module in adapted_modules(model).values():
            for parameter in module.adapters.parameters():
                parameter.requires_grad_(False)
    return trainable_summary(model)


def write_files(folder: str | Path, settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Path:
    """Writes both files of an adapter."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    safetensors.write(folder / TENSORS, tensors)
    (folder / SETTINGS).write_text(json.dumps(settings, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    return folder


def read_files(folder: str | Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Reads both files of an adapter; ValueError where one is missing or broken."""
    folder = Path(folder)
    for file in (SETTINGS, TENSORS):
        if not (folder / file).is_file():
            others = sorted(path.name for path in folder.glob("adapter_model.*")) if folder.is_dir() else []
            hint = f"; it has {', '.join(others)}, and pickles are not read" if others else ""
            raise ValueError(f"folder={str(folder)!r}: has no {file}{hint}")
    try:
        settings = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
    except ValueError:
        raise ValueError(f"{folder / SETTINGS}: is no JSON") from None
    if not isinstance(settings, dict):
        raise ValueError(f"{folder / SETTINGS}: is no JSON object")
    return settings, safetensors.read(folder / TENSORS)


def _prefix(method: Method) -> str:
    """Before a module's path in a file: HF peft wraps a model once more where its layers change."""
    return "base_model." if isinstance(method, PromptTuning) else _PREFIX


def _tensors(prefix: str, path: str, adapter: Adapter) -> dict[str, Tensor]:
    """An adapter's parameters under the names that they have in a file."""
    assert not isinstance(adapter, BottleneckAdapter), "refused with the settings"
    if isinstance(adapter, PromptAdapter):
        return {"prompt_embeddings": adapter.prompt}
    if isinstance(adapter, SavedModule):
        return {f"{prefix}{path}.{name}": tensor for name, tensor in adapter.module.state_dict().items()}
    names = {"magnitude": "lora_magnitude_vector", "ia3_l": "ia3_l"}
    if isinstance(adapter, LoraAdapter):
        embedding = adapter.layout == "embedding"
        names |= {f"lora_{x}": f"lora_embedding_{x}" if embedding else f"lora_{x}.weight" for x in "AB"}
    return {f"{prefix}{path}.{names[name]}": parameter for name, parameter in adapter.named_parameters()}


def _to_file(tensor: Tensor, adapter: Adapter) -> Tensor:
    """(IA)^3's factors as HF peft shapes them: [1, in] on feed-forward layers, [out, 1] elsewhere."""
    tensor = tensor.detach()
    if isinstance(adapter, Ia3Adapter):
        return tensor[None, :] if adapter.feedforward else tensor[:, None]
    return tensor


def _same_in_base(model: nn.Module, key: str, value: Tensor) -> bool:
    """Whether a tensor is the model's own: HF peft writes the base's embeddings beside adapters that are on one."""
    path = key.removeprefix(_PREFIX).replace(".base_layer.", ".")
    own = dict(model.named_parameters(remove_duplicate=False)).get(path)
    return own is not None and own.shape == value.shape and torch.equal(own.detach().cpu(), value.to(own.dtype))


def _some(names: Any) -> str:
    names = sorted(names)
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
