"""encode_sentences against bilm-tf's rows and its own rules."""

import json

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from helpers import GOLDEN
from keras_elmo import encode_sentences
from keras_elmo.text.characters import (
    ByteRules,
    distinct,
    pad_words,
    trim_characters,
)
from keras_elmo.text.tokens import split_tokens

BEGIN_WORD, END_WORD, PADDING = 259, 260, 261
# Hypothesis' text leaves out surrogates unless asked.
any_text = st.text(st.characters(), max_size=60)


def test_odd_words_have_bilm_tf_rows():
    words = json.loads((GOLDEN / "char_ids_edge.json").read_text())["without_specials_words"]
    expected = np.load(GOLDEN / "char_ids_edge.npz")["without_specials"]
    # bilm-tf encodes the last word of a vocabulary without specials as </S>; we do not.
    ids = encode_sentences([words[:-1]])[0]
    np.testing.assert_array_equal(ids[1:-1], expected[1 : len(words)])
    np.testing.assert_array_equal(ids[[0, -1]], expected[[0, -1]])


@pytest.mark.parametrize("variant, width", [("default", 50), ("short_words", 12)])
def test_sentences_have_bilm_tf_rows(variant, width):
    sentences = json.loads((GOLDEN / "sentences.json").read_text())["batch"]
    expected = np.load(GOLDEN / variant / "outputs.npz")["char_ids"]
    np.testing.assert_array_equal(encode_sentences(sentences, width), expected)


@pytest.mark.filterwarnings("ignore:The strings contain white space")
@given(st.lists(st.lists(any_text, max_size=4), max_size=3), st.integers(3, 12))
@example([["aé", "<S>"], []], 7)
def test_every_text_gives_well_formed_rows(sentences, width):
    ids = encode_sentences(sentences, width)
    longest = max(map(len, sentences), default=0)
    assert (ids.shape, ids.dtype) == ((len(sentences), longest + 2, width), np.int32)
    for row, sentence in zip(ids, sentences):
        assert not row[len(sentence) + 2 :].any()
        texts = [[b + 1 for b in word.encode("utf-8", "ignore")] for word in sentence]
        for token, text in zip(row, [[257], *texts, [258]]):
            expected = [BEGIN_WORD, *text[: width - 2], END_WORD]
            assert token.tolist() == expected + [PADDING] * (width - len(expected))


@pytest.mark.filterwarnings("ignore:The strings contain white space")
@given(st.lists(any_text, min_size=1, max_size=4))
def test_bytes_and_str_are_the_same_tokens(tokens):
    as_bytes = [token.encode("utf-8", "surrogatepass") for token in tokens]
    np.testing.assert_array_equal(encode_sentences([tokens]), encode_sentences([as_bytes]))


def test_words_alone_have_the_rows_they_have_in_a_sentence():
    words = ["a", b"b", "\u00e9" * 30, "", "a", "<S>"]
    encode_words = ByteRules(12).encode_words
    np.testing.assert_array_equal(encode_words(words), encode_sentences([words], 12)[0, 1:-1])
    assert encode_words([]).shape == (0, 12)


def test_distinct_words_and_their_places():
    words, places = distinct(["b", "a", "b", b"a"])
    assert (words, places.tolist(), places.dtype) == (["b", "a", b"a"], [0, 1, 0, 2], "int32")
    rows, index = ByteRules(8).encode_distinct([["the", "cat", "the"], [], ["cat"]])
    assert index.tolist() == [[1, 3, 4, 3, 2], [1, 2, 0, 0, 0], [1, 4, 2, 0, 0]]
    assert rows.shape == (5, 8)
    assert not rows[0].any()
    assert ByteRules(8).encode_distinct([]).index.shape == (0, 2)
    # What is trimmed and padded are rows and columns that no word needs.
    small = pad_words(trim_characters(rows, widest_filter=2), index.size)
    assert small.shape == (16, 8)
    np.testing.assert_array_equal(small[:5], rows)


def test_empty_sentences_and_no_sentences():
    np.testing.assert_array_equal(encode_sentences([[]])[0, :, 1], [257, 258])
    assert encode_sentences([]).shape == (0, 2, 50)


def test_rows_of_a_given_length():
    sentences = [["a", "b", "c"], ["d"]]
    ids, padded = (encode_sentences(sentences, 20, pad_to=length) for length in (None, 6))
    assert padded.shape == (2, 8, 20)
    np.testing.assert_array_equal(padded[:, :5], ids)
    assert not padded[:, 5:].any()
    assert encode_sentences([], pad_to=3).shape == (0, 5, 50)
    with pytest.raises(ValueError, match="has 3 tokens, more than pad_to=2"):
        encode_sentences(sentences, pad_to=2)
    first = [tokens[:2] for tokens in sentences]
    with pytest.raises(ValueError, match="truncate=True needs a number of tokens, pad_to"):
        encode_sentences(sentences, truncate=True)
    cut = encode_sentences(sentences, 20, pad_to=2, truncate=True)
    np.testing.assert_array_equal(cut, encode_sentences(first, 20))
    with pytest.raises(ValueError, match="pad_to must be an integer of at least 1"):
        encode_sentences(sentences, pad_to="longest")


def test_splits_at_ascii_white_space_only():
    assert split_tokens(" a\t b\u00a0c\n\x0b\x0c\rd\x1ce ") == ["a", "b\u00a0c", "d\x1ce"]
    assert split_tokens(b" a\t b ") == [b"a", b"b"]
    assert split_tokens("  ") == []


def test_strings_are_split_as_everywhere():
    np.testing.assert_array_equal(encode_sentences(["a b", ""]), encode_sentences([["a", "b"], []]))


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="got the single string 'a b'"):
        encode_sentences("a b")
    with pytest.raises(ValueError, match="found 3 of type int"):
        encode_sentences([["a", 3]])
    with pytest.raises(ValueError, match="per_token must be an integer of at least 3; got 2"):
        encode_sentences([["a"]], 2)
