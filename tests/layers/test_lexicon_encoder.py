"""LexiconEncoder against the Lexicon's own rows: the same ones, to the bit."""

import keras
import numpy as np
import pytest

from helpers import tensorflow_only
from keras_elmo import ElmoLayer, Lexicon, LexiconEncoder
from keras_elmo.text.tokens import split_tokens
from many_languages import MANY_LANGUAGES, MARKS, VARIANTS, golden, small_lexicon

tf = pytest.importorskip("tensorflow")

# The first and the last letter of a part of twenty scripts.
SCRIPTS = [
    "az",
    "AZ",
    "αω",
    "АЯ",
    "աֆ",
    "את",
    "بي",
    "अह",
    "অহ",
    "ગહ",
    "அஹ",
    "అహ",
    "ಅಹ",
    "അഹ",
    "กฮ",
    "ກຮ",
    "ཀཧ",
    "აჰ",
    "가힣",
    "ぁん",
    "一龥",
    "ሀፐ",
    "😀🙏",
    "𐌰𐍊",
]
ODD_SENTENCES = [
    "",
    " \n ",
    "the cat",
    "x" * 30 + " 猫 <bos> <eos> <pad>",
    "no\u00a0break é e\u0301",
]


def random_tokens(rng, count):
    """Tokens of letters of one script each, of 1 to 16 code points."""
    first, last = (np.array([ord(script[i]) for script in SCRIPTS]) for i in (0, 1))
    for script, length in zip(rng.integers(len(SCRIPTS), size=count), rng.integers(1, 17, count)):
        letters = rng.integers(first[script], last[script] + 1, size=length)
        yield "".join(map(chr, letters))


def test_strings_in_a_graph_have_the_rows_of_the_lexicon(rng):
    tokens = [token for token in random_tokens(rng, 100_000) if not token.isspace()]
    letters = sorted({letter for token in tokens[:2_000] for letter in token})
    lexicon = Lexicon(["<oov>", *MARKS[:2], "<pad>", *tokens[::7]], [*letters, *MARKS], 12)
    encode = tf.function(LexiconEncoder(lexicon).__call__)
    rows = lexicon.encode_sentences([tokens])
    assert (rows[0, :, 0] > 1).sum() > 10_000  # of the words, some are known, others are not
    assert len(np.unique(rows[0, :, 1:])) > 1_000
    np.testing.assert_array_equal(encode(tf.constant([tokens])), rows)


@pytest.mark.filterwarnings("ignore:The strings contain white space")
@pytest.mark.parametrize("variant", VARIANTS)
def test_golden_sentences(variant):
    encoder = ElmoLayer(MANY_LANGUAGES / variant).char_encoder
    sentences = [s for s in golden(variant)[0]["sentences"] if not s or s[-1]]
    expected = encoder.lexicon.encode_sentences(sentences)
    padded = tf.ragged.constant(sentences, tf.string).to_tensor("")
    np.testing.assert_array_equal(encoder(padded), expected)
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(encoder(sentences)), expected)


def test_sentences_are_split_at_white_space():
    encoder = LexiconEncoder(small_lexicon())
    expected = encoder.lexicon.encode_sentences(map(split_tokens, ODD_SENTENCES))
    np.testing.assert_array_equal(encoder(tf.constant(ODD_SENTENCES)), expected)


def test_bytes_that_are_no_text_are_dropped():
    encoder = LexiconEncoder(small_lexicon())
    expected = encoder.lexicon.encode_sentences([["cat"]])
    np.testing.assert_array_equal(encoder(tf.constant([b"c\xffa\xc3t"])), expected)


def test_data_pipeline_and_config():
    encoder = LexiconEncoder(small_lexicon())
    again = keras.layers.deserialize(keras.layers.serialize(encoder))
    assert again.lexicon == encoder.lexicon and again.get_config() == encoder.get_config()
    rows = encoder.lexicon.encode_sentences([["the", "猫"]])
    dataset = tf.data.Dataset.from_tensor_slices(["the 猫"]).batch(1).map(again)
    assert dataset.element_spec.shape.as_list() == [None, None, 13]
    np.testing.assert_array_equal(next(iter(dataset)), rows)


def test_a_word_whose_id_is_that_of_the_padding_is_not_truncated():
    lexicon = small_lexicon(words=" ".join(f"w{i}" for i in range(30)))
    word = lexicon.words[lexicon.padding - 1]
    rows, _ = LexiconEncoder(lexicon).encode_distinct(tf.constant([word]), widest_filter=3)
    assert rows[-1, 0] == lexicon.padding
    expected = lexicon.trimmed(lexicon.encode_sentences([[word]])[0, 1:2], 3)
    num_letters = len(word)
    assert rows.shape[1] == 1 + num_letters + 2 + 3 <= expected.shape[1]


@tensorflow_only
def test_in_a_model():
    model = keras.Sequential([LexiconEncoder(small_lexicon())])
    assert model(tf.constant(["the cat"])).shape == (1, 4, 13)
