"""encode_token_ids against bilm-tf's TokenBatcher."""

import json
from pathlib import Path

import numpy as np
import pytest

from keras_elmo import Vocabulary, encode_token_ids
from keras_elmo.text.token_ids import read_words

GOLDEN = Path(__file__).parents[1] / "golden" / "inference"
WORDS = ["<S>", "</S>", "<UNK>", "a", "b"]


def test_sentences_have_bilm_tf_ids():
    sentences = json.loads((GOLDEN / "sentences.json").read_text())["batch"][:9]
    expected = np.load(GOLDEN / "default" / "token_input_outputs.npz")["token_ids"]
    np.testing.assert_array_equal(encode_token_ids(sentences, GOLDEN / "vocab.txt"), expected)


def test_unknown_words_boundaries_and_padding():
    ids = encode_token_ids([["a", "zebra"], [], ["b"]], WORDS)
    np.testing.assert_array_equal(ids, [[1, 4, 3, 2], [1, 2, 0, 0], [1, 5, 2, 0]])
    assert ids.dtype == np.int32


def test_bytes_are_words_and_boundaries_in_a_text_are_unknown():
    ids = encode_token_ids([[b"a", "b\ud800", "\u00e9".encode()], ["<S>", "</S>", "<UNK>"]], WORDS)
    np.testing.assert_array_equal(ids, [[1, 4, 5, 3, 2], [1, 3, 3, 3, 2]])


def test_words_of_other_white_space_are_words(tmp_path):
    path = tmp_path / "vocabulary.txt"
    words = [*WORDS, "\u00a0", "\u3000", "\u2003x\u0085"]
    Vocabulary(words).write(path)
    assert read_words(path) == Vocabulary.from_file(path).words == words
    path.write_bytes("\u00e9".encode("latin-1"))
    with pytest.raises(ValueError, match=r"vocabulary\.txt is not UTF-8 .* Save it as UTF-8"):
        read_words(path)


def test_a_file_may_end_without_newline(tmp_path):
    path = tmp_path / "vocabulary.txt"
    path.write_bytes("\r\n".join(WORDS).encode())
    np.testing.assert_array_equal(
        encode_token_ids([["a", "b"]], path), encode_token_ids([["a", "b"]], WORDS)
    )


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="vocabulary of 2 words has no </S>, <UNK>"):
        encode_token_ids([["a"]], ["<S>", "a"])
    with pytest.raises(ValueError, match="found the string 'a b'"):
        encode_token_ids(["a b"], WORDS)
    with pytest.raises(ValueError, match="Expected tokens to be strings, found 1"):
        encode_token_ids([["a", 1]], WORDS)
