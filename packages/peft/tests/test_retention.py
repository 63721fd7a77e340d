"""Gain and forgetting: by hand, paired, weighted; intervals that hold what they promise; refusals."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from peft_models import IDS, Network
from torch import nn

import bancada_peft as bp
from bancada_peft.retention import t_quantile


def test_by_hand() -> None:
    """Old: +1, +3 -> 2; new: 2 and 0 lower -> 1; with weights 3 and 1 of the old: (3 * 1 + 1 * 3) / 4 = 1.5."""
    losses: Any = ([1.0, 2.0], [2.0, 5.0], [4.0, 4.0], [2.0, 4.0])
    found = bp.forgetting(*losses)
    assert found.forgetting.estimate == 2 and found.gain.estimate == 1
    assert found.forgetting.low < 2 < found.forgetting.high and found.gain.low < 1 < found.gain.high
    assert bp.forgetting(*losses, old_weights=[3, 1]).forgetting.estimate == 1.5
    assert bp.forgetting(*losses) == found != bp.forgetting(*losses, confidence=0.5)
    assert str(found).startswith("gain +1.0000 [") and "95%" in str(found)


def test_losses_are_compared_in_pairs() -> None:
    """Examples differ by a hundred times what adapting changes, and the interval is as narrow as the change is even."""
    before = torch.linspace(0, 100, 50)
    found = bp.forgetting(before, before + 0.5 + 0.01 * torch.randn(50), before, before - 0.25)
    assert 0.49 < found.forgetting.low < found.forgetting.estimate < found.forgetting.high < 0.51
    assert found.gain.low == pytest.approx(0.25, abs=1e-5) and found.gain.high == pytest.approx(0.25, abs=1e-5)
    unpaired = bp.forgetting(before, (before + 0.5)[torch.randperm(50)], before, before)
    assert unpaired.forgetting.high - unpaired.forgetting.low > 5


@pytest.mark.parametrize(("n", "skewed"), [(5, False), (30, False), (30, True)])
def test_intervals_hold_the_truth_as_often_as_they_say(n: int, skewed: bool) -> None:
    """400 draws of n differences with mean 1; five standard errors of a rate of 95% are 5.4%."""
    generator = torch.Generator().manual_seed(n)
    zero, held = torch.zeros(n), 0
    for seed in range(400):
        drawn = torch.empty(n).exponential_(generator=generator) if skewed else torch.randn(n, generator=generator) + 1
        found = bp.forgetting(zero, drawn, zero, -drawn, resamples=400, seed=seed)
        held += found.forgetting.low <= 1 <= found.forgetting.high
        assert found.gain.estimate == pytest.approx(found.forgetting.estimate)
        assert found.gain.low < found.gain.estimate < found.gain.high
    assert (0.88 if skewed else 0.91) <= held / 400 <= 0.99


def test_quantiles_are_those_of_students_t() -> None:
    stats = pytest.importorskip("scipy.stats")
    for freedom in (1, 2, 3, 4, 7, 20, 1000):
        for p in (0.75, 0.95, 0.975, 0.995):
            assert t_quantile(p, freedom) == pytest.approx(stats.t.ppf(p, freedom), rel=0.01)


def test_an_adapter_that_learns_other_labels_gains_there_and_forgets_here() -> None:
    model = Network(torch.float32)
    generator = torch.Generator().manual_seed(4)
    ids = torch.randint(0, 11, (40, 4), generator=generator)
    old, new = torch.zeros(40, 4, dtype=torch.long), torch.full((40, 4), 3)

    def losses(labels: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(model(ids).mT, labels, reduction="none").mean(1)

    with torch.no_grad():
        before = losses(old), losses(new)
    bp.adapt(model, bp.Lora(("first", "head"), r=2))
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.05)
    for _ in range(10):
        optimizer.zero_grad()
        losses(new).mean().backward()
        optimizer.step()
    found = bp.forgetting(before[0], losses(old), before[1], losses(new))
    assert found.gain.low > 0 and found.forgetting.low > 0
    with bp.disabled(model):
        nothing = bp.forgetting(before[0], losses(old), before[1], losses(new))
    assert nothing.gain == bp.Interval(0, 0, 0) and model(IDS).shape == (2, 4, 5)


GOOD: dict[str, Any] = {name: [1.0, 2.0] for name in ("old_before", "old_after", "new_before", "new_after")}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"old_after": [1.0, 2.0, 3.0]}, r"old_after: 3 numbers; old_before has 2"),
        ({"new_before": [1.0]}, r"new_before: of shape \[1\]; .* of two at least"),
        ({"new_after": torch.ones(2, 2)}, r"new_after: of shape \[2, 2\]"),
        ({"old_before": [1.0, float("nan")]}, r"old_before: has numbers that are not finite"),
        ({"old_weights": [1.0, 0.0]}, r"old_weights: must be above 0"),
        ({"new_weights": [1.0, 1.0, 1.0]}, r"new_weights: 3 numbers"),
        ({"confidence": 1.0}, r"confidence=1\.0: must be at least 0 and below 1"),
        ({"confidence": 0.0}, r"confidence=0"),
        ({"resamples": 99}, r"resamples=99: must be at least 100"),
    ],
)
def test_bad_losses_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        bp.forgetting(**{**GOOD, **change})
