"""Packing, padding, the order of batches, and masking: exactly what they say."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bancada.workloads import masking
from bancada.workloads.objectives import mean_loss, shifted, tally
from bancada.workloads.order import Order, evenly, stream_seed
from bancada.workloads.packing import IGNORED, pack, pad_rows

EOS, PAD = 1, 0
QUICK = settings(deadline=None, max_examples=50)
DOCUMENTS = st.lists(st.lists(st.integers(4, 99), max_size=9), min_size=1, max_size=9).filter(any)


@QUICK
@given(DOCUMENTS, st.integers(2, 8))
def test_packed_rows_hold_every_token_once_and_say_where_documents_begin(
    documents: list[list[int]], length: int
) -> None:
    rows = pack(documents, length, EOS, PAD)
    expected_ids, expected_positions, expected_labels = [], [], []
    for document in filter(None, documents):
        for place, token in enumerate([*document, EOS]):
            column = len(expected_ids) % length
            expected_positions.append(0 if place == 0 or column == 0 else expected_positions[-1] + 1)
            expected_labels.append(IGNORED if place == 0 else token)
            expected_ids.append(token)
    used, total = len(expected_ids), rows["input_ids"].numel()
    assert 0 <= total - used < length
    assert rows["input_ids"].flatten().tolist() == expected_ids + [PAD] * (total - used)
    assert rows["position_ids"].flatten().tolist() == expected_positions + list(range(total - used))
    assert rows["labels"].flatten().tolist() == expected_labels + [IGNORED] * (total - used)
    assert all(column.shape == (total // length, length) for column in rows.values())


@QUICK
@given(st.lists(st.lists(st.integers(4, 99), min_size=1, max_size=9), min_size=1, max_size=6), st.integers(1, 8))
def test_padded_rows_hold_one_sequence_each(sequences: list[list[int]], length: int) -> None:
    rows = pad_rows(sequences, length, PAD)
    for row, sequence in enumerate(sequences):
        kept = sequence[:length]
        filling = [0] * (length - len(kept))
        assert rows["input_ids"][row].tolist() == kept + filling
        assert rows["attention_mask"][row].tolist() == [1] * len(kept) + filling
        assert rows["position_ids"][row].tolist() == list(range(len(kept))) + filling


def test_impossible_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="length is 1, it must be at least 2"):
        pack([[5]], 1, EOS, PAD)
    with pytest.raises(ValueError, match="nothing to pack"):
        pack([[], []], 4, EOS, PAD)
    with pytest.raises(ValueError, match="length is 0"):
        pad_rows([[5]], 0, PAD)
    with pytest.raises(ValueError, match="nothing to pad"):
        pad_rows([], 4, PAD)
    with pytest.raises(ValueError, match=r"sequences\[1\] is empty"):
        pad_rows([[5], []], 4, PAD)


@QUICK
@given(st.integers(1, 20), st.integers(1, 9), st.integers(0, 5))
def test_an_epoch_holds_every_example_once_and_updates_need_no_history(examples: int, batch: int, seed: int) -> None:
    order = Order(examples, batch, seed)
    updates = -(-3 * examples // batch)
    seen = torch.cat([order.indices(update) for update in range(updates)])
    for epoch in range(3):
        assert sorted(seen[epoch * examples : (epoch + 1) * examples].tolist()) == list(range(examples))
    again = Order(examples, batch, seed)
    for update in reversed(range(updates)):
        assert again.indices(update).tolist() == seen[update * batch : (update + 1) * batch].tolist()


def test_seeds_and_epochs_give_other_orders() -> None:
    orders = [tuple(Order(100, 100, seed).indices(epoch).tolist()) for seed in (0, 1) for epoch in (0, 1)]
    assert len(set(orders)) == 4
    assert stream_seed("a", 1, 2) != stream_seed("a", 12) and 0 <= stream_seed("a", 1) < 2**63
    with pytest.raises(ValueError, match="update is -1"):
        Order(3, 2, 0).indices(-1)
    with pytest.raises(ValueError, match="batch_size is 0"):
        Order(3, 0, 0)
    with pytest.raises(ValueError, match="examples is 0"):
        Order(0, 1, 0)


def test_an_evaluation_looks_at_the_whole_part() -> None:
    assert evenly(10, 4).tolist() == [0, 2, 5, 7]
    assert evenly(3, 9).tolist() == [0, 1, 2]


def test_masking_hides_as_many_as_the_paper_says() -> None:
    torch.manual_seed(0)
    ids = torch.randint(0, 50, (400, 500))
    inputs, labels = masking.corrupt(ids, special=4, vocab_size=50, mask=3, seed=7)
    chosen = labels != IGNORED
    assert torch.equal(labels[chosen], ids[chosen])
    assert torch.equal(inputs[~chosen], ids[~chosen])
    assert not (chosen & (ids < 4)).any()
    ordinary, count = int((ids >= 4).sum()), int(chosen.sum())
    assert abs(count / ordinary - 0.15) < 5 * (0.15 * 0.85 / ordinary) ** 0.5
    masked, same = (inputs == 3)[chosen].float().mean(), (inputs == ids)[chosen].float().mean()
    bound = 5 * (0.25 / count) ** 0.5
    assert abs(masked - 0.8) < bound
    assert abs(same - (0.1 + 0.1 / 46)) < bound  # left alone, or swapped for itself
    assert inputs[chosen & (inputs != 3)].min() >= 4


def test_masking_is_a_function_of_its_seed() -> None:
    ids = torch.arange(4, 404).reshape(4, 100)
    first, again, other = (masking.corrupt(ids, special=4, vocab_size=500, mask=3, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(first[0], again[0]) and torch.equal(first[1], again[1])
    assert not torch.equal(first[1], other[1])
    with pytest.raises(ValueError, match="vocab_size is 4"):
        masking.corrupt(ids, special=4, vocab_size=4, mask=3, seed=1)


@QUICK
@given(st.lists(st.integers(0, 6), min_size=4, max_size=4), st.integers(0, 3))
def test_the_loss_is_the_mean_over_what_counts(counts: list[int], seed: int) -> None:
    torch.manual_seed(seed)
    logits, labels = torch.randn(4, 6, 5), torch.full((4, 6), IGNORED)
    for row, count in enumerate(counts):
        labels[row, :count] = torch.randint(0, 5, (count,))
    counted_ones = labels != IGNORED
    losses = -logits.log_softmax(-1)[counted_ones].gather(-1, labels[counted_ones].unsqueeze(-1))
    flat = logits.flatten(0, 1), labels.flatten()
    expected = losses.sum() / max(1, losses.numel())
    torch.testing.assert_close(mean_loss(*flat), expected)
    total, right, counted = tally(*flat).tolist()
    assert counted == sum(counts) and 0 <= right <= counted
    assert total == pytest.approx(float(expected) * sum(counts), abs=1e-4)


def test_a_token_is_predicted_from_the_one_before_it() -> None:
    logits = torch.arange(2 * 3 * 2).reshape(2, 3, 2)
    predictions, labels = shifted(logits, torch.tensor([[1, 2, 3], [4, 5, 6]]))
    assert predictions.tolist() == [[0, 1], [2, 3], [6, 7], [8, 9]]
    assert labels.tolist() == [2, 3, 5, 6]
