"""Files: HF peft's both ways, strict, and nothing that is run."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from peft_models import (
    IDS,
    METHODS,
    Network,
    adapted,
    bert,
    gpt2,
    library,
    llama,
    logits,
    perturb,
    same_state,
    state,
    tokens,
)

import bancada_peft as bp
from bancada_peft.checkpoint import safetensors
from bancada_peft.checkpoint.files import TENSORS

PAIRS: dict[str, tuple[Any, bp.Lora | bp.Ia3, dict[str, Any]]] = {
    "lora": (llama, bp.Lora(("q_proj", "v_proj", "down_proj"), r=4, alpha=6), {}),
    "lora-pattern": (llama, bp.Lora(r".*\.1\.mlp\.(up|down)_proj", r=4, alpha=6), {}),
    "lora-all-linear": (llama, bp.Lora("all-linear", r=2, alpha=6), {}),
    "lora-conv1d-embedding": (gpt2, bp.Lora(("c_attn", "wte"), r=4, alpha=6), {}),
    "lora-classifier": (bert, bp.Lora(("query", "value"), r=4, modules_to_save=("classifier",)), {}),
    "rslora": (llama, bp.Lora(("q_proj", "v_proj"), r=4, alpha=6, rank_stabilised=True), {"use_rslora": True}),
    "dora": (llama, bp.Dora(("q_proj", "down_proj"), r=4, alpha=6), {"use_dora": True}),
    "dora-conv1d": (gpt2, bp.Dora(("c_attn",), r=4, alpha=6), {"use_dora": True}),
    "ia3": (llama, bp.Ia3(("k_proj", "v_proj", "down_proj"), feedforward_modules=("down_proj",)), {}),
    "ia3-conv1d": (gpt2, bp.Ia3(("c_attn", "mlp.c_proj"), feedforward_modules=("mlp.c_proj",)), {}),
}


def hf_config(method: bp.Lora | bp.Ia3, options: dict[str, Any]) -> Any:
    peft = library("peft")
    targets = method.target_modules if isinstance(method.target_modules, str) else list(method.target_modules)
    shared = {"target_modules": targets, "modules_to_save": list(method.modules_to_save) or None}
    if isinstance(method, bp.Ia3):
        return peft.IA3Config(**shared, feedforward_modules=list(method.feedforward_modules))
    return peft.LoraConfig(**shared, r=method.r, lora_alpha=method.alpha, **options)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PAIRS)
def test_files_of_hf_peft_are_read_and_ours_are_read_by_it(name: str, tmp_path: Path) -> None:
    """Case 20: both ways, perturbed, logits within 1e-5; case 6 (HF peft 1615): a saved classifier comes back equal."""
    make, method, options = PAIRS[name]
    peft, ids = library("peft"), tokens()
    theirs = peft.get_peft_model(make(), hf_config(method, options)).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            if parameter.requires_grad:
                parameter += 0.1 * torch.randn_like(parameter)
    right = logits(theirs, ids)
    assert (right - logits(make(), ids)).abs().max() > 3e-3, "the adapter must do something"
    theirs.save_pretrained(tmp_path / "theirs")
    ours = make()
    summary = bp.load_adapter(ours, tmp_path / "theirs", trainable=True)
    assert summary.trainable == theirs.get_nb_trainable_parameters()[0]
    assert (logits(ours, ids) - right).abs().max() <= 1e-5

    perturb(ours, 0.1)
    right = logits(ours, ids)
    bp.save_adapter(ours, tmp_path / "ours")
    back = peft.PeftModel.from_pretrained(make(), tmp_path / "ours").eval()
    assert (logits(back, ids) - right).abs().max() <= 1e-5
    again = make()
    assert bp.load_adapter(again, tmp_path / "ours", "other").trainable == 0
    assert torch.equal(logits(again, ids), right)


@pytest.mark.filterwarnings("ignore")
def test_a_classifiers_file_of_hf_peft_names_what_the_model_does_not_have(tmp_path: Path) -> None:
    """For a classification task HF peft writes `classifier` and `score`, whichever there is; case 6: it comes back."""
    peft, ids = library("peft"), tokens()
    config = peft.LoraConfig(task_type="SEQ_CLS", target_modules=["query", "value"], r=4, init_lora_weights=False)
    theirs = peft.get_peft_model(bert(), config).eval()
    theirs.base_model.model.classifier.modules_to_save["default"].weight.data.normal_()
    theirs.save_pretrained(tmp_path)
    ours = bert()
    bp.load_adapter(ours, tmp_path)
    assert (logits(ours, ids) - logits(theirs, ids)).abs().max() <= 1e-5
    method = bp.adapters_of(ours)["default"]
    assert method.modules_to_save == ("classifier",)
    settings = json.loads((tmp_path / "adapter_config.json").read_text(encoding="utf-8"))
    assert settings["modules_to_save"] == ["classifier", "score"]
    rewrite(tmp_path, {"modules_to_save": ["classifier", "head"]})
    with pytest.raises(ValueError, match=r"modules_to_save: 'head' matches no module"):
        bp.load_adapter(bert(), tmp_path)


def test_a_tied_head_stays_tied_over_a_reload(tmp_path: Path) -> None:
    """Case 5 (HF peft 2777, 2864): an adapter on a tied embedding, from its file and from torch's own state."""
    method, ids = bp.Lora(("wte", "c_attn"), r=3), tokens()
    model = gpt2()
    bp.adapt(model, method)
    perturb(model)
    right = logits(model, ids)
    bp.save_adapter(model, tmp_path)
    assert not any("wte.weight" in key or "lm_head" in key for key in safetensors.read(tmp_path / TENSORS))
    loaded = gpt2()
    bp.load_adapter(loaded, tmp_path)
    restored = gpt2()
    bp.adapt(restored, method)
    restored.load_state_dict(model.state_dict())
    for again in (loaded, restored):
        assert again.lm_head.weight is again.transformer.wte.weight and torch.equal(logits(again, ids), right)
        again.tie_weights()
        assert again.lm_head.weight is again.transformer.wte.weight and torch.equal(logits(again, ids), right)


