"""UnicodeCharEncoder against encode_sentences: the same rows, to the bit."""

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import tensorflow_only
from keras_elmo import ElmoLayer, UnicodeCharEncoder, encode_sentences
from keras_elmo.text.tokens import split_tokens, token_bytes

tf = pytest.importorskip("tensorflow")

ODD_SENTENCES = [
    "tabs\tand   many blanks ",
    "",
    " \n ",
    "\u00a0no-break\u00a0space and\u3000wide space",
    "x" * 47 + " " + "x" * 48 + " " + "x" * 49 + " " + "x" * 47 + "é",
    "👩\u200d👩\u200d👧\u200d👦🎉 e\u0301 combining 日" + "本" * 30,
    "lone\ud800surrogate \udfff",
    "<S> </S> <UNK> nul\0inside",
]
multiword_tokens = pytest.mark.filterwarnings("ignore:The strings contain white space")
any_text = st.text(st.characters(), max_size=30)


def as_tensor(strings):
    """A string tensor of text that may hold surrogates, which TensorFlow itself would refuse."""
    encoded = tf.nest.map_structure(lambda s: s.encode("utf-8", "surrogatepass"), strings)
    return tf.constant(encoded, tf.string)


def padded(sentences):
    longest = max(map(len, sentences))
    return as_tensor([sentence + [""] * (longest - len(sentence)) for sentence in sentences])


def test_sentences_have_the_rows_of_encode_sentences():
    ids = UnicodeCharEncoder().call(as_tensor(ODD_SENTENCES))
    expected = encode_sentences([split_tokens(sentence) for sentence in ODD_SENTENCES])
    np.testing.assert_array_equal(ids, expected)
    assert ids.dtype == "int32"


@multiword_tokens
def test_tokens_have_the_rows_of_encode_sentences():
    sentences = [["", "a", "", "b"], ["lone\ud800", "\ud800"], ["with blank", "日" * 30], []]
    ids = UnicodeCharEncoder(12).call(padded(sentences))
    np.testing.assert_array_equal(ids, encode_sentences(sentences, 12))


@tensorflow_only  # the same on all backends
@settings(max_examples=60, deadline=None)
@given(st.lists(any_text, min_size=1, max_size=4), st.integers(3, 12))
def test_any_text_has_the_rows_of_encode_sentences(sentences, width):
    expected = encode_sentences([split_tokens(sentence) for sentence in sentences], width)
    np.testing.assert_array_equal(UnicodeCharEncoder(width).call(as_tensor(sentences)), expected)
    np.testing.assert_array_equal(UnicodeCharEncoder(width)(sentences), expected)


@tensorflow_only
@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=20), min_size=1, max_size=4))
def test_any_bytes_have_the_rows_of_encode_sentences(sentences):
    expected = encode_sentences([token_bytes(sentence).split() for sentence in sentences], 8)
    for read in (UnicodeCharEncoder(8), UnicodeCharEncoder(8).call):  # in NumPy, and in a graph
        np.testing.assert_array_equal(read(tf.constant(sentences)), expected)


@tensorflow_only
@multiword_tokens
@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(any_text.filter(bool), max_size=4), min_size=1, max_size=3))
def test_any_tokens_have_the_rows_of_encode_sentences(sentences):
    expected = encode_sentences(sentences, 9)
    np.testing.assert_array_equal(UnicodeCharEncoder(9).call(padded(sentences)), expected)


@tensorflow_only
def test_every_character_of_unicode_has_the_row_of_encode_sentences():
    characters = [chr(c) for c in range(1, 0x110000)]
    ids = UnicodeCharEncoder(6).call(as_tensor(characters)[:, None])
    # One sentence is enough for encode_sentences, which gives each token its row.
    np.testing.assert_array_equal(ids[:, 1], encode_sentences([characters], 6)[0, 1:-1])


