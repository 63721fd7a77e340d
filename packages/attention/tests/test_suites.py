"""The attention suites: masks, counts of work, the float64 answer, the limits of error, and what `supports` says."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bancada.ceilings import TORCH_DTYPES
from bancada.suite import Case, Device
from bancada_attention._suites import answer, problem, suites

FORWARD, TRAINING = suites()[:2]
CPU = Device("cpu", "a CPU", 16 << 30)
H200 = Device("cuda", "a GPU", 140 << 30, capability=(9, 0))
A100 = Device("cuda", "an older GPU", 80 << 30, capability=(8, 0))
T4 = Device("cuda", "a GPU from before bf16", 16 << 30, capability=(7, 5))


def seen(queries: int, keys: int, causal: bool) -> list[list[bool]]:
    """Which keys each query sees: bottom-right, so that the last query sees every key."""
    return [[not causal or j <= i + keys - queries for j in range(keys)] for i in range(queries)]


def attention_by_definition(case: Case, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """A loop over queries, straight from the definition, in float64 and differentiable."""
    q, k, v = (inputs[name] for name in "qkv")
    batch, heads, queries, dim = q.shape
    group, visible = heads // k.shape[1], seen(queries, k.shape[2], case.flag("causal"))
    rows = []
    for b in range(batch):
        for h in range(heads):
            for i in range(queries):
                keep = torch.tensor(visible[i])
                scores = k[b, h // group][keep] @ q[b, h, i] / math.sqrt(dim)
                rows.append(torch.softmax(scores, dim=0) @ v[b, h // group][keep])
    return torch.stack(rows).reshape(q.shape)


SHAPES = [
    {"batch": 2, "heads": 4, "kv_heads": 2, "seq_len": 9, "head_dim": 5},
    {"batch": 1, "heads": 3, "kv_heads": 1, "seq_len": 7, "kv_len": 12, "head_dim": 4},
    {"batch": 1, "heads": 2, "seq_len": 11, "kv_len": 6, "head_dim": 3, "causal": False},
    {"batch": 1, "heads": 1, "seq_len": 1, "head_dim": 1},
]


@pytest.mark.parametrize("block_bytes", [1, 300, answer.BLOCK_BYTES])
@pytest.mark.parametrize("values", SHAPES, ids=str)
def test_the_answer_and_its_gradients_are_those_of_the_definition(
    values: dict[str, Any], block_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer, "BLOCK_BYTES", block_bytes)
    case = TRAINING.case(**values, dtype="fp64")
    inputs = TRAINING.inputs(case, "cpu", 1)
    leaves = {name: inputs[name].clone().requires_grad_() for name in "qkv"}
    out = attention_by_definition(case, leaves)
    grads = torch.autograd.grad(out, list(leaves.values()), inputs["dout"])
    right = {"out": out.detach(), **dict(zip(("dq", "dk", "dv"), grads, strict=True))}
    found = TRAINING.oracle(case, inputs)
    assert set(found) == set(right)
    for name, tensor in right.items():
        torch.testing.assert_close(found[name], tensor, rtol=1e-12, atol=1e-13, msg=lambda m, n=name: f"{n}: {m}")
    torch.testing.assert_close(FORWARD.oracle(case, FORWARD.inputs(case, "cpu", 1))["out"], right["out"])


@pytest.mark.parametrize("values", SHAPES, ids=str)
def test_the_answer_is_that_of_the_package_reference(values: dict[str, Any]) -> None:
    from bancada_attention import attention

    case = TRAINING.case(**values, dtype="fp64")
    inputs = TRAINING.inputs(case, "cpu", 2)
    leaves = [inputs[name].clone().requires_grad_() for name in "qkv"]
    out = attention(*leaves, causal=case.flag("causal"))
    grads = torch.autograd.grad(out, leaves, inputs["dout"])
    found = TRAINING.oracle(case, inputs)
    for name, tensor in zip(("out", "dq", "dk", "dv"), (out.detach(), *grads), strict=True):
        torch.testing.assert_close(found[name], tensor, rtol=1e-12, atol=1e-13)


@settings(deadline=None, max_examples=60)
@given(queries=st.integers(1, 12), extra=st.integers(0, 12), causal=st.booleans())
def test_pairs_are_counted_exactly(queries: int, extra: int, causal: bool) -> None:
    case = FORWARD.case(seq_len=queries, kv_len=queries + extra, causal=causal, heads=1)
    visible = seen(queries, queries + extra, causal)
    shape = problem.Shape.of(case)
    assert shape.pairs == sum(map(sum, visible))
    mask = shape.mask("cpu")
    assert mask is None if not causal else torch.equal(mask, torch.tensor(visible))


def test_work_of_a_known_case() -> None:
    """4*B*H*D*pairs and 2.5 times that for the backward pass (FlashAttention-2, section 4.1); bytes counted by hand."""
    case = FORWARD.case(batch=2, heads=4, kv_heads=2, seq_len=3, kv_len=5, head_dim=8, dtype="bf16")
    pairs = 3 + 4 + 5  # queries 0, 1, 2 see 3, 4 and 5 of 5 keys
    query, key = 2 * 4 * 3 * 8 * 2, 2 * 2 * 5 * 8 * 2  # bytes of q, and of k
    forward, training = FORWARD.work(case), TRAINING.work(case)
    assert forward.flops == 4 * 2 * 4 * 8 * pairs
    assert training.flops == 3.5 * forward.flops
    assert forward.bytes == 2 * query + 2 * key  # q, out; k, v
    assert training.bytes == forward.bytes + 4 * query + 4 * key  # q, out, dout, dq; k, v, dk, dv


def test_full_attention_has_the_square_of_pairs() -> None:
    assert FORWARD.work(FORWARD.case(causal=False, seq_len=512)).flops == 4 * 8 * 64 * 512**2


def test_case_ids_are_readable_and_leave_out_what_is_usual() -> None:
    assert FORWARD.case(seq_len=4096).id == "b1-h8-s4096-d64-causal-fp32"
    assert FORWARD.case(kv_heads=2, kv_len=2048, causal=False).id == "b1-h8-kv2-s1024-k2048-d64-full-fp32"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"heads": 8, "kv_heads": 3}, "kv_heads=3 must divide heads=8"),
        ({"seq_len": 9, "kv_len": 8}, "kv_len=8 below seq_len=9"),
        ({"seq_len": 0}, "seq_len=0"),
        ({"dtype": "int8"}, "dtype='int8'"),
    ],
)
def test_senseless_cases_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FORWARD.case(**values)


def test_inputs_are_the_same_for_a_seed_and_differ_otherwise() -> None:
    case = TRAINING.case(**TRAINING.small)
    one, again, other = (TRAINING.inputs(case, "cpu", seed) for seed in (0, 0, 1))
    assert all(torch.equal(one[name], again[name]) for name in one)
    assert not any(torch.equal(one[name], other[name]) for name in one)
    drawn = [tensor.flatten()[:8] for tensor in one.values()]
    assert not any(torch.equal(a, b) for i, a in enumerate(drawn) for b in drawn[i + 1 :])


@pytest.mark.parametrize("dtype", ["fp64", "fp32", "fp16", "bf16"])
@pytest.mark.parametrize("block_bytes", [1 << 12, answer.BLOCK_BYTES])
def test_limits_are_those_of_plain_torch(dtype: str, block_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plain computation itself passes with room; a few roundings of the result do not.

    The half types sum in fp32, so their limits are a few of their own eps; the others sum in their own type.
    """
    monkeypatch.setattr(answer, "BLOCK_BYTES", block_bytes)
    case = TRAINING.case(**TRAINING.small, dtype=dtype)
    inputs = TRAINING.inputs(case, "cpu", 3)
    right = TRAINING.oracle(case, inputs)
    limits = TRAINING.tolerance(case, inputs, right)
    plain = TRAINING.contender("torch-eager").build(case, inputs)()
    most = {"fp64": 300, "fp32": 300}.get(dtype, 6) * torch.finfo(TORCH_DTYPES[dtype]).eps
    for name, tensor in right.items():
        error = float((plain[name].double() - tensor).abs().max())
        largest = float(tensor.abs().max())
        assert 1.3 * error <= limits[name] <= most * largest, name


