"""The learner most contenders need, held against updates written by hand; bytes counted by kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from _regression import BATCH, WIDTH, Descent, Regression
from torch import Tensor, nn

from bancada.training import GradientLearner, tensor_bytes

TASK = Regression(3)


def by_hand(model: nn.Module, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """d/dw mean (w x + b - y)^2 = 2 mean (w x + b - y) x, and without x for b."""
    weight, bias = (parameter.detach() for parameter in model.parameters())
    off = batch["x"] @ weight[0] + bias - batch["y"]
    return {"weight": (2 / BATCH * off @ batch["x"])[None], "bias": 2 / BATCH * off.sum()[None]}


def test_an_update_is_the_step_written_by_hand_and_its_loss_that_before_it() -> None:
    model, batch = TASK.model(), TASK.batch(0)
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    gradients, loss = by_hand(model, batch), float(TASK.loss(model, batch).detach())
    told = GradientLearner(TASK, model, Descent(model, 0.1, 0.0)).update(batch)
    assert float(told) == pytest.approx(loss) and not told.requires_grad
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.detach(), before[name] - 0.1 * gradients[name])
        assert parameter.grad is None, "cleared"


def test_clipping_scales_the_whole_gradient_to_its_norm() -> None:
    model, batch = TASK.model(), TASK.batch(0)
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    gradients = by_hand(model, batch)
    norm = torch.cat([gradient.flatten() for gradient in gradients.values()]).norm()
    assert norm > 0.5
    GradientLearner(TASK, model, Descent(model, 0.1, 0.0), clip=0.5).update(batch)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.detach(), before[name] - 0.1 * 0.5 / norm * gradients[name])


def test_a_frozen_part_stays_and_several_optimizers_and_schedules_are_stepped_in_order() -> None:
    steps: list[str] = []

    class Noting:
        def __init__(self, name: str) -> None:
            self.name = name

        def step(self) -> None:
            steps.append(f"step {self.name}")

        def zero_grad(self) -> None:
            steps.append(f"zero {self.name}")

    model = TASK.model()
    frozen = next(model.parameters()).requires_grad_(False)
    before = frozen.clone()
    learner = GradientLearner(
        TASK, model, (Noting("a"), Noting("b")), Noting("schedule"), loss=lambda model, batch: model(batch["x"]).mean()
    )
    expected = float(model(TASK.batch(1)["x"]).detach().mean())
    assert float(learner.update(TASK.batch(1))) == pytest.approx(expected), "the loss that was given, not the task's"
    assert steps == ["step a", "step b", "step schedule", "zero a", "zero b"]
    assert torch.equal(frozen, before)
    assert learner.state_bytes() == {"parameters": 4 * (WIDTH + 1), "trainable": 4, "buffers": 0, "optimizer": 0}


def test_state_bytes_by_kind() -> None:
    model = TASK.model()
    model.register_buffer("mask", torch.ones(10, dtype=torch.bool))
    learner = GradientLearner(TASK, model, Descent(model, 0.1, 0.9))
    size = 4 * (WIDTH + 1)
    assert learner.state_bytes() == {"parameters": size, "trainable": size, "buffers": 10, "optimizer": size}


class Halves(Tensor):
    """A tensor made of two, as quantised states are: codes and scales."""

    codes: Tensor
    scales: Tensor

    @staticmethod
    def __new__(cls, codes: Tensor, scales: Tensor) -> Halves:
        made: Halves = Tensor._make_wrapper_subclass(cls, codes.shape, dtype=torch.float32)  # type: ignore[attr-defined]
        made.codes, made.scales = codes, scales
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["codes", "scales"], None


def test_shared_storage_counts_once_and_a_quantised_state_by_what_it_is_made_of() -> None:
    table = torch.zeros(256)
    state = {0: {"codes": torch.zeros(100, dtype=torch.uint8), "table": table, "step": 3}, 1: [table, table[:10], None]}
    assert tensor_bytes(state) == 100 + 4 * 256
    assert tensor_bytes(Halves(torch.zeros(64, dtype=torch.uint8), torch.zeros(1))) == 64 + 4
    assert tensor_bytes(None) == tensor_bytes([]) == 0 and tensor_bytes(torch.zeros(0)) == 0


@pytest.mark.parametrize("clip", [0.0, -1.0, float("nan")])
def test_a_wrong_clip_is_refused(clip: float) -> None:
    with pytest.raises(ValueError, match="clip="):
        GradientLearner(TASK, TASK.model(), Descent(TASK.model(), 0.1, 0.0), clip=clip)