@pytest.mark.parametrize(
    "strings",
    [
        ["the cat", "sat"],
        np.array([b"the cat", b"sat"]),
        np.array(["the cat", "sat"], dtype=object),
        [["the", "cat"], ["sat"]],
    ],
    ids=lambda strings: f"{type(strings).__name__}-{getattr(strings, 'dtype', strings)}",
)
def test_python_and_numpy_strings_on_every_backend(strings):
    ids = UnicodeCharEncoder()(strings)
    assert keras.ops.is_tensor(ids)
    expected = encode_sentences([["the", "cat"], ["sat"]])
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(ids), expected)


def test_in_a_data_pipeline_on_every_backend():
    dataset = tf.data.Dataset.from_tensor_slices(["the cat", "sat"]).batch(2)
    (ids,) = dataset.map(UnicodeCharEncoder())
    np.testing.assert_array_equal(ids, encode_sentences([["the", "cat"], ["sat"]]))


@tensorflow_only
@pytest.mark.parametrize("layer", [UnicodeCharEncoder, ElmoLayer])
def test_sentences_in_a_column_are_warned_of(layer):
    message = r"strings .*each string is one token.*tf\.squeeze\(x, 1\)"
    layer, column = layer(), tf.constant([["the cat sat"], ["a dog"]])
    with pytest.warns(UserWarning, match=message):
        layer(column)
    with pytest.warns(UserWarning, match=message):
        layer(keras.Input((1,), dtype="string"))
    inputs = keras.Input((None,), dtype="string")
    model = keras.Model(inputs, layer(inputs))
    with pytest.warns(UserWarning, match=message):
        model.predict(column, verbose=0)


@tensorflow_only
def test_in_a_functional_model_with_its_mask():
    inputs = keras.Input((), dtype="string")
    ids = UnicodeCharEncoder(8)(inputs)
    assert (ids.shape, ids.dtype) == ((None, None, 8), "int32")
    assert UnicodeCharEncoder(8)(keras.Input((7,), dtype="string")).shape == (None, 9, 8)
    strings = tf.constant(["the cat", "", "sat"])
    expected = encode_sentences([["the", "cat"], [], ["sat"]], 8)
    np.testing.assert_array_equal(keras.Model(inputs, ids).predict(strings, verbose=0), expected)
    mask = UnicodeCharEncoder(8).compute_mask(strings)
    np.testing.assert_array_equal(mask, expected.any(-1))
    mask = UnicodeCharEncoder(8).compute_mask(tf.constant([["a", "", "b", ""], [""] * 4]))
    np.testing.assert_array_equal(mask, [[1, 1, 1, 1, 1, 0], [1, 1, 0, 0, 0, 0]])


def test_no_tokens_at_all():
    np.testing.assert_array_equal(
        UnicodeCharEncoder(8)(tf.zeros((2, 0), tf.string)), encode_sentences([[], []], 8)
    )
    assert UnicodeCharEncoder(8).call(tf.zeros((0,), tf.string)).shape == (0, 2, 8)


def test_config_round_trip():
    layer = UnicodeCharEncoder(12, name="characters")
    again = keras.layers.deserialize(keras.layers.serialize(layer))
    expected = {"name": "characters", "trainable": True, "max_characters_per_token": 12}
    assert again.get_config() == layer.get_config() == expected


@pytest.mark.parametrize(
    "inputs, message",
    [
        (tf.constant([1, 2]), r"expects strings.* of dtype .*int32.* and shape \(2,\)"),
        (tf.constant([[["a"]]]), r"Expected tokens to be strings, found \[b?'a'\]"),
        ("the cat", "single string 'the cat'"),
    ],
)
def test_bad_input_is_named(inputs, message):
    with pytest.raises(ValueError, match=message):
        UnicodeCharEncoder()(inputs)


def test_too_few_characters():
    with pytest.raises(ValueError, match="max_characters_per_token must be an integer"):
        UnicodeCharEncoder(2)


@pytest.mark.skipif(keras.backend.backend() == "tensorflow", reason="TensorFlow takes strings")
@pytest.mark.parametrize("layer", [UnicodeCharEncoder, ElmoLayer])
def test_strings_in_a_model_of_another_backend_are_refused(layer):
    with pytest.raises(ValueError, match="cannot take strings inside a model on the .* backend"):
        layer()(keras.Input((), dtype="string"))
