"""The compression suites: work, limits, cheats that are caught, and no more noise than peers on the same weights."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from formats import normal, sqnr

from bancada.suite import Case, Contender, Device, KernelSuite, Tensors
from bancada_compression import quantize_groupwise, quantize_int8, quantize_nf4
from bancada_compression._suites import problem, suites

SPEED, SIZE = suites()[:2]
CPU = Device("cpu", "a CPU", 16 << 30)


def share(suite: KernelSuite, contender: Contender, case: Case, seed: int = 0) -> float:
    """The largest error as a share of what is allowed."""
    inputs = suite.inputs(case, "cpu", seed)
    right = suite.oracle(case, inputs)
    limits = suite.tolerance(case, inputs, right)
    with torch.no_grad():
        found = contender.build(case, inputs)()
    return max(float((found[name].double() - x).abs().max()) / limits[name] for name, x in right.items())


def test_work_of_a_known_case() -> None:
    """2 m n k operations; x and out in the dtype, and the codes."""
    work = SPEED.work(SPEED.case(tokens=3, out_features=5, in_features=16, bits=4, dtype="bf16"))
    assert work.flops == 2 * 3 * 5 * 16 and work.bytes == 3 * (5 + 16) * 2 + 5 * 16 / 2
    work = SIZE.work(SIZE.case(out_features=5, in_features=16, bits=3, dtype="fp32"))
    assert work.bytes == 5 * 16 * 8 + 5 * 16 * 3 / 8


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize("bits", [3, 4, 8])
@pytest.mark.parametrize("suite", [SPEED, SIZE], ids=lambda suite: suite.id)
def test_ours_stay_well_inside_the_limit(suite: KernelSuite, bits: int, dtype: str) -> None:
    sizes = {**suite.small, "in_features": 320, "out_features": 96}
    case = suite.case(**{**sizes, "bits": bits, "dtype": dtype})
    ran = 0
    for contender in suite.contenders:
        if contender.origin == "bancada" and contender.supports(case, CPU) is None:
            ran += 1
            assert share(suite, contender, case) < (1.0 if suite is SIZE else 0.95), contender.id
    assert ran >= (2 if bits != 8 or suite is SPEED else 1)


def planted(change: Any) -> Contender:
    """A contender whose product is that of a changed weight, or otherwise wrong."""

    def build(case: Case, inputs: Tensors) -> Any:
        return lambda: {"out": change(inputs["x"], inputs["weight"], case.number("bits"))}

    return Contender("planted", "dense-linear", "peer", build)


CHEATS = {
    "nothing": lambda x, w, bits: torch.zeros(x.shape[0], w.shape[0]),
    "half": lambda x, w, bits: 0.5 * x @ w.T,
    "other-rows": lambda x, w, bits: x @ w.roll(1, 0).T,
    "last-columns-skipped": lambda x, w, bits: x[:, :-64] @ w[:, :-64].T,
    "fewer-bits": lambda x, w, bits: x @ quantize_groupwise(w, 4 if bits == 8 else 2, 64).dequantize().T,
}


@pytest.mark.parametrize("bits", [3, 4, 8])
@pytest.mark.parametrize("name", CHEATS)
def test_cheats_are_outside_the_limit(name: str, bits: int) -> None:
    """At 3 bits the noise itself is a fifth of the signal: errors of about that size pass there."""
    case = SPEED.case(tokens=32, out_features=256, in_features=256, bits=bits)
    found = share(SPEED, planted(CHEATS[name]), case)
    if bits == 3 and name in ("half", "last-columns-skipped", "fewer-bits"):
        assert found > 0.5
    else:
        assert found > 1, found


@pytest.mark.parametrize("weights", ["normal", "uniform"])
def test_a_weight_of_fewer_bits_is_outside_the_limit(weights: str) -> None:
    for bits, fewer in ((3, 2), (8, 4)):
        case = SIZE.case(out_features=64, in_features=256, weights=weights, bits=bits)
        inputs = SIZE.inputs(case, "cpu", 0)
        limit = SIZE.tolerance(case, inputs, SIZE.oracle(case, inputs))["weight"]
        coarse = quantize_groupwise(inputs["weight"], fewer, 64, symmetric=True).dequantize()
        assert float((coarse - inputs["weight"]).abs().max()) > limit
        assert float(inputs["weight"].abs().max()) > limit


def test_steps_are_those_of_the_definition() -> None:
    weight = torch.tensor([[3.0, -7.0] + [0.5] * 62 + [1.0, 2.0]])
    assert problem.steps(weight, 4)[0, :64].tolist() == [1.0] * 64
    torch.testing.assert_close(problem.steps(weight, 4)[0, 64:], torch.tensor([2 / 7, 2 / 7]))
    torch.testing.assert_close(problem.steps(weight, 8), torch.full((1, 66), 7 / 127))


def test_a_contender_without_the_bits_says_so() -> None:
    for suite in (SPEED, SIZE):
        assert "this format has 8" in str(suite.contender("int8").supports(suite.case(bits=4), CPU))
        assert "3 or 4" in str(suite.contender("groupwise").supports(suite.case(bits=8), CPU))
        assert "multiples" in str(suite.contender("torchao-intx").supports(suite.case(in_features=65), CPU))
        assert suite.contender("torch-linear").supports(suite.case(bits=8), CPU) is None


def test_size_measures_bytes_and_noise() -> None:
    case = SIZE.case(out_features=64, in_features=256)
    inputs = SIZE.inputs(case, "cpu", 0)
    found = SIZE.contender("nf4").build(case, inputs)()
    assert float(found["measure.bytes"]) == 64 * 256 * 4.5 / 8 and float(found["measure.bits_per_weight"]) == 4.5
    right = sqnr(inputs["weight"], quantize_nf4(inputs["weight"]).dequantize())
    assert abs(float(found["measure.sqnr_db"]) - right) < 1e-3
    assert float(SIZE.contender("torch-linear").build(case, inputs)()["measure.sqnr_db"]) == 200


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("kind", ["normal", "uniform"])
@pytest.mark.parametrize(
    ("peer", "bits", "ours"),
    [
        ("torchao-int8", 8, quantize_int8),
        ("torchao-intx", 4, functools.partial(quantize_groupwise, bits=4, symmetric=True)),
        ("torchao-intx", 4, functools.partial(quantize_groupwise, bits=4)),
        ("torchao-intx", 3, functools.partial(quantize_groupwise, bits=3)),
    ],
)
def test_noise_is_within_half_a_decibel_of_torchao_or_less(peer: str, bits: int, ours: Any, kind: str) -> None:
    """On the same weights. Ours with zero-points use the whole range, and are then more than half a decibel better."""
    pytest.importorskip("torchao", reason="torchao is not installed")
    case = SIZE.case(out_features=64, in_features=512, weights=kind, bits=bits)
    inputs = SIZE.inputs(case, "cpu", 0)
    theirs = float(SIZE.contender(peer).build(case, inputs)()["measure.sqnr_db"])
    found = sqnr(inputs["weight"], ours(inputs["weight"]).dequantize())
    print(f"{peer} {bits} bits, {kind}: ours {found:.2f} dB, theirs {theirs:.2f} dB")
    assert found > theirs - 0.5


def test_inputs_differ_by_seed_and_are_the_same_for_one() -> None:
    case = SPEED.case(**SPEED.small)
    one, again, other = (SPEED.inputs(case, "cpu", seed) for seed in (0, 0, 1))
    assert all(torch.equal(one[name], again[name]) and not torch.equal(one[name], other[name]) for name in one)
    assert not torch.equal(normal(2, 2), one["x"][:2, :2])
