"""Cleaning, filtering, near-duplicates, and the division into parts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bancada.workloads import cleaning, splits, store
from bancada.workloads.corpus import prepare
from bancada.workloads.duplicates import jaccard, near_duplicates, shingles
from bancada.workloads.sources import Document

QUICK = settings(deadline=None, max_examples=50)
TEXT = st.text(st.sampled_from("abé ’“…–[]æ|*=-+\t\n\u00a0\u200b\u0301.1"), max_size=60)
WORDS = st.lists(st.sampled_from(["in", "the", "beginning", "was", "word"]), min_size=1, max_size=12).map(" ".join)


@QUICK
@given(TEXT)
def test_a_clean_text_stays_as_it_is_and_holds_no_curly_quote(text: str) -> None:
    for clean in (cleaning.clean_verse, cleaning.clean_paragraph):
        once = clean(text)
        assert clean(once) == once
        assert not set(once) & set("‘’“”…–—æ\u00a0\u200b")
    verse = cleaning.clean_verse(text)
    assert verse == " ".join(verse.split()) and not set(verse) & set("[]")


def test_cleaning_keeps_words_and_indentation_and_drops_what_is_drawn() -> None:
    assert (
        cleaning.clean_verse(" And darkness [was] upon\nthe LORD’s face. ") == "And darkness was upon the LORD's face."
    )
    drawn = 'Truth values\n************\n\n   if x["a"]:\n       y = 1\n+---+---+\n| a | b |\n+---+---+'
    assert cleaning.clean_paragraph(drawn) == 'Truth values\n   if x["a"]:\n       y = 1\na  b'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Jesus wept.", "short"),
        ("12 34 56", "short"),
        ("x <= y and 10_000 != z == 0", "symbols"),
        ("a_expr m_expr " * 6, "repetitive"),
        ("Rejoice with them that do rejoice, and weep with them that weep.", None),
        ("holy, holy, holy", None),  # too short to be called repetitive
    ],
)
def test_what_is_of_no_use_is_named(text: str, reason: str | None) -> None:
    assert cleaning.fault(text) == reason


def test_planted_near_duplicates_are_found_and_others_are_not() -> None:
    texts = [
        "And God said, Let there be light: and there was light.",
        "And the evening and the morning were the first day.",
        "AND GOD SAID - let there be light; and there was light!",  # other case and marks
        "And God said, Let there be light: and there was a light.",  # one word more
        "And the evening and the morning were the second day.",  # one word other: 7 of 9 shingles
        "Let there be lights in the firmament of the heaven to divide the day from the night.",
    ]
    assert near_duplicates(texts) == [None, None, 0, 0, 1, None]
    assert near_duplicates(texts, threshold=1.0) == [None, None, 0, None, None, None]


@QUICK
@given(st.lists(WORDS, max_size=12), st.sampled_from([0.2, 1 / 3, 0.5, 0.6, 2 / 3, 0.8, 1.0]), st.integers(1, 3))
def test_prefix_filtering_finds_what_comparing_all_pairs_finds(texts: list[str], threshold: float, size: int) -> None:
    expected: list[int | None] = []
    for index, text in enumerate(texts):
        kept = [earlier for earlier in range(index) if expected[earlier] is None]
        expected.append(next((k for k in kept if jaccard(text, texts[k], size) >= threshold), None))
    assert near_duplicates(texts, threshold, size) == expected


def test_similarity_by_hand() -> None:
    assert shingles("In the beginning God") == {("in", "the", "beginning"), ("the", "beginning", "god")}
    assert jaccard("In the beginning God created", "in the beginning, God spoke") == 2 / 4
    assert shingles("Amen.") == {("amen",)}


def test_impossible_thresholds_and_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"threshold is 0, it must be above 0"):
        near_duplicates(["a"], threshold=0)
    with pytest.raises(ValueError, match="size is 0, it must be at least 1"):
        near_duplicates(["a"], size=0)


def test_preparing_counts_what_it_drops_and_looks_across_documents() -> None:
    documents = [
        Document(
            "a 1", "a", ("And God said, Let there be light.", "Amen.", "The LORD is my shepherd; I shall not want.")
        ),
        Document("b 1", "b", ("And God said, let there be light!", "x == y == z == 1")),
        Document("b 2", "b", ("He leadeth me beside the still waters.",)),
    ]
    kept, dropped = prepare(documents, cleaning.clean_verse)
    assert dropped == {"short": 1, "symbols": 1, "duplicate": 1}
    assert [(one.id, len(one.passages)) for one in kept] == [("a 1", 2), ("b 2", 1)]


ITEMS = st.lists(st.tuples(st.sampled_from("xyz"), st.integers(1, 50)), min_size=1, max_size=60)


@QUICK
@given(ITEMS, st.randoms())
def test_every_item_is_in_one_part_whatever_the_order(sizes: list[tuple[str, int]], random: object) -> None:
    items = [(f"item {index}", label, size) for index, (label, size) in enumerate(sizes)]
    parts = splits.divide(items)
    assert set(parts) == {name for name, _, _ in items} and set(parts.values()) <= set(splits.SPLITS)
    shuffled = list(items)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert splits.divide(shuffled) == parts
    for label in {label for _, label, _ in items}:
        group = [(name, size) for name, of, size in items if of == label]
        total, largest = sum(size for _, size in group), max(size for _, size in group)
        for part, share in splits.SHARES.items():
            got = sum(size for name, size in group if parts[name] == part)
            assert abs(got - share * total) <= 2 * largest


def test_an_id_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="ids must be unique"):
        splits.split([Document("a", "x", ("b",)), Document("a", "y", ("c",))], stratify=True)


def test_a_file_is_stored_whole_or_not_at_all(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BANCADA_CACHE", str(tmp_path))

    def half(file: object) -> None:
        file.write(b"half")  # type: ignore[attr-defined]
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        store.write(store.folder() / "x.json", half)
    assert list(store.folder().iterdir()) == []


def test_stored_sequences_are_made_once(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BANCADA_CACHE", str(tmp_path))
    made = [[1, 2, 3], [], [70000]]
    assert store.sequences("x", [b"a", b"bc"], lambda: made) == made
    assert store.sequences("x", [b"a", b"bc"], lambda: pytest.fail("made again")) == made
    assert store.sequences("x", [b"ab", b"c"], lambda: [[4]]) == [[4]]
