"""LexiconEncoder against the Lexicon's own rows: the same ones, to the bit."""

import keras
import numpy as np
import pytest

from keras_elmo import ElmoLayer, Lexicon, LexiconEncoder
from keras_elmo.text.tokens import split_tokens
from many_languages import MANY_LANGUAGES, MARKS, VARIANTS, golden, small_lexicon

tf = pytest.importorskip("tensorflow")

# The first of 25 letters of each script.
SCRIPTS = "aΑАאبअঅஅกཀაሀぁ一가😀𐌰"  # noqa: RUF001
ODD_SENTENCES = [
    "",
    " \n ",
    "the cat",
    "x" * 30 + " 猫 <bos> <eos> <pad>",
    "no\u00a0break é e\u0301",
]


def random_tokens(rng, count):
    """Tokens of letters of one script each, of 1 to 16 code points."""
    first = np.array(list(map(ord, SCRIPTS)))
    for script, length in zip(rng.choice(first, size=count), rng.integers(1, 17, count)):
        yield "".join(map(chr, script + rng.integers(25, size=length)))


def test_strings_in_a_graph_have_the_rows_of_the_lexicon(rng):
    tokens = [token for token in random_tokens(rng, 20_000) if not token.isspace()]
    letters = sorted({letter for token in tokens[:1_000] for letter in token})
    lexicon = Lexicon(["<oov>", *MARKS[:2], "<pad>", *tokens[::7]], [*letters, *MARKS], 12)
    encode = tf.function(LexiconEncoder(lexicon).__call__)
    rows = lexicon.encode_sentences([tokens])
    assert (rows[0, :, 0] > 1).sum() > 2_000  # of the words, some are known, others are not
    assert len(np.unique(rows[0, :, 1:])) > 300
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


def test_sentences_are_split_at_white_space_without_bytes_that_are_no_text():
    encoder = LexiconEncoder(small_lexicon())
    expected = encoder.lexicon.encode_sentences([*map(split_tokens, ODD_SENTENCES), ["cat"]])
    strings = tf.constant([*(s.encode() for s in ODD_SENTENCES), b"c\xffa\xc3t"])
    np.testing.assert_array_equal(encoder(strings), expected)


def test_data_pipeline_and_config():
    encoder = LexiconEncoder(small_lexicon())
    again = keras.layers.deserialize(keras.layers.serialize(encoder))
    assert again.lexicon == encoder.lexicon and again.get_config() == encoder.get_config()
    rows = encoder.lexicon.encode_sentences([["the", "猫"]])
    dataset = tf.data.Dataset.from_tensor_slices(["the 猫"]).batch(1).map(again)
    assert dataset.element_spec.shape.as_list() == [None, None, 13]
    np.testing.assert_array_equal(next(iter(dataset)), rows)
