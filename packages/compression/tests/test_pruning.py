"""Scores and masks against loops; exact counts with ties; masks that hold through training, saving and quantising."""

from __future__ import annotations

import copy

import pytest
import torch
from formats import FORMATS, normal
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from bancada_compression import (
    Groupwise,
    activation_norms,
    keep_mask,
    magnitude_scores,
    make_permanent,
    n_of_m_mask,
    prune,
    quantize,
    wanda_scores,
)
from bancada_compression.pruning.reference import keep_reference, wanda_scores_reference

few = st.sampled_from([0.0, 1.0, 2.0, 3.0])


@st.composite
def scores_with_ties(draw: st.DrawFn) -> torch.Tensor:
    rows, columns = draw(st.integers(1, 4)), draw(st.integers(1, 13))
    row = st.lists(few, min_size=columns, max_size=columns)
    return torch.tensor(draw(st.lists(row, min_size=rows, max_size=rows)))


@given(scores=scores_with_ties(), sparsity=st.floats(0, 1))
def test_counts_are_exact_with_ties_wanda(scores: torch.Tensor, sparsity: float) -> None:
    rows, columns = scores.shape
    mask = keep_mask(scores, sparsity)
    assert mask.tolist() == [keep_reference(row, round(sparsity * columns)) for row in scores.tolist()]
    whole = keep_mask(scores, sparsity, "matrix")
    assert whole.flatten().tolist() == keep_reference(scores.flatten().tolist(), round(sparsity * rows * columns))


@given(scores=scores_with_ties(), m=st.integers(1, 6), data=st.data())
def test_n_of_m_in_every_block_also_a_narrow_last_one(scores: torch.Tensor, m: int, data: st.DataObject) -> None:
    n = data.draw(st.integers(0, m))
    mask = n_of_m_mask(scores, n, m)
    assert mask.shape == scores.shape
    for row, kept in zip(scores.tolist(), mask.tolist(), strict=True):
        for first in range(0, len(row), m):
            block = row[first : first + m]
            assert kept[first : first + m] == keep_reference(block, max(0, len(block) - n))


