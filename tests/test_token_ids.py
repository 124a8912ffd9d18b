"""encode_token_ids against bilm-tf's TokenBatcher."""

import json
from pathlib import Path

import numpy as np
import pytest

from keras_elmo import encode_token_ids

GOLDEN = Path(__file__).parent / "golden" / "inference"
WORDS = ["<S>", "</S>", "<UNK>", "a", "b"]


def test_sentences_have_bilm_tf_ids():
    sentences = json.loads((GOLDEN / "sentences.json").read_text())["batch"][:9]
    expected = np.load(GOLDEN / "default" / "token_input_outputs.npz")["token_ids"]
    np.testing.assert_array_equal(encode_token_ids(sentences, GOLDEN / "vocab.txt"), expected)


def test_unknown_words_boundaries_and_padding():
    ids = encode_token_ids([["a", "zebra"], [], ["b"]], WORDS)
    np.testing.assert_array_equal(ids, [[1, 4, 3, 2], [1, 2, 0, 0], [1, 5, 2, 0]])
    assert ids.dtype == np.int32


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
