"""LexiconEmbedding: what Keras asks of a layer; test_golden_many_languages.py has its numbers."""

import numpy as np
import pytest

from keras_elmo import LexiconEmbedding
from layer_checks import check_layer
from many_languages import small_lexicon

FILTERS = ((1, 3), (2, 5))


def test_words_and_characters():
    lexicon = small_lexicon()
    ids = lexicon.encode_sentences([["the", "猫", "xyz"], ["cat"]])
    sizes = {"num_characters": len(lexicon.characters), "char_embedding_dim": 4, "num_highway": 1}
    check_layer(
        lambda **kwargs: LexiconEmbedding(
            len(lexicon.words), 3, filters=FILTERS, projection_dim=8, **sizes, **kwargs
        ),
        ids,
        weights=1 + 1 + 1 + 4 + 4 + 2,  # the projection is there, though there are 8 filters
        output_mask=ids.any(-1),
    )


def test_words_alone():
    ids = np.array([[[2], [5], [3]], [[2], [3], [0]]], "int32")
    check_layer(
        lambda **kwargs: LexiconEmbedding(7, 3, projection_dim=8, **kwargs),
        ids,
        weights=1 + 2,
        output_mask=ids.any(-1),
    )


def test_bad_arguments_and_inputs():
    with pytest.raises(ValueError, match="num_characters"):
        LexiconEmbedding(7, 3, filters=FILTERS)
    with pytest.raises(ValueError, match="vocabulary_size = None: expected the number of words"):
        LexiconEmbedding(None, 3)
    with pytest.raises(ValueError, match=r"integer ids \(\.\.\., 1 \+ C\) of a Lexicon"):
        LexiconEmbedding(7, 3)(np.ones((1, 2, 1), "float32"))
