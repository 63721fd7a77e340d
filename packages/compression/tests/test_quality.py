"""Whole models, compressed: what judges them, what is measured of them, and the bars on real weights."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from bancada.suite import Case, Device, Tensors
from bancada_compression import Int8, activation_norms, keep_mask, magnitude_scores, quantize, wanda_scores
from bancada_compression._suites import quality
from bancada_compression._suites.quality import judge
from bancada_compression._suites.quality.compressions import COMPRESSIONS, Compression
from bancada_compression._suites.quality.subjects import DIGITS, SUBJECTS, Subject

SUITE = quality.quality_suite()
CPU = Device("cpu", "a CPU", 16 << 30)
WAYS = {way.id: way for way in COMPRESSIONS}
TEXTS = [
    pytest.param(name, marks=pytest.mark.slow if name == "minilm" else [])
    for name, subject in SUBJECTS.items()
    if name != "digits" and all(importlib.util.find_spec(module) for module, _ in subject.needs)
]


@pytest.fixture(autouse=True)
def needs_digits() -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")


@functools.cache
def asked(workload: str = "digits", seed: int = 0) -> tuple[Case, Tensors]:
    case = SUITE.case(workload=workload)
    return case, SUITE.inputs(case, "cpu", seed)


@functools.cache
def result(way: str, workload: str = "digits") -> dict[str, Tensor]:
    if WAYS[way].requires:
        pytest.importorskip(WAYS[way].requires[0])
    return dict(SUITE.contender(way).build(*asked(workload))())


def measure(way: str, name: str, workload: str = "digits") -> float:
    return float(result(way, workload)[f"measure.{name}"])


# What is judged


def off(way: Compression) -> float:
    return float(quality._build(way, *asked())()["off"].abs().max())


def lying(change: Callable[[nn.Module], None], claims: str = "int8") -> Compression:
    """A contender compressed as `claims`, whose model then computes something else than its weights say."""

    def compress(model: nn.Module, subject: Subject, keep: float) -> None:
        WAYS[claims].compress(model, subject, keep)
        change(model)

    return dataclasses.replace(WAYS[claims], compress=compress)


def dense_instead(model: nn.Module) -> None:
    layer, right = model.get_submodule("3"), DIGITS.load().get_submodule("3")
    layer.forward = right.forward  # type: ignore[method-assign]


def half_of_a_layer(model: nn.Module) -> None:
    model.get_submodule("3").register_forward_hook(lambda module, args, out: 0.5 * out)


def other_bias(model: nn.Module) -> None:
    bias = model.get_submodule("5").bias
    assert isinstance(bias, Tensor)
    bias.data = bias.data + 0.01


def coarse_inputs(model: nn.Module) -> None:
    """Inputs rounded to 15 steps each side where 127 are claimed."""
    for name in DIGITS.layers():
        layer = model.get_submodule(name)
        layer.register_forward_pre_hook(
            lambda module, args: ((args[0] / (s := args[0].abs().amax(-1, keepdim=True) / 15)).round() * s,)
        )


CHEATS = {
    "the uncompressed layer": (dense_instead, "int8"),
    "half of a layer": (half_of_a_layer, "int8"),
    "another bias": (other_bias, "int8"),
    "no rounding that w8a8 does not allow": (half_of_a_layer, "w8a8"),
    "coarser inputs": (coarse_inputs, "w8a8"),
}


@pytest.mark.parametrize("cheat", CHEATS)
def test_a_model_that_computes_something_else_is_outside(cheat: str) -> None:
    change, claims = CHEATS[cheat]
    assert off(WAYS[claims]) < 0.8 < 1 < off(lying(change, claims))


def test_a_stored_result_is_outside() -> None:
    case, inputs = asked()
    mine = {name: tensor.clone() for name, tensor in inputs.items()}
    stored = SUITE.contender("int8").build(case, mine)()
    for name, tensor in SUITE.inputs(case, "cpu", 1).items():
        mine[name].copy_(tensor)
    assert float(stored["off"].abs().max()) > 1


def test_the_uncompressed_model_is_judged_against_float64() -> None:
    """What `off` divides by is the error of float32 itself: an error of a thousandth is far outside."""
    _, inputs = asked()
    exact = DIGITS.answer(judge.with_weights(DIGITS.load(), {}), inputs)
    assert exact.dtype == torch.float64
    assert 0 < float((inputs["dense"].double() - exact).abs().max()) == float(inputs["rounding"]) < 1e-4
    wrong = judge.share_of_allowed(inputs["dense"] * 1.001, exact, inputs["rounding"], None)
    assert float(wrong.abs().max()) > 100


class ShortRMSNorm(nn.Module):
    """Sums in float32 whatever it is given, as transformers' do."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.variance_epsilon = nn.Parameter(torch.linspace(0.5, 2, 8)), 1e-5

    def forward(self, x: Tensor) -> Tensor:
        y = x.float()
        return self.weight * (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + self.variance_epsilon)).to(x.dtype)


