"""The token encoder of models that read words, with or without their characters."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_elmo.config import ElmoConfig
from keras_elmo.layers.char_cnn_embedding import CharCNNEmbedding
from keras_elmo.layers.configured import Configured
from keras_elmo.layers.highway import Dense
from keras_elmo.layers.inputs import as_ids
from keras_elmo.layers.word_embedding import WordEmbedding

_ORIGINAL = ElmoConfig()


@keras.saving.register_keras_serializable("keras_elmo")
class LexiconEmbedding(Configured, keras.layers.Layer):
    """Encodes tokens from their word and their characters, both projected and added.

    Args:
        vocabulary_size: Rows of the table of words.
        word_dim: Size of a word's vector in it.
        num_characters: Rows of the table of characters; `None` for only words.
        filters, char_embedding_dim, activation, num_highway: As for `CharCNNEmbedding`; `filters`
            is `None` for only words.
        projection_dim: Size of a token's vector.

    Call arguments:
        inputs: Rows of a `Lexicon`: the word's index plus 1, then the characters' indices plus 1.

    Input shape:
        Integers `(..., 1 + C)`, 0 for padding.

    Output shape:
        Floats `(..., projection_dim)`. The vectors of padding are not zero; the mask marks them.

    Raises:
        ValueError: if an argument is invalid, the ids are not integers or C is too small.

    Example:

    >>> embedding = LexiconEmbedding(100, 8, num_characters=30, filters=((1, 8),), projection_dim=4)
    >>> embedding(np.ones((2, 7, 51), "int32")).shape
    (2, 7, 4)

    Reference: ELMoForManyLangs (Che et al. 2018, section 2.2); docs/LANGUAGES.md.
    """

    def __init__(
        self,
        vocabulary_size: int,
        word_dim: int,
        num_characters: int | None = None,
        filters: Sequence | None = None,
        char_embedding_dim: int = _ORIGINAL.char_embedding_dim,
        activation: str = _ORIGINAL.activation,
        num_highway: int = _ORIGINAL.num_highway,
        projection_dim: int = _ORIGINAL.projection_dim,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.vocabulary_size = vocabulary_size
        self.word_dim = word_dim
        self.num_characters = num_characters
        self.filters = filters
        self.char_embedding_dim = char_embedding_dim
        self.activation = activation
        self.num_highway = num_highway
        self.projection_dim = projection_dim
        self.checked_config()
        self.supports_masking = True
        self.autocast = False
        self.words = WordEmbedding(vocabulary_size, word_dim, dtype=self.dtype_policy, name="words")
        self.characters = None
        if num_characters is not None:
            self.characters = CharCNNEmbedding(
                filters,
                char_embedding_dim,
                activation,
                num_highway,
                projection_dim,
                num_characters,
                always_project=True,
                dtype=self.dtype_policy,
                name="characters",
            )
        self.word_projection = Dense(
            self.projection_dim,
            kernel_initializer="glorot_uniform",
            use_bias=self.characters is None,  # the characters' projection has one
            dtype=self.dtype_policy,
            name="word_projection",
        )

    def build(self, input_shape: tuple) -> None:
        self.words.build()
        self.word_projection.build((None, self.word_dim))
        if self.characters is not None:
            width = input_shape[-1]
            self.characters.build((None, None if width is None else width - 1))

    def call(self, inputs: Any) -> Any:
        inputs = as_ids(
            inputs,
            max(self.vocabulary_size, self.num_characters or 0),
            "LexiconEmbedding expects the integer ids (..., 1 + C) of a Lexicon's encode_sentences "
            "or of LexiconEncoder",
        )
        x = self.word_projection(self.words(inputs[..., 0]))
        return x if self.characters is None else x + self.characters(inputs[..., 1:])

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        return ops.any(ops.not_equal(inputs, 0), axis=-1) if mask is None else mask

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return (*input_shape[:-1], self.projection_dim)
