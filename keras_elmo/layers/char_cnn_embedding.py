"""The token encoder: character ids to one vector a token, whatever its sentence."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops
from keras.initializers import RandomNormal, RandomUniform

from keras_elmo.config import NUM_CHARACTERS, ElmoConfig
from keras_elmo.layers.configured import Configured
from keras_elmo.layers.highway import Dense, Highway
from keras_elmo.layers.inputs import as_ids
from keras_elmo.ops.gather import gather, nan_unless

_ORIGINAL = ElmoConfig()
_ANY_LENGTH = 1 << 16  # the widest that a filter may be
_POOL_SIZE = 64  # longer than most words


@keras.saving.register_keras_serializable("keras_elmo")
class CharCNNEmbedding(Configured, keras.layers.Layer):
    """Encodes tokens from their characters: convolutions, highway layers and a projection.

    Args:
        filters: Sequence of `(width, number)` pairs, one for each convolution.
        char_embedding_dim: Size of a character's vector.
        activation: `"relu"` or `"tanh"`, after the convolutions.
        num_highway: Number of highway layers.
        projection_dim: Size of a token's vector. If it equals the number of filters, the
            projection is omitted, unless `always_project`.
        num_characters: Number of rows of the character table; by default one per byte and mark.
        always_project: Whether to project even if the sizes are equal.

    Call arguments:
        inputs: Character ids of `encode_sentences`.

    Input shape:
        Integers `(..., C)`, values 0 to `num_characters`; 0 has the zero vector. C is at least the
        widest filter.

    Output shape:
        Floats `(..., projection_dim)`. The vectors of padding are not zero; the mask marks them.

    Raises:
        ValueError: if an argument is invalid, the ids are not integers or C is too small.

    Example:

    >>> ids = encode_sentences([["Hello", "world"]])
    >>> CharCNNEmbedding(filters=((1, 8), (2, 16)), projection_dim=12)(ids).shape
    (1, 4, 12)

    Reference: Peters et al. 2018, section 3.4; BILM_TF.md, "Token encoder".
    """

    def __init__(
        self,
        filters: Sequence | None = _ORIGINAL.filters,
        char_embedding_dim: int = _ORIGINAL.char_embedding_dim,
        activation: str = _ORIGINAL.activation,
        num_highway: int = _ORIGINAL.num_highway,
        projection_dim: int = _ORIGINAL.projection_dim,
        num_characters: int = NUM_CHARACTERS,
        always_project: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if filters is None:
            raise ValueError("CharCNNEmbedding needs filters: (width, number) pairs; got None.")
        self.filters = filters
        self.char_embedding_dim = char_embedding_dim
        self.activation = activation
        self.num_highway = num_highway
        self.projection_dim = projection_dim
        self.num_characters = num_characters
        self.always_project = always_project
        config = self.checked_config(max_characters_per_token=_ANY_LENGTH)
        self.supports_masking = True
        # The maximum by a pool: its gradient is several times as fast on TensorFlow, without XLA.
        self.uses_pool = False
        # Keras would turn the ids into floats under mixed precision, and bfloat16 has no 261.
        self.autocast = False
        self.convolutions = [
            keras.layers.Conv1D(
                number,
                width,
                data_format="channels_last",
                kernel_initializer=(
                    RandomUniform(-0.05, 0.05)
                    if activation == "relu"
                    else RandomNormal(stddev=(width * char_embedding_dim) ** -0.5)
                ),
                dtype=self.dtype_policy,
                name=f"convolution_{i}",
            )
            for i, (width, number) in enumerate(self.filters)
        ]
        self.highways = [
            Highway(dtype=self.dtype_policy, name=f"highway_{i}") for i in range(num_highway)
        ]
        self.projection = None
        if config.projects_characters:
            self.projection = Dense(
                self.projection_dim,
                kernel_initializer=RandomNormal(stddev=config.num_filters**-0.5),
                dtype=self.dtype_policy,
                name="projection",
            )

    def build(self, input_shape: tuple) -> None:
        # The padding of a sentence, id 0, has the zero vector and no row of its own.
        self.char_embedding = self.add_weight(
            (self.num_characters, self.char_embedding_dim),
            RandomUniform(-1.0, 1.0),
            name="char_embedding",
        )
        for convolution in self.convolutions:
            convolution.build((None, input_shape[-1], self.char_embedding_dim))
        num_filters = sum(number for _, number in self.filters)
        for highway in self.highways:
            highway.build((None, num_filters))
        if self.projection is not None:
            self.projection.build((None, num_filters))

    def call(self, inputs: Any) -> Any:
        inputs = as_ids(
            inputs,
            self.num_characters,
            "CharCNNEmbedding expects integer character ids (..., C), from encode_sentences or "
            "UnicodeCharEncoder of keras_elmo",
        )
        widest = max(width for width, _ in self.filters)
        if len(inputs.shape) < 2 or (inputs.shape[-1] or widest) < widest:
            raise ValueError(
                f"CharCNNEmbedding expects character ids (..., C) with C of at least {widest}, "
                f"the widest filter; got shape {tuple(inputs.shape)}."
            )
        words = ops.reshape(inputs, (-1, ops.shape(inputs)[-1]))
        num_words = ops.shape(words)[0]
        x = self.filter_activations(_at_least_one(words, num_words))
        for highway in self.highways:
            x = highway(x)
        if self.projection is not None:
            x = self.projection(x)
        x = ops.reshape(x[:num_words], (*ops.shape(inputs)[:-1], self.projection_dim))
        is_valid = ops.logical_and(inputs >= 0, inputs <= self.num_characters)
        return nan_unless(ops.all(is_valid, axis=-1), x)

    def filter_activations(self, characters: Any) -> Any:
        """The activation of each filter: its maximum over the characters of a word.

        Args:
            characters: int32 `(N, C)`, the ids of words.

        Returns:
            `(N, F)`: the filters of each width of `filters`, one width after the other.
        """
        x = self._embedded(characters)
        # Bias and activation are monotone: they commute with the maximum, which leaves less to do.
        # OpenVINO computes wrong sums if the bias comes directly after the maximum.
        x = ops.concatenate([self._largest(conv, x) for conv in self.convolutions], axis=-1)
        x += ops.cast(ops.concatenate([conv.bias for conv in self.convolutions]), x.dtype)
        return ops.relu(x) if self.activation == "relu" else ops.tanh(x)

    def filter_starts(self, characters: Any) -> Any:
        """Where each filter has its maximum: at the window that starts at this character.

        Args:
            characters: int32 `(N, C)`, the ids of words.

        Returns:
            int32 `(N, F)`, in the order of `filter_activations`. Of equal maxima it is the first.
        """
        x = self._embedded(characters)
        starts = [ops.argmax(_convolved(conv, x), axis=1) for conv in self.convolutions]
        return ops.cast(ops.concatenate(starts, axis=-1), "int32")

    def _embedded(self, characters):
        table = ops.cast(self.char_embedding, self.compute_dtype)
        return gather(ops.pad(table, ((1, 0), (0, 0))), characters)

    def _largest(self, convolution, x):
        """The maximum of a convolution over its positions, `(N, F)`."""
        x = _convolved(convolution, x)
        if self.uses_pool:
            x = ops.max_pool(x, _POOL_SIZE, padding="same", data_format="channels_last")
        return ops.max(x, axis=1)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        return ops.any(ops.not_equal(inputs, 0), axis=-1) if mask is None else mask

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return (*input_shape[:-1], self.projection_dim)


def _convolved(convolution, x):
    """A convolution without its bias at each position, `(N, C - width + 1, F)`."""
    return ops.conv(x, ops.cast(convolution.kernel, x.dtype), data_format="channels_last")


def _at_least_one(words, num_words):
    """Adds a row where there is none, for which backends compute no maximum or a wrong shape."""
    if ops.is_tensor(num_words):  # in a graph of TensorFlow
        missing = ops.cast(ops.equal(num_words, 0), "int32")
    elif num_words != 0:
        return words
    else:
        missing = 1
    return ops.pad(words, ((0, missing), (0, 0)))