@given(out=st.integers(1, 4), width=st.integers(1, 5), tokens=st.integers(1, 6), seed=st.integers(0, 99))
def test_wanda_scores_are_those_of_the_definition(out: int, width: int, tokens: int, seed: int) -> None:
    weight, x = normal(out, width, seed=seed, dtype=torch.float64), normal(tokens, width, seed=seed + 1)
    model = nn.Sequential(nn.Linear(width, out))
    norms = activation_norms(model, [x[: tokens // 2], x[tokens // 2 :]])["0"]
    right = torch.tensor(wanda_scores_reference(weight.tolist(), x.double().tolist()), dtype=torch.float64)
    torch.testing.assert_close(wanda_scores(weight, norms), right, rtol=1e-6, atol=1e-12)


def test_a_constant_matrix_is_pruned_to_the_count() -> None:
    assert int(keep_mask(torch.ones(6, 10), 0.5).sum()) == 30
    assert int(keep_mask(torch.ones(6, 10), 1.0).sum()) == 0 and bool(keep_mask(torch.ones(6, 10), 0.0).all())


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 16))


def calibration() -> torch.Tensor:
    """Inputs whose columns differ in size by a factor of 100, as a Transformer's outlier features do."""
    return normal(256, 32) * torch.logspace(-1, 1, 32)


def layer_inputs(model: nn.Sequential, x: torch.Tensor) -> dict[str, torch.Tensor]:
    found = {}
    for name, module in model.named_children():
        found[name] = x
        x = module(x)
    return found


@torch.no_grad()
@pytest.mark.parametrize("pattern", ["row", "2:4"])
def test_wanda_errs_less_than_magnitude_on_every_layer(pattern: str) -> None:
    """||(W - W') X||: with the inputs of the layer, at half the weights."""
    model = network()
    norms, inputs = activation_norms(model, [calibration()]), layer_inputs(model, calibration())
    errors: dict[str, dict[str, float]] = {}
    for method, given_norms in (("magnitude", None), ("wanda", norms)):
        pruned = copy.deepcopy(model)
        prune(pruned, 0.5, method, given_norms, pattern)  # type: ignore[arg-type]
        errors[method] = {
            name: float(((layer.weight - model.get_submodule(name).weight) @ inputs[name].T).norm())
            for name, layer in pruned.named_children()
            if isinstance(layer, nn.Linear)
        }
    assert len(errors["wanda"]) == 3
    for name, error in errors["wanda"].items():
        assert 0 < error < errors["magnitude"][name]


@pytest.mark.parametrize("make", [torch.optim.AdamW, torch.optim.SGD])
def test_removed_weights_stay_zero_through_training_sparsegpt18(make) -> None:  # type: ignore[no-untyped-def]
    """Also where the optimizer already holds momentum for them, and decays weights."""
    model = network()
    optimizer = make(
        model.parameters(), lr=0.1, weight_decay=0.1, **({"momentum": 0.9} if make is torch.optim.SGD else {})
    )

    def step() -> None:
        optimizer.zero_grad()
        model(calibration()).square().mean().clamp(max=1e3).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    step()
    report = prune(model, 0.5)
    zeros = {one.name: model.get_submodule(one.name).weight == 0 for one in report}
    before = {name: model.get_submodule(name).weight.detach().clone() for name in zeros}
    for _ in range(3):
        step()
    for one in report:
        weight = model.get_submodule(one.name).weight
        assert int(zeros[one.name].sum()) == one.removed == one.weights // 2
        assert torch.equal(weight == 0, zeros[one.name])
        assert not torch.equal(weight, before[one.name])
    assert make_permanent(model) == 3
    assert all(torch.equal(model.get_submodule(name).weight == 0, zero) for name, zero in zeros.items())
    assert all(type(model.get_submodule(name)) is nn.Linear for name in zeros)
    assert make_permanent(model) == 0


def test_a_mask_is_stored_once_and_survives_saving_pt34257() -> None:
    model = nn.Sequential(nn.Linear(8, 8, bias=False))
    prune(model, 0.5)
    state = model.state_dict()
    assert {tuple(tensor.shape) for tensor in state.values()} == {(8, 8)}
    assert sorted(tensor.dtype == torch.bool for tensor in state.values()) == [False, True]
    other = nn.Sequential(nn.Linear(8, 8, bias=False))
    prune(other, 0.5)
    other.load_state_dict(state)
    assert torch.equal(other[0].weight, model[0].weight)
    twin = copy.deepcopy(model).half()
    assert torch.equal(twin[0].weight == 0, model[0].weight == 0)


@pytest.mark.parametrize("name", FORMATS)
def test_sparsity_survives_quantising_sparseml2281(name: str) -> None:
    weight = normal(8, 64)
    for mask in (keep_mask(magnitude_scores(weight), 0.5), n_of_m_mask(weight.abs())):
        back = FORMATS[name](weight * mask).dequantize()
        assert bool((back[~mask] == 0).all())


def test_a_pruned_model_is_quantised_with_its_zeros() -> None:
    model = network()
    prune(model, 0.5, pattern="2:4")
    zeros = {name: module.weight == 0 for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    report = quantize(model, Groupwise(4, 16))
    assert [layer.format for layer in report.layers] == ["int4-g16"] * 3
    for name, zero in zeros.items():
        assert bool((model.get_submodule(name).weight[zero] == 0).all()) and int(zero.sum()) == zero.numel() // 2


def test_inputs_that_never_fire_are_removed_first_and_scores_stay_finite() -> None:
    x = calibration()
    x[:, :10] = 0
    model = network()
    norms = activation_norms(model, [x])
    assert bool((norms["0"][:10] == 0).all())
    prune(model, 0.5, "wanda", norms)
    assert bool((model[0].weight[:, :10] == 0).all())
    assert all(bool(torch.isfinite(p).all()) for p in model.parameters())


def test_a_layer_without_tokens_falls_back_and_warns_llmcompressor2826() -> None:
    model = network()
    norms = activation_norms(model, [calibration()[:0]])
    assert norms == {}
    norms = {name: norm for name, norm in activation_norms(model, [calibration()]).items() if name != "2"}
    with pytest.warns(UserWarning, match="'2' saw no calibration token"):
        report = prune(model, 0.5, "wanda", norms)
    assert {one.name: one.method for one in report} == {"0": "wanda", "2": "magnitude", "4": "wanda"}


def test_calibration_leaves_no_hook_and_takes_keywords() -> None:
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor, factor: float) -> torch.Tensor:
            out: torch.Tensor = self.inner(x * factor)
            return out

    model = Named()
    norms = activation_norms(model, [{"x": torch.ones(2, 3, 4), "factor": 2.0}])
    torch.testing.assert_close(norms["inner"], torch.full((4,), 24.0).sqrt())
    by_hand = activation_norms(model, [1.0], run=lambda m, f: m(torch.ones(2, 3, 4), 2 * f))
    torch.testing.assert_close(by_hand["inner"], norms["inner"])
    with pytest.raises(TypeError):
        activation_norms(model, [torch.ones(2, 4)])
    assert not model.inner._forward_pre_hooks


def tied() -> nn.ModuleDict:
    model = nn.ModuleDict({"embedding": nn.Embedding(8, 4), "head": nn.Linear(4, 8)})
    model["head"].weight = model["embedding"].weight
    return model


def test_a_refusal_leaves_the_model_as_it_was() -> None:
    model = network()
    model[4].weight.data[0, 0] = float("nan")
    with pytest.raises(ValueError, match="layer '4' cannot be pruned: weight: holds NaN"):
        prune(model)
    assert all(type(module) in (nn.Sequential, nn.Linear, nn.GELU) for module in model.modules())
    assert bool((model[0].weight != 0).all())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: keep_mask(torch.ones(2, 2), 1.5), "sparsity=1.5"),
        (lambda: keep_mask(torch.ones(2, 2), True), "sparsity=True"),
        (lambda: keep_mask(torch.ones(2), 0.5), "scores: shape"),
        (lambda: keep_mask(torch.tensor([[float("nan")]]), 0.5), "scores: holds NaN"),
        (lambda: keep_mask(torch.ones(2, 2), 0.5, "column"), "per='column'"),  # type: ignore[arg-type]
        (lambda: n_of_m_mask(torch.ones(2, 4), 5, 4), "n=5"),
        (lambda: n_of_m_mask(torch.ones(2, 4), 2, 0), "m=0"),
        (lambda: wanda_scores(torch.ones(2, 4), torch.ones(3)), r"norms: shape \[3\]"),
        (lambda: wanda_scores(torch.ones(2, 4), -torch.ones(4)), "at least 0"),
        (lambda: prune(network(), 0.4, pattern="2:4"), "sparsity=0.4"),
        (lambda: prune(network(), method="wanda"), "norms: none given"),
        (lambda: prune(network(), norms={}), "norms: given"),
        (lambda: prune(network(), method="random"), "method='random'"),  # type: ignore[arg-type]
        (lambda: prune(nn.ReLU()), "no nn.Linear to prune"),
        (lambda: prune(tied()), "'head' shares its weight"),
        (lambda: activation_norms(nn.ReLU(), []), "no nn.Linear to calibrate"),
    ],
)
def test_bad_input_is_refused(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        call()


def test_a_second_mask_is_refused() -> None:
    model = network()
    prune(model)
    with pytest.raises(ValueError, match="'0' has a parametrisation already"):
        prune(model)
