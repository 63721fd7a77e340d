"""The suites: one function for every method, the trained parameters' gradients, counts of work, planted mistakes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from peft_models import library

pytest.importorskip("bancada", reason="the harness is not installed")

from bancada import screen
from bancada.suite import Case, Contender, Device, KernelSuite, Tensors
from bancada_peft._suites import block, contenders, cost, suites

COST, MERGE = (suite for suite in suites() if isinstance(suite, KernelSuite))
CPU = Device("cpu", "a CPU", 8 << 30, threads=1)
CASE = COST.case(**COST.small)
KINDS = ("parameters", "gradients", "optimizer", "activations")
OURS = {
    "lora": (contenders._lora, (False,)),
    "dora": (contenders._lora, (True,)),
    "ia3": (contenders._ia3, ()),
    "bottleneck": (contenders._bottleneck, ()),
    "freezing": (contenders._freezing, ()),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["lora", "dora", "ia3"])
def test_gradients_of_the_adapters_are_hf_pefts(name: str) -> None:
    """What the timed call computes beside the judged outputs; in float64, the parameters in one order."""
    library("peft")
    case = COST.case(**{**COST.small, "dtype": "fp64"})
    given = COST.inputs(case, "cpu", 3)
    make, options = OURS[name]
    theirs = contenders._hf_ia3 if name == "ia3" else contenders._hf_lora
    found = []
    for model in (make(*options, case, given), theirs(*options, case, given)):  # type: ignore[operator]
        x = given["x"].clone().requires_grad_()
        model(x).backward(given["dout"])
        grads = {key: p.grad for key, p in model.named_parameters() if p.requires_grad}
        assert all(grad is not None and grad.abs().max() > 0 for grad in grads.values())
        kinds = ("lora_A", "lora_B", "magnitude", "ia3_l")
        found.append(
            {
                (key.split(".")[0], next(kind for kind in kinds if kind in key)): grad.flatten()
                for key, grad in grads.items()
                if grad is not None
            }
        )
    assert found[0].keys() == found[1].keys() and len(found[0]) == {"lora": 14, "dora": 21, "ia3": 3}[name]
    for key, grad in found[0].items():
        torch.testing.assert_close(grad, found[1][key].to(grad.dtype), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", OURS)
def test_every_trained_parameter_gets_a_gradient_and_nothing_else_is_trained(name: str) -> None:
    given = COST.inputs(CASE, "cpu", 0)
    make, options = OURS[name]
    model = make(*options, CASE, given)  # type: ignore[operator]
    model(given["x"].requires_grad_()).backward(given["dout"])
    trained = {key for key, parameter in model.named_parameters() if parameter.grad is not None}
    hidden, r = 16, 2
    linear = {key: sum(shape) for key, shape in block.shapes_of(hidden).items()}
    rows = sum(outer for outer, _ in block.shapes_of(hidden).values())
    counts = {
        "lora": r * sum(linear.values()),
        "dora": r * sum(linear.values()) + rows,
        "ia3": 16 + 16 + 48,
        "bottleneck": 2 * (2 * r * 16 + r + 16),
        "freezing": 16 * 48,
    }
    assert sum(p.numel() for key, p in model.named_parameters() if key in trained) == counts[name]
    measured = COST.contender(name).build(CASE, COST.inputs(CASE, "cpu", 0))()
    assert float(measured["measure.trainable_parameters"]) == counts[name]
    assert float(measured["measure.adamw_bytes"]) == 8 * counts[name]


def test_a_step_is_split_by_part_and_by_kind() -> None:
    case = COST.case(batch=2, seq_len=24, hidden=64, rank=2)
    longer = COST.case(batch=2, seq_len=48, hidden=64, rank=2)
    rows = {name: COST.contender(name).build(case, COST.inputs(case, "cpu", 0))() for name in ("full", "lora")}
    kept = {name: {kind: float(row[f"measure.bytes.{kind}"]) for kind in KINDS} for name, row in rows.items()}
    weights, thin = 53_248, 2 * (4 * 128 + 3 * 256)
    assert kept["full"] | {"activations": 0} == dict(
        zip(KINDS, (4 * weights, 4 * weights, 8 * weights, 0), strict=True)
    )
    sizes = (4 * (weights + thin), 4 * thin, 8 * thin, 0)
    assert kept["lora"] | {"activations": 0} == dict(zip(KINDS, sizes, strict=True))
    # LoRA saves the gradients and the state, not what backward needs: that grows with the text.
    assert kept["lora"]["activations"] > 0.9 * kept["full"]["activations"] > 0
    longest = COST.contender("full").build(longer, COST.inputs(longer, "cpu", 0))()
    assert float(longest["measure.bytes.activations"]) == pytest.approx(2 * kept["full"]["activations"], rel=0.01)
    for row in rows.values():
        for part in ("forward", "backward", "optimizer"):
            ends = [float(row[f"measure.split.{part}_s{end}"]) for end in (".low", "", ".high")]
            assert 0 < ends[0] <= ends[1] <= ends[2] < 1


def test_work_is_counted_by_hand() -> None:
    """hidden 64, one head, 3 tokens: weights 4 * 64^2 + 3 * 3 * 64^2 = 53,248; attention 6 products over 6 pairs."""
    case = COST.case(batch=1, seq_len=3, hidden=64, rank=1, dtype="fp32")
    work = COST.work(case)
    assert work.flops == 4 * 3 * 53_248 + 6 * 2 * 64 * 6
    assert work.bytes == 4 * (2 * 53_248 + 4 * 3 * 64)
    merge = MERGE.work(MERGE.case(features=4, rank=3, dtype="bf16"))
    assert (merge.flops, merge.bytes) == (2 * 20 * 3 + 20, 5 * 20 * 2)


def judged(suite: Any, case: Case, contender: Contender, build: Any) -> None:
    question = screen.ask(suite, case, CPU, 0)
    inputs = {name: tensor.clone() for name, tensor in question.decoy.items()}
    run = build(case, inputs)
    run()
    screen.restore(run, inputs, question)
    screen.check(run, inputs, question)


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_planted_mistakes_are_found(dtype: str) -> None:
    """A forgotten adapter, and a wrong scale, are outside the limits of error in both types."""
    case = COST.case(**{**COST.small, "dtype": dtype})
    lora = COST.contender("lora")
    judged(COST, case, lora, lora.build)

    def forgotten(case: Case, given: Tensors) -> torch.nn.Module:
        model: Any = contenders._lora(False, case, given)
        for name in block.PROJECTIONS:
            model.get_submodule(name).adapters["default"].s = 0.0
        return model

    def scaled(case: Case, given: Tensors) -> torch.nn.Module:
        model: Any = contenders._lora(False, case, given)
        for name in block.PROJECTIONS:
            model.get_submodule(name).adapters["default"].s *= 2
        return model

    for make in (forgotten, scaled):
        with pytest.raises(screen.Failed, match="out is off"):
            judged(COST, case, lora, lambda case, given, make=make: contenders.runner(make, case, given))


def test_a_block_needs_whole_heads() -> None:
    assert cost.valid(COST.case(hidden=192)) is None
    with pytest.raises(ValueError, match=r"hidden=193: must be divisible by its 3 heads"):
        COST.case(hidden=193)
