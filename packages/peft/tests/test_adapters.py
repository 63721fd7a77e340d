"""Named adapters: put on, switched, disabled, deleted; what is trained; which targets; refusals leave no trace."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
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
from torch import nn

import bancada_peft as bp


@pytest.mark.parametrize("name", METHODS)
def test_a_disabled_adapter_is_the_base_to_the_bit(name: str) -> None:
    """Case 15."""
    base = Network(torch.float32)
    model = copy.deepcopy(base)
    bp.adapt(model, METHODS[name])
    perturb(model)
    with_adapter, right = model(IDS), base(IDS)
    assert not torch.equal(with_adapter, right)
    with bp.disabled(model):
        assert torch.equal(model(IDS), right)
    assert torch.equal(model(IDS), with_adapter)
    with pytest.raises(RuntimeError, match="inside"), bp.disabled(model):
        raise RuntimeError("inside")
    assert torch.equal(model(IDS), with_adapter)
    bp.use_adapter(model, None)
    assert torch.equal(model(IDS), right) and bp.trainable_summary(model).trainable == 0


@pytest.mark.parametrize("name", METHODS)
def test_deleting_the_last_adapter_leaves_the_model_as_it_was(name: str) -> None:
    model = Network()
    model.first.weight.requires_grad_(False)
    before, kinds = state(model), [type(module) for module in model.modules()]
    flags = [parameter.requires_grad for parameter in model.parameters()]
    bp.adapt(model, METHODS[name])
    perturb(model)
    bp.delete_adapter(model, "default")
    assert same_state(before, state(model)) and [type(module) for module in model.modules()] == kinds
    assert [parameter.requires_grad for parameter in model.parameters()] == flags
    assert "adapters" not in model.first.__dict__ and not bp.adapters_of(model)
    assert vars(model).keys() == vars(Network()).keys()


def test_named_adapters_are_switched_between() -> None:
    model = Network()
    bp.adapt(model, METHODS["lora"], "one")
    perturb(model, seed=1)
    one = model(IDS)
    bp.adapt(model, METHODS["dora"], "two")
    perturb(model, seed=2)
    bp.use_adapter(model, "one")
    moved, two_alone = model(IDS), copy.deepcopy(model)
    bp.use_adapter(model, "two")
    two = model(IDS)
    assert not torch.equal(one, moved) and not torch.equal(moved, two)
    bp.use_adapter(model, "one")
    assert torch.equal(model(IDS), moved) and bp.active_adapter(model) == "one"
    bp.delete_adapter(two_alone, "one")
    bp.use_adapter(two_alone, "two")
    assert torch.equal(two_alone(IDS), two) and set(bp.adapters_of(two_alone)) == {"two"}
    assert isinstance(two_alone.embed, nn.Embedding) and type(two_alone.embed) is nn.Embedding


def test_a_second_adapters_copy_is_of_the_plain_module() -> None:
    model = Network()
    plain = model(IDS)
    bp.adapt(model, bp.Lora(("head",), r=2), "one")
    perturb(model)
    bp.adapt(model, bp.Lora(("first",), r=2, modules_to_save=("head",)), "two")
    torch.testing.assert_close(model(IDS), plain)
    assert type(model.head.adapters["two"].module) is nn.Linear  # type: ignore[index, operator, union-attr]


@pytest.mark.parametrize("name", METHODS)
def test_only_declared_parameters_have_gradients_and_optimizer_state(name: str) -> None:
    """Case 16, with a second adapter beside that is not active."""
    model = Network()
    bp.adapt(model, METHODS["lora"], "other")
    summary = bp.adapt(model, METHODS[name])
    perturb(model)
    before = state(model)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.1)
    model(IDS).square().sum().backward()
    optimizer.step()
    graded = {path for path, parameter in model.named_parameters() if parameter.grad is not None}
    assert graded == set(summary.names) and all(".adapters.default." in f".{path}" for path in graded)
    kept = sum(
        t.numel() * t.element_size() for entry in optimizer.state.values() for k, t in entry.items() if k != "step"
    )
    assert kept == summary.optimizer_bytes
    changed = {path for path, tensor in state(model).items() if not torch.equal(tensor, before[path])}
    assert changed == graded


@pytest.mark.parametrize(
    ("name", "count"),
    [
        # LoRA r (in + out), with 6 -> 10, 10 -> 6 and a table of 11 x 6 (Hu et al., arXiv 2106.09685, section 4.2)
        ("lora", 3 * (6 + 10) + 3 * (10 + 6) + 3 * (11 + 6)),
        ("dora", 3 * (6 + 10) + 3 * (10 + 6) + 10 + 6),
        ("ia3", 10 + 10),
        ("bottleneck", 2 * 3 * 10 + 3 + 10 + 2 * 3 * 6 + 3 + 6),
        ("saved", 2 * (6 + 10) + 6 * 5 + 5),
        ("prompt", 4 * 6),
    ],
)
def test_trainable_counts_are_those_of_the_formula(name: str, count: int) -> None:
    model = Network(torch.float32)
    total = sum(parameter.numel() for parameter in model.parameters())
    summary = bp.adapt(model, METHODS[name])
    assert (summary.trainable, summary.total) == (count, total + count)
    assert (summary.trainable_bytes, summary.optimizer_bytes) == (4 * count, 8 * count)
    assert f"{count:,} of" in str(summary) and summary.share == count / (total + count)


def test_the_count_of_a_large_model_is_computed_without_its_memory() -> None:
    """On the meta device; shared parameters count once."""
    with torch.device("meta"):
        model = nn.ModuleDict({"up": nn.Linear(4096, 11008, bias=False), "down": nn.Linear(11008, 4096, bias=False)})
        model["again"] = model["up"]
        summary = bp.adapt(model, bp.Lora(("up", "down"), r=16))
    assert summary.trainable == 2 * 16 * (4096 + 11008)
    assert summary.total == 2 * 4096 * 11008 + summary.trainable


REFUSED: list[tuple[Any, str]] = [
    (bp.Lora(("frist",)), r"'frist' matches no module; near are first"),
    (bp.Lora(("first", "q_proj")), r"'q_proj' matches no module; this model has embed, first, head, second"),
    (bp.Lora("layers.*"), r"'layers\.\*': matches no module"),
    (bp.Lora("(first"), r"not a regular expression"),
    (bp.Dora(("embed",)), r"'embed' is a .*Embedding; DoRA goes on"),
    (bp.Ia3(("embed",)), r"'embed' is a .*Embedding; \(IA\)\^3 goes on"),
    (bp.Lora(("first",), modules_to_save=("haed",)), r"modules_to_save: 'haed' matches no module; near are head"),
    (bp.Lora(("head",), modules_to_save=("head",)), r"'head' lies in 'head'"),
    (bp.Bottleneck("", r=3) if False else "lora", r"method='lora'"),
]


@pytest.mark.parametrize(("method", "message"), REFUSED, ids=lambda value: str(value)[:50])
def test_a_refused_adapt_leaves_the_model_as_it_was(method: Any, message: str) -> None:
    """Case 17, and the same for a model that has an adapter already."""
    for first in (None, "earlier"):
        model = Network()
        if first:
            bp.adapt(model, METHODS["lora"], first)
        before, flags = state(model), [p.requires_grad for p in model.parameters()]
        kinds, out = [type(module) for module in model.modules()], model(IDS)
        with pytest.raises(ValueError, match=message):
            bp.adapt(model, method)
        assert same_state(before, state(model)) and torch.equal(model(IDS), out)
        assert [type(module) for module in model.modules()] == kinds
        assert [p.requires_grad for p in model.parameters()] == flags and set(bp.adapters_of(model)) == {first} - {None}


def test_a_failure_while_attaching_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    from bancada_peft import adapting

    original, calls = adapting.attach, []

    def failing(module: nn.Module, name: str, adapter: nn.Module) -> None:
        calls.append(name)
        if len(calls) == 3:
            raise MemoryError("planted")
        original(module, name, adapter)

    model = Network()
    before, kinds = state(model), [type(module) for module in model.modules()]
    monkeypatch.setattr(adapting, "attach", failing)
    with pytest.raises(MemoryError, match="planted"):
        bp.adapt(model, METHODS["lora"])
    assert same_state(before, state(model)) and [type(module) for module in model.modules()] == kinds
    assert all(p.requires_grad for p in model.parameters()) and not bp.adapters_of(model)


@pytest.mark.parametrize("name", ["", "a.b", "keys", "training", 3])
def test_bad_adapter_names_are_refused(name: Any) -> None:
    with pytest.raises(ValueError, match="name="):
        bp.adapt(Network(), METHODS["lora"], name)


def test_names_taken_or_unknown_are_refused() -> None:
    model = Network()
    with pytest.raises(ValueError, match="has no adapter"):
        bp.use_adapter(model, "one")
    bp.adapt(model, METHODS["lora"], "one")
    with pytest.raises(ValueError, match=r"name='one': the model has such an adapter"):
        bp.adapt(model, METHODS["lora"], "one")
    for call in (bp.use_adapter, bp.delete_adapter):
        with pytest.raises(ValueError, match=r"name='two': the model's adapters are one"):
            call(model, "two")
    with pytest.raises(ValueError, match="put on another part"):
        bp.adapt(nn.ModuleDict({"whole": model}), METHODS["lora"], "two")


def test_layers_that_only_look_linear_are_refused() -> None:
    """The output projection of `nn.MultiheadAttention` is never called: an adapter on it would do nothing."""
    model = nn.MultiheadAttention(8, 2)
    with pytest.raises(ValueError, match=r"'out_proj' is a .*NonDynamicallyQuantizableLinear"):
        bp.adapt(model, bp.Lora(("out_proj",)))
    with pytest.raises(ValueError, match="max_norm"):
        bp.adapt(nn.Sequential(nn.Embedding(3, 2, max_norm=1.0)), bp.Lora(("0",)))
    integers = nn.Sequential(nn.Linear(2, 2))
    integers[0].weight = nn.Parameter(torch.ones(2, 2, dtype=torch.int8), requires_grad=False)
    with pytest.raises(ValueError, match=r"dtype torch\.int8"):
        bp.adapt(integers, bp.Lora(("0",)))


def test_targets_by_end_by_path_by_expression_and_all() -> None:
    def paths(method: bp.Lora) -> list[str]:
        model = llama()
        bp.adapt(model, method)
        return [path for path, module in model.named_modules() if hasattr(module, "adapters")]

    ends = paths(bp.Lora(("q_proj", "mlp.up_proj")))
    assert ends == [f"model.layers.{i}.{end}" for i in (0, 1) for end in ("self_attn.q_proj", "mlp.up_proj")]
    assert paths(bp.Lora(("model.layers.1.self_attn.q_proj",))) == ["model.layers.1.self_attn.q_proj"]
    assert paths(bp.Lora(r".*\.0\.self_attn\.[kv]_proj")) == [f"model.layers.0.self_attn.{x}_proj" for x in "kv"]
    every = paths(bp.Lora("all-linear"))
    assert len(every) == 14 and "lm_head" not in every


def test_adapters_survive_a_copy_and_torchs_own_state() -> None:
    model = adapted("lora")
    twin = copy.deepcopy(model)
    assert torch.equal(twin(IDS), model(IDS))
    perturb(twin)
    assert not torch.equal(twin(IDS), model(IDS))
    fresh = Network()
    bp.adapt(fresh, METHODS["lora"])
    fresh.load_state_dict(model.state_dict())
    assert torch.equal(fresh(IDS), model(IDS))
    assert all(key.startswith(("embed", "first", "second", "head")) for key in model.state_dict())


def test_a_tied_head_stays_tied() -> None:
    """HF peft 2777, 2864: an adapter on a tied embedding; copies and merges that would untie or change the head."""
    model = gpt2()
    bp.adapt(model, bp.Lora(("wte",), r=2))
    perturb(model)
    assert model.lm_head.weight is model.transformer.wte.weight
    twin = copy.deepcopy(model)
    assert twin.lm_head.weight is twin.transformer.wte.weight
    before = state(model)
    with pytest.raises(ValueError, match=r"tied to lm_head\.weight"):
        bp.merge(model)
    assert same_state(before, state(model))
    for name in ("lm_head", "wte"):
        with pytest.raises(ValueError, match=r"modules_to_save: .* shares weights with"):
            bp.adapt(model, bp.Lora(("c_attn",), modules_to_save=(name,)), "two")


@pytest.mark.filterwarnings("ignore:.gradient_checkpointing_enable. is deprecated")
@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize(
    ("method", "count"), [(bp.Lora(("q_proj", "down_proj"), r=2), 8), (bp.PromptTuning(n=3), 1)], ids=["lora", "prompt"]
)
def test_gradient_checkpointing_gives_the_same_gradients(method: Any, count: int, reentrant: bool) -> None:
    """Case 12 (transformers 42489): embeddings are frozen; without a prompt nothing at the entry asks for one."""

    def gradients(checkpointed: bool) -> dict[str, torch.Tensor]:
        model = llama().train()
        bp.adapt(model, method)
        perturb(model)
        if checkpointed:
            model.gradient_checkpointing_enable({"use_reentrant": reentrant})
            if reentrant:
                model.enable_input_require_grads()
        ids = tokens()
        model(input_ids=ids, labels=ids).loss.backward()
        return {path: p.grad for path, p in model.named_parameters() if p.grad is not None}

    plain, again = gradients(False), gradients(True)
    assert len(plain) == count and plain.keys() == again.keys()
    for path, grad in plain.items():
        torch.testing.assert_close(again[path], grad)


def test_freezing_trains_the_head_or_the_upper_layers_alone() -> None:
    model = bert()
    summary = bp.train_only(model, ("classifier",))
    assert set(summary.names) == {"classifier.weight", "classifier.bias"}
    summary = bp.train_upper_layers(model, 1, also=("classifier", "pooler"))
    assert {".".join(name.split(".")[:4]) for name in summary.names} == {
        "bert.encoder.layer.1",
        *(f"{module}.{kind}" for module in ("bert.pooler.dense", "classifier") for kind in ("weight", "bias")),
    }
    model.zero_grad()
    model(input_ids=tokens()).logits.sum().backward()
    assert {path for path, p in model.named_parameters() if p.grad is not None} == set(summary.names)
    bp.train_only(model, ("classifier",))
    assert {path for path, p in model.named_parameters() if p.grad is not None} == {
        "classifier.weight",
        "classifier.bias",
    }


def test_freezing_refuses_what_is_not_there_and_changes_nothing() -> None:
    model = bert()
    for call, message in (
        (lambda: bp.train_only(model, ("clasifier",)), "near are classifier"),
        (lambda: bp.train_only(model, ("dropout",)), "has no parameters"),
        (lambda: bp.train_upper_layers(model, 3), r"count=3: the model has 2 layers, in 'bert\.encoder\.layer'"),
        (lambda: bp.train_upper_layers(model, 0), "count=0"),
        (lambda: bp.train_upper_layers(nn.Sequential(nn.Linear(2, 2)), 1), "the model has 0 layers"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
        assert all(p.requires_grad for p in model.parameters())


def test_cached_and_uncached_generation_agree_with_an_adapter() -> None:
    model = llama()
    bp.adapt(model, bp.Lora("all-linear", r=2))
    perturb(model, 0.1)
    ids = tokens()
    cache = library("transformers").DynamicCache()
    logits(model, ids[:, :5], cache=cache)
    torch.testing.assert_close(logits(model, ids[:, 5:], cache=cache), logits(model, ids)[:, 5:], rtol=1e-4, atol=1e-5)