def test_a_long_problem_is_judged_by_evenly_spaced_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    case = FORWARD.case(batch=1, heads=8, seq_len=16, head_dim=8, causal=False)
    monkeypatch.setattr(answer, "MOST_PAIRS", 2 * 16 * 16)
    assert answer._sample(problem.Shape.of(case)) == [(0, 0), (0, 4)]
    inputs = FORWARD.inputs(case, "cpu", 0)
    inputs["q"][:, 1] *= 50  # a head that is not looked at does not widen the limits
    changed = FORWARD.tolerance(case, inputs, FORWARD.oracle(case, inputs))
    inputs = FORWARD.inputs(case, "cpu", 0)
    assert changed == FORWARD.tolerance(case, inputs, FORWARD.oracle(case, inputs))


@pytest.mark.parametrize(
    ("contender", "values", "device", "reason"),
    [
        ("flash-triton", {}, CPU, "CUDA GPU"),
        ("flash-triton", {"dtype": "fp64"}, H200, "fp64"),
        ("flash-triton", {"head_dim": 257}, H200, "256"),
        ("flash-tiled", {"head_dim": 257}, CPU, "256"),
        ("torch-sdpa-efficient", {}, CPU, "CUDA only"),
        ("torch-sdpa-efficient", {"kv_heads": 2}, H200, "grouped"),
        ("torch-sdpa-cudnn", {"dtype": "bf16"}, CPU, "CUDA only"),
        ("torch-sdpa-cudnn", {"dtype": "bf16", "head_dim": 60}, H200, "multiples of 8"),
        ("torch-sdpa-cudnn", {"dtype": "bf16", "head_dim": 256}, A100, "at most 128"),
        ("torch-sdpa-flash", {"dtype": "fp32"}, H200, "fp16 and bf16"),
        ("torch-sdpa-flash", {"dtype": "fp16"}, T4, "compute capability"),
        ("torch-sdpa-flash", {"dtype": "bf16", "kv_len": 2048}, H200, "explicit mask"),
        ("flex-attention", {"dtype": "fp64"}, CPU, "fp64"),
        ("torch-eager", {}, CPU, None),
        ("reference", {"dtype": "bf16"}, CPU, None),
        ("torch-sdpa-flash", {}, CPU, None),
        ("torch-sdpa-flash", {"dtype": "bf16"}, H200, None),
        ("torch-sdpa-cudnn", {"dtype": "bf16", "head_dim": 128}, A100, None),
    ],
)
def test_supports_says_why_not(contender: str, values: dict[str, Any], device: Device, reason: str | None) -> None:
    said = FORWARD.contender(contender).supports(FORWARD.case(**values), device)
    assert said is None if reason is None else said is not None and reason in said


def test_flex_attention_trains_on_a_gpu_only() -> None:
    flex, case = TRAINING.contender("flex-attention"), TRAINING.case(dtype="bf16")
    assert "no backward pass" in str(flex.supports(case, CPU))
    assert flex.supports(case, H200) in (None, "torch.compile needs triton for a GPU")


def test_compiling_needs_a_compiler_and_headers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compiled = FORWARD.contender("compiled-eager")
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert "C++ compiler" in str(compiled.supports(FORWARD.case(), CPU))
    monkeypatch.setattr("shutil.which", lambda name: name)
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    assert "C headers" in str(compiled.supports(FORWARD.case(), CPU))
    (tmp_path / "Python.h").touch()
    assert compiled.supports(FORWARD.case(), CPU) is None
