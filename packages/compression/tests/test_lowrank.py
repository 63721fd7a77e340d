"""Factorised errors against the tail of the singular values, for weights and for outputs; whole models."""

from __future__ import annotations

import copy

import pytest
import torch
from formats import normal
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from bancada_compression import (
    LowRankLinear,
    factorize,
    input_grams,
    rank_for,
    svd_factor,
    whitened_svd_factor,
)
from bancada_compression.lowrank.reference import tail_energy, whitened_tail_energy

sizes = st.integers(1, 12)


@given(out=sizes, width=sizes, data=st.data(), seed=st.integers(0, 999))
def test_the_error_is_the_tail_energy(out: int, width: int, data: st.DataObject, seed: int) -> None:
    rank = data.draw(st.integers(1, min(out, width)))
    weight = normal(out, width, seed=seed, dtype=torch.float64)
    b, a = svd_factor(weight, rank)
    assert b.shape == (out, rank) and a.shape == (rank, width)
    error = float((weight - b @ a).norm())
    assert abs(error - tail_energy(weight, rank)) <= 1e-5 * float(weight.norm())


@given(out=sizes, width=sizes, tokens=st.integers(1, 30), data=st.data(), seed=st.integers(0, 999))
def test_the_error_of_outputs_is_the_whitened_tail_energy_also_where_singular_tensorly531(
    out: int, width: int, tokens: int, data: st.DataObject, seed: int
) -> None:
    """Fewer tokens than columns: the Gram matrix is singular, and the error is still the tail's, and finite."""
    rank = data.draw(st.integers(1, min(out, width)))
    weight, x = normal(out, width, seed=seed, dtype=torch.float64), normal(tokens, width, seed=seed + 1).double()
    b, a = whitened_svd_factor(weight, x.T @ x, rank)
    assert bool(torch.isfinite(a).all()) and bool(torch.isfinite(b).all())
    error, scale = float(((weight - b @ a) @ x.T).norm()), float((weight @ x.T).norm())
    assert abs(error - whitened_tail_energy(weight, x.T @ x, rank)) <= 1e-5 * max(scale, float(x.norm()))
    plain = torch.linalg.multi_dot(svd_factor(weight, rank))
    assert error <= float(((weight - plain) @ x.T).norm()) + 1e-5 * scale


def test_full_rank_reconstructs_also_with_inputs_that_never_fire() -> None:
    weight, x = normal(9, 7), normal(40, 7).double()
    x[:, 2] = 0
    for b, a in (svd_factor(weight, 7), whitened_svd_factor(weight, x.T @ x, 7)):
        assert b.dtype == a.dtype == weight.dtype
        torch.testing.assert_close(b @ a, weight, rtol=0, atol=1e-5)


@given(out=sizes, width=sizes, ratio=st.floats(0, 1))
def test_parameter_counts_are_those_of_the_formula(out: int, width: int, ratio: float) -> None:
    rank = rank_for(out, width, ratio)
    assert rank * (out + width) <= ratio * out * width
    assert (rank + 1) * (out + width) > ratio * out * width or rank == min(out, width)


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 48, bias=False), nn.Linear(48, 1))


def test_a_model_has_the_parameters_of_the_formula_and_runs() -> None:
    model, x = network(), normal(100, 32) * torch.logspace(-1, 1, 32)
    right, grams = model(x), input_grams(model, [x[:50], x[50:]])
    torch.testing.assert_close(grams["0"], x.double().T @ x.double(), rtol=1e-12, atol=1e-9)
    errors = {}
    for name, given_grams in (("plain", None), ("whitened", grams)):
        factored = copy.deepcopy(model)
        report = {one.name: one for one in factorize(factored, 0.5, given_grams)}
        assert {key: one.rank for key, one in report.items()} == {"0": 10, "2": 13, "3": 0}
        assert "not even rank 1" in report["3"].reason
        for key in ("0", "2"):
            layer = factored.get_submodule(key)
            assert isinstance(layer, LowRankLinear)
            assert (
                layer.a.numel() + layer.b.numel() == report[key].parameters_after <= report[key].parameters_before / 2
            )
        assert factored[0].bias is not None and factored[2].bias is None
        errors[name] = float((factored[0](x) - model[0](x)).detach().norm())
        assert factored(x).shape == right.shape
    assert errors["whitened"] < errors["plain"]
    factored(x).sum().backward()
    assert all(p.grad is not None for p in factored.parameters())


def test_shared_weights_and_skipped_layers_are_kept() -> None:
    model = nn.ModuleDict({"a": nn.Linear(16, 16), "b": nn.Linear(16, 16), "c": nn.Linear(16, 16)})
    model["b"].weight = model["a"].weight
    reasons = {one.name: one.reason for one in factorize(model, 0.5, skip=["c"])}
    assert reasons == {"a": "shares its weight with another module", "b": reasons["a"], "c": "skipped"}
    assert all(type(layer) is nn.Linear for layer in model.values())


def test_a_refusal_leaves_the_model_as_it_was() -> None:
    model = network()
    modules = list(model.modules())
    model[2].weight.data[0, 0] = float("inf")
    with pytest.raises(ValueError, match="layer '2' cannot be factorised: weight: holds NaN"):
        factorize(model, 0.5)
    assert all(a is b for a, b in zip(model.modules(), modules, strict=True))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: svd_factor(torch.ones(3, 2), 3), "rank=3: must be a whole number from 1 to 2"),
        (lambda: svd_factor(torch.ones(3, 2), 0), "rank=0"),
        (lambda: svd_factor(torch.full((3, 2), float("nan")), 1), "weight: holds NaN"),
        (lambda: whitened_svd_factor(torch.ones(3, 2), torch.ones(3, 3), 1), r"gram: shape \[3, 3\]"),
        (lambda: whitened_svd_factor(torch.ones(3, 2), torch.zeros(2, 2), 1), "gram: zero"),
        (lambda: whitened_svd_factor(torch.ones(3, 2), torch.tensor([[1.0, 1.0], [0.0, 1.0]]), 1), "not symmetric"),
        (lambda: whitened_svd_factor(torch.ones(3, 2), torch.tensor([[1.0, 2.0], [2.0, 1.0]]), 1), "an eigenvalue of"),
        (lambda: rank_for(0, 3, 0.5), "out_features=0"),
        (lambda: rank_for(3, 3, 1.5), "ratio=1.5"),
        (lambda: factorize(nn.Linear(3, 3), 0.5), "model: a Linear"),
        (lambda: factorize(network(), 0.5, grams={}), "grams: none for layer '0'"),
        (lambda: LowRankLinear(torch.ones(3, 2), torch.ones(3, 4)), r"a: shape \[3, 4\]"),
        (lambda: LowRankLinear(torch.ones(3, 2), torch.ones(2, 4), nn.Parameter(torch.ones(4))), r"bias: shape \[4\]"),
        (lambda: input_grams(nn.ReLU(), []), "no nn.Linear"),
    ],
)
def test_bad_input_is_refused(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        call()