@pytest.mark.parametrize("name", [name for name in METHODS if name != "bottleneck"])
def test_an_adapter_comes_back_to_the_bit(name: str, tmp_path: Path) -> None:
    model = adapted(name)
    bp.save_adapter(model, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["adapter_config.json", "adapter_model.safetensors"]
    fresh = Network()
    bp.load_adapter(fresh, tmp_path)
    assert not same_state(state(fresh), state(model))  # the bases differ: adapters alone are in the file
    base = adapted(name)
    bp.delete_adapter(base, "default")
    bp.load_adapter(base, tmp_path)
    assert same_state(state(base), state(model)) and torch.equal(base(IDS), model(IDS))
    assert bp.adapters_of(base)["default"] == bp.adapters_of(model)["default"]


def test_a_file_is_converted_to_the_stated_types(tmp_path: Path) -> None:
    """HF peft 1090, 2421."""
    bp.save_adapter(adapted("lora", torch.float32), tmp_path)
    for base, asked, right in (
        (torch.bfloat16, None, torch.float32),
        (torch.float64, None, torch.float64),
        (torch.float32, torch.bfloat16, torch.bfloat16),
    ):
        model = Network(base)
        bp.load_adapter(model, tmp_path, dtype=asked, trainable=True)
        assert {parameter.dtype for parameter in model.parameters() if parameter.requires_grad} == {right}


def rewrite(folder: Path, settings: dict[str, Any], drop: str = "", add: dict[str, torch.Tensor] | None = None) -> None:
    path = folder / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **settings}), encoding="utf-8")
    tensors = safetensors.read(folder / "adapter_model.safetensors")
    tensors = {name: tensor for name, tensor in tensors.items() if not drop or drop not in name}
    safetensors.write(folder / "adapter_model.safetensors", tensors | (add or {}))


KEY = "base_model.model.first.lora_A.weight"
BROKEN: list[tuple[dict[str, Any], str, dict[str, torch.Tensor], str]] = [
    ({}, "second.lora_B", {}, r"lacks base_model\.model\.second\.lora_B\.weight"),
    ({}, "", {"base_model.model.third.lora_A.weight": torch.ones(1)}, r"has base_model\.model\.third\.lora_A\.weight"),
    ({}, "", {KEY: torch.ones(3, 7)}, r"first\.lora_A\.weight is torch\.float32 \[3, 7\]; must be floating \[3, 6\]"),
    ({}, "", {KEY: torch.ones(3, 6, dtype=torch.int8)}, r"is torch\.int8"),
    ({}, "", {"base_model.model.embed.base_layer.weight": torch.ones(11, 6)}, r"has .*embed\.base_layer\.weight"),
    ({"target_modules": ["first", "third"]}, "", {}, r"'third' matches no module"),
    ({"target_modules": None}, "", {}, r"target_modules=None"),
    ({"target_modules": ["first"]}, "", {}, r"of no target"),
    ({"peft_type": "LOHA"}, "", {}, r"peft_type='LOHA'"),
    ({"bias": "all"}, "", {}, r"bias='all' .*not supported"),
    ({"rank_pattern": {"first": 4}}, "", {}, r"rank_pattern"),
    ({"layers_to_transform": [0]}, "", {}, r"layers_to_transform"),
    ({"something_new": 3}, "", {}, r"something_new=3"),
    ({"init_lora_weights": "pissa_niter_4"}, "", {}, r"init_lora_weights='pissa_niter_4'"),
    ({"r": 4}, "", {}, r"must be floating \[4, 11\]"),
    ({"r": "3"}, "", {}, r"r='3'"),
    ({"use_dora": True, "target_modules": ["first", "second"]}, "embed", {}, r"lacks .*lora_magnitude_vector"),
]


