"""A table of whole-word vectors in the place of the character encoder."""

from typing import Any

import keras
from keras import ops
from keras.initializers import RandomUniform

from keras_elmo.layers.configured import Configured
from keras_elmo.layers.inputs import as_ids
from keras_elmo.ops.gather import gather, nan_unless


@keras.saving.register_keras_serializable("keras_elmo")
class WordEmbedding(Configured, keras.layers.Layer):
    """Looks up vectors of whole words, in models without characters or in stored token vectors.

    Args:
        vocabulary_size: Rows of the table.
        projection_dim: Size of a token's vector.

    Call arguments:
        inputs: Token ids of `encode_token_ids`: the row in the table plus 1; 0 is padding.

    Input shape:
        Integers `(B, T)`.

    Output shape:
        Floats `(B, T, projection_dim)`.

    Raises:
        ValueError: if the ids are not integers.

    Example:

    >>> WordEmbedding(vocabulary_size=10, projection_dim=4)(np.array([[1, 5, 2, 0]])).shape
    (1, 4, 4)

    Reference: BILM_TF.md, "Files" (`dump_token_embeddings`); bilm-tf `TokenBatcher`.
    """

    def __init__(self, vocabulary_size: int, projection_dim: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.vocabulary_size = vocabulary_size
        self.projection_dim = projection_dim
        self.checked_config(filters=None)
        self.supports_masking = True
        self.autocast = False

    def build(self, input_shape: tuple | None = None) -> None:
        shape = (self.vocabulary_size, self.projection_dim)
        # Keras would cast the whole table, of which a batch needs few rows.
        self.embedding = self.add_weight(
            shape, RandomUniform(-1.0, 1.0), name="embedding", autocast=False
        )

    def call(self, inputs: Any) -> Any:
        expected = "WordEmbedding expects integer token ids of keras_elmo.encode_token_ids"
        inputs = as_ids(inputs, self.vocabulary_size, expected)
        # Padding is masked afterwards: a row of its own would copy the table, which is large.
        x = gather(self.embedding, ops.maximum(inputs - 1, 0))
        x = ops.cast(x, self.compute_dtype)
        x = ops.where(ops.expand_dims(inputs > 0, -1), x, ops.zeros_like(x))
        return nan_unless(ops.logical_and(inputs >= 0, inputs <= self.vocabulary_size), x)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        return ops.not_equal(inputs, 0) if mask is None else mask

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return (*input_shape, self.projection_dim)