def test_the_float64_forward_is_float64_in_its_norms_too() -> None:
    plain = nn.Sequential(nn.Linear(8, 8), ShortRMSNorm())
    weight, x = torch.randn(8, 8, dtype=torch.float64), torch.randn(3, 8, dtype=torch.float64)
    y = x @ weight.T + plain[0].bias.double()
    right = plain[1].weight.double() * y / (y.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    found = judge.with_weights(plain, {"0": weight})(x)
    torch.testing.assert_close(found, right, rtol=1e-12, atol=1e-12)


# What is measured


def test_divergence_is_that_of_the_definition() -> None:
    out, dense = torch.tensor([[0.0, 1.0], [2.0, -1.0]]), torch.tensor([[1.0, 0.5], [0.0, 0.0]])
    p, q = ([[math.exp(z) / sum(map(math.exp, row)) for z in row] for row in x.tolist()] for x in (dense, out))
    right = sum(a * math.log(a / b) for r, s in zip(p, q, strict=True) for a, b in zip(r, s, strict=True)) / 2
    assert math.isclose(judge.divergence(out, dense), right, rel_tol=1e-6)
    assert judge.divergence(dense, dense) == 0


BITS = {"int8": 8, "int4": 4, "int3": 3, "nf4": 4, "nf4-double": 4}


@pytest.mark.parametrize("way", BITS)
def test_bytes_are_those_of_the_formula(way: str) -> None:
    model = DIGITS.load()
    dense = sum(parameter.nbytes for parameter in model.parameters())
    shapes = [model.get_submodule(name).weight.shape for name in DIGITS.layers()]
    numbers = sum(rows * columns for rows, columns in shapes)
    groups = sum(rows * columns // 64 for rows, columns in shapes)
    extra = {
        "int8": 4 * sum(rows for rows, _ in shapes),
        "nf4": 4 * groups,
        "nf4-double": groups + sum(4 + 4 * -(-rows * columns // 64 // 256) for rows, columns in shapes),
        **{
            f"int{bits}": 4 * groups + sum(rows * -(-columns // 64 * bits // 8) for rows, columns in shapes)
            for bits in (3, 4)
        },
    }[way]
    assert measure(way, "bytes") == dense - 4 * numbers + numbers * BITS[way] / 8 + extra


def test_a_pruned_model_is_as_large_as_before_and_a_factored_one_is_not_sparseml741() -> None:
    dense = measure("torch-dense", "bytes")
    assert all(measure(way, "bytes") == dense for way in ("magnitude", "wanda", "wanda-2-4", "torch-prune"))
    assert measure("svd", "bytes") == measure("whitened-svd", "bytes") < 0.55 * dense


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    ("ours", "theirs", "names"),
    [
        ("nf4", "bitsandbytes-nf4", ("kl", "accuracy", "sqnr_db", "bytes")),
        ("nf4-double", "bitsandbytes-nf4-double", ("accuracy", "bytes")),
        ("magnitude", "torch-prune", ("kl", "accuracy", "sqnr_db", "bytes")),
    ],
)
def test_the_same_technique_of_a_library_is_the_same(ours: str, theirs: str, names: tuple[str, ...]) -> None:
    assert [measure(ours, name) for name in names] == pytest.approx([measure(theirs, name) for name in names], 1e-5)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(("ours", "theirs"), [("int8", "torchao-int8"), ("int4", "torchao-int4")])
def test_noise_is_no_more_than_torchaos(ours: str, theirs: str) -> None:
    assert measure(ours, "sqnr_db") > measure(theirs, "sqnr_db") - 0.5


def test_the_classifier_has_learnt_and_loses_more_with_fewer_bits() -> None:
    assert measure("torch-dense", "accuracy") > 0.9
    assert measure("torch-dense", "kl") == 0 and measure("torch-dense", "sqnr_db") == 200
    assert 0 < measure("int8", "kl") < measure("int4", "kl") < measure("int3", "kl") < measure("svd", "kl")


def test_only_the_train_part_calibrates() -> None:
    asked_for: list[str] = []

    def examples(part: Any, seed: int, count: int) -> dict[str, Tensor]:
        asked_for.append(part)
        return DIGITS.examples(part, seed, count)

    spied = dataclasses.replace(DIGITS, examples=examples)
    for way in ("wanda", "whitened-svd"):
        WAYS[way].compress(spied.load(), spied, 0.5)
    assert asked_for == ["train", "train"]
    train, held_out = (DIGITS.examples(part, 0, 2000)["pixel_values"].flatten(1) for part in ("train", "held_out"))
    assert len(train) + len(held_out) < 1797 and float(torch.cdist(train, held_out).min()) > 0


def test_cases_and_reasons() -> None:
    with pytest.raises(ValueError, match=r"workload='gpt': allowed are tiny-lm, minilm, digits"):
        SUITE.case(workload="gpt")
    with pytest.raises(ValueError, match=r"keep=0\.0: must be above 0"):
        SUITE.case(keep=0.0)
    assert "two of four" in str(SUITE.contender("wanda-2-4").supports(SUITE.case(workload="digits", keep=0.7), CPU))
    assert SUITE.work(SUITE.case(workload="digits")).flops == 2 * 160 * 0.5 * (64 * 128 + 128 * 128 + 128 * 10)


# Real Transformers


@pytest.mark.parametrize("name", [*TEXTS, "digits"])
def test_the_sizes_that_work_counts_are_the_models(name: str) -> None:
    subject = SUBJECTS[name]
    model = subject.load()
    assert sum(model.get_submodule(layer).weight.numel() for layer in subject.layers()) == subject.weights
    assert not model.training and next(model.parameters()).dtype == torch.float32


@pytest.mark.skipif("tiny-lm" not in [one.values[0] for one in TEXTS], reason="the libraries of text are not installed")
def test_divergence_of_the_tiny_language_model_grows_with_fewer_bits() -> None:
    """KL to the uncompressed model is monotone in the bits where perplexity need not be."""
    found = {way: measure(way, "kl", "tiny-lm") for way in ("int8", "int4", "int3")}
    print({**found, **{f"perplexity {way}": measure(way, "perplexity", "tiny-lm") for way in ("torch-dense", *found)}})
    assert 0 < found["int8"] < found["int4"] < found["int3"]


@pytest.mark.skipif("tiny-lm" not in [one.values[0] for one in TEXTS], reason="the libraries of text are not installed")
def test_the_tied_head_of_a_language_model_stays_tied_and_memory_does_not_grow_transformers31474() -> None:
    subject = SUBJECTS["tiny-lm"]
    model = subject.load()
    before = judge.stored_bytes(model)
    report = {layer.name: layer for layer in quantize(model, Int8()).layers}
    assert model.get_submodule("lm_head").weight is model.get_submodule("model.embed_tokens").weight
    assert report["lm_head"].format == "" and "shares its weight" in report["lm_head"].reason
    assert {name for name, layer in report.items() if layer.format == "int8"} == set(subject.layers())
    assert judge.stored_bytes(model) == before - sum(one.bytes_before - one.bytes_after for one in report.values())


@pytest.mark.parametrize("name", TEXTS)
def test_wanda_errs_less_than_magnitude_where_inputs_weigh_on_every_layer(name: str) -> None:
    """sum_ij (dW_ij ||X_j||)^2 with half of each row gone."""
    subject = SUBJECTS[name]
    model, norms = subject.load(), subject.calibrate(activation_norms)
    for layer in subject.layers():
        weight = judge.weight_of(model.get_submodule(layer))
        scores = wanda_scores(weight, norms[layer])

        wanda, magnitude = (keep_mask(by, 0.5, "row") for by in (scores, magnitude_scores(weight)))
        errors = [float(scores[~mask].double().square().sum()) for mask in (wanda, magnitude)]
        assert 0 < errors[0] < errors[1], layer
