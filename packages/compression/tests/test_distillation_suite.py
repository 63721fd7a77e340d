"""`compression.distillation`: one student for all, a teacher that stays, and ours beside torch's divergence."""

from __future__ import annotations

import importlib.util

import pytest
import torch
from torch import Tensor

from bancada_compression._suites import distillation
from bancada_compression._suites.distillation import Distilling, StudentTask

pytestmark = pytest.mark.skipif(
    not all(importlib.util.find_spec(name.replace("-", "_")) for name in distillation.NEEDS),
    reason="the libraries of text are not installed",
)
SUITE = distillation.distillation_suite()


def task(start: str = "layers") -> StudentTask:
    found = SUITE.task(SUITE.case(**{**SUITE.small, "start": start}), "cpu", 0)
    assert isinstance(found, StudentTask)
    return found


def weights(model: torch.nn.Module) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def test_all_start_from_the_same_student_and_teachers_stay() -> None:
    mine = task()
    learners = {
        contender.id: contender.build(SUITE.case(**SUITE.small), mine, {"lr": 1e-3}) for contender in SUITE.contenders
    }
    first = weights(mine.model())
    assert all(torch.equal(weights(one.model), first) for one in learners.values())
    for update in range(2):
        losses = {name: one.update(mine.batch(update)) for name, one in learners.items()}
        torch.testing.assert_close(losses["distilled"], losses["torch-kl-div"], rtol=1e-4, atol=1e-5)
        assert not torch.isclose(losses["alone"], losses["distilled"], rtol=1e-2)
    torch.testing.assert_close(weights(learners["distilled"].model), weights(learners["torch-kl-div"].model))
    distilled = learners["distilled"]
    assert isinstance(distilled, Distilling) and torch.equal(weights(distilled.teacher), weights(mine.teacher()))
    assert distilled.state_bytes()["teacher"] == 4 * weights(mine.teacher()).numel()
    assert "teacher" not in learners["alone"].state_bytes()


def test_a_student_is_the_teachers_layers_or_random_ones() -> None:
    """From the teacher's own layers a student begins far better; the same seed gives the same random ones."""
    kept, random = task("layers"), task("random")
    losses = [one.evaluate(one.model(), "held_out")["loss"] for one in (kept, random)]
    assert losses[0] < 5.5 < losses[1]
    assert torch.equal(weights(random.model()), weights(random.model()))
    with pytest.raises(ValueError, match="layers=5: the teacher has 4"):
        SUITE.case(layers=5)


def test_work_counts_the_students_matrices() -> None:
    case = SUITE.case(layers=2)
    model = SUITE.task(case, "cpu", 0).model()
    matrices = sum(one.numel() for one in model.parameters() if one.dim() == 2)
    assert SUITE.work(case).flops == 6 * matrices * case.number("batch") * case.number("seq_len")