@pytest.mark.parametrize(("changes", "drop", "add", "message"), BROKEN, ids=lambda value: str(value)[:40])
def test_a_file_that_does_not_fit_is_refused_and_leaves_no_trace(
    changes: dict[str, Any], drop: str, add: dict[str, torch.Tensor], message: str, tmp_path: Path
) -> None:
    """Case 7 (HF peft 1678, 2118): what was not loaded is an error that names it."""
    bp.save_adapter(adapted("lora", torch.float32), tmp_path)
    rewrite(tmp_path, changes, drop, add)
    model = Network(torch.float32)
    before, kinds = state(model), [type(module) for module in model.modules()]
    with pytest.raises(ValueError, match=message):
        bp.load_adapter(model, tmp_path)
    assert same_state(before, state(model)) and [type(module) for module in model.modules()] == kinds
    assert all(parameter.requires_grad for parameter in model.parameters()) and not bp.adapters_of(model)


def test_no_pickle_is_read(tmp_path: Path) -> None:
    """Case 18: neither one of the usual name, nor one that is called safetensors."""
    opened = tmp_path / "opened"

    class Bomb:
        def __reduce__(self) -> Any:
            return (Path.touch, (opened,))

    bp.save_adapter(adapted("lora"), tmp_path)
    data = tmp_path / "adapter_model.safetensors"
    data.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(ValueError, match="not a safetensors file"):
        bp.load_adapter(Network(), tmp_path)
    data.rename(tmp_path / "adapter_model.bin")
    with pytest.raises(ValueError, match=r"has no adapter_model\.safetensors; it has adapter_model\.bin, and pickles"):
        bp.load_adapter(Network(), tmp_path)
    assert not opened.exists()
    with pytest.raises(ValueError, match=r"has no adapter_config\.json"):
        bp.load_adapter(Network(), tmp_path / "nowhere")


def test_what_hf_peft_lacks_or_is_not_there_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="HF peft has no Bottleneck"):
        bp.save_adapter(adapted("bottleneck"), tmp_path / "x")
    with pytest.raises(ValueError, match=r"name='other': the model's adapters are default"):
        bp.save_adapter(adapted("lora"), tmp_path / "x", "other")
    assert not (tmp_path / "x").exists()


DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.lists(st.integers(0, 4), max_size=3), st.sampled_from(DTYPES)), max_size=5))
def test_safetensors_of_ours_and_of_the_library_are_the_same(shapes: list[tuple[list[int], torch.dtype]]) -> None:
    import tempfile

    theirs = pytest.importorskip("safetensors.torch")
    tensors = {f"t{i}": (torch.randn(shape) * 3).to(dtype) for i, (shape, dtype) in enumerate(shapes)}
    strided = {name: tensor.mT.contiguous().mT if tensor.dim() > 1 else tensor for name, tensor in tensors.items()}
    with tempfile.TemporaryDirectory() as folder:
        mine, other = Path(folder, "mine"), Path(folder, "theirs")
        safetensors.write(mine, strided)
        theirs.save_file(tensors, other)
        for found in (safetensors.read(mine), safetensors.read(other), theirs.load_file(mine)):
            assert same_state(found, tensors)
            assert all(found[name].dtype == tensor.dtype for name, tensor in tensors.items())


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_damaged_file_is_refused_or_read_whole_and_never_more(data: st.DataObject) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file")
        safetensors.write(path, {"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(2, dtype=torch.int8)})
        content = bytearray(path.read_bytes())
        if data.draw(st.booleans(), label="cut"):
            content = content[: data.draw(st.integers(0, len(content) - 1))]
        else:
            header = 8 + int.from_bytes(content[:8], "little")
            content[data.draw(st.integers(0, header - 1))] = data.draw(st.integers(0, 255))
        path.write_bytes(content)
        try:
            found = safetensors.read(path)
        except ValueError as error:
            assert str(path) in str(error)
        else:
            assert sum(t.numel() * t.element_size() for t in found.values()) == 26


def test_a_type_that_the_format_lacks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"x: dtype torch\.complex64"):
        safetensors.write(tmp_path / "file", {"x": torch.ones(2, dtype=torch.complex64)})
    assert not list(tmp_path.iterdir())
