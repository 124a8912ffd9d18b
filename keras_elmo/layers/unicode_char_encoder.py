"""Strings to character ids inside a TensorFlow graph or a tf.data pipeline."""

from typing import Any

import keras

from keras_elmo.layers.inputs import check_strings, read_batch
from keras_elmo.layers.token_mask import TokenMask, ragged_tokens, valid_utf8
from keras_elmo.ops.compiled import without_autograph
from keras_elmo.text.characters import (
    BEGIN_WORD,
    BYTE_OFFSET,
    END_WORD,
    WORD_PADDING,
    ByteRules,
    DistinctWords,
    TokenEncoder,
)
from keras_elmo.text.tokens import Sentences


@keras.saving.register_keras_serializable("keras_elmo")
class UnicodeCharEncoder(keras.layers.Layer):
    """Encodes strings as the character ids that ELMo reads.

    The rows are identical to the output of `encode_sentences`. String tensors, in a model or in
    `Dataset.map`, need TensorFlow; lists and NumPy arrays of strings are encoded on every backend.

    Args:
        max_characters_per_token: Characters of a token, including its begin and end marks.

    Call arguments:
        inputs: Strings. Sentences are split at ASCII white space; bytes that are not valid UTF-8
            are dropped. In a row of tokens, empty strings at the right end are padding, and so are
            the missing tokens of a ragged tensor.

    Input shape:
        Strings `(B,)`, one sentence each, or `(B, T)`, one token each.

    Output shape:
        int32 `(B, T + 2, C)`, with T the tokens of the longest sentence, or of the input.

    Raises:
        ValueError: if the inputs are not strings of rank 1 or 2, or are strings in a model on a
            backend other than TensorFlow.

    Warns:
        UserWarning: if strings `(B, T)` look like sentences, since each is read as one token.

    Example:

    >>> UnicodeCharEncoder()(tf.constant(["ELMo reads bytes", "Hi"])).shape
    TensorShape([2, 5, 50])
    >>> dataset.map(UnicodeCharEncoder())  # strings in, character ids out

    Reference: BILM_TF.md, "Characters".
    """

    def __init__(self, max_characters_per_token: int = 50, **kwargs: Any):
        # A Sequential model takes its input's dtype from here.
        kwargs["dtype"] = "string"
        super().__init__(autocast=False, **kwargs)
        self.rules: TokenEncoder = ByteRules(max_characters_per_token)
        self.max_characters_per_token = self.rules.width
        self.supports_masking = True
        # XLA has no strings. On other backends a model never gets any.
        self.supports_jit = keras.backend.backend() != "tensorflow"

    @without_autograph
    def __call__(self, inputs, *args, **kwargs):
        inputs = read_batch(inputs)
        if isinstance(inputs, Sentences):
            rows, index = self.rules.encode_batch(inputs)
            return super().__call__(rows[index], *args, **kwargs)
        check_strings(inputs, type(self).__name__)
        if keras.backend.backend() != "tensorflow":
            return self.call(inputs)  # TensorFlow's own tensors, as in tf.data
        return super().__call__(inputs, *args, **kwargs)

    def call(self, inputs):
        if len(inputs.shape) == 3:
            return inputs  # ids of strings whose values were known
        import tensorflow as tf

        ids = tf.gather(*self.encode_distinct(inputs))
        return tf.ensure_shape(ids, self.compute_output_shape(inputs.shape))

    def encode_distinct(self, inputs: Any, widest_filter: int | None = None) -> DistinctWords:
        """Encodes TensorFlow string tensors as `encode_batch` of the layer's `rules` does.

        Args:
            inputs: As for a call of the layer.
            widest_filter: Width of the widest convolution that reads the rows: padding is truncated
                as far as no maximum over characters changes. `None` for whole rows.
        """
        import tensorflow as tf

        tokens = ragged_tokens(inputs)
        words, word_index = tf.unique(tokens.flat_values)
        special = self.rules.special_rows()
        rows = tf.concat([special, self._word_rows(words)], axis=0)
        if widest_filter is not None:
            inside = (rows != self.rules.padding) & (rows != 0)
            longest = tf.reduce_max(tf.where(inside, tf.range(1, rows.shape[1] + 1), 0))
            rows = rows[:, : longest + widest_filter]
        begin = tf.fill([tokens.nrows(), 1], 1)
        index = tokens.with_flat_values(word_index + len(special))
        index = tf.concat([begin, index, begin + 1], axis=1)
        if len(inputs.shape) == 1:
            num_tokens = tokens.bounding_shape(1, out_type=tf.int32)
        else:  # rows of tokens keep their width, however much of it is padding
            num_tokens = tf.shape(inputs)[1]
        index = index.to_tensor(shape=tf.stack([-1, num_tokens + 2]))
        shape = self.compute_output_shape(inputs.shape)
        return DistinctWords(rows, tf.ensure_shape(index, shape[:2]))

    def word_table(self) -> Any:
        """The TensorFlow lookup table of words that a SavedModel must track; here `None`."""

    def _word_rows(self, words):
        """Rows `(N, C)` of words `(N,)`."""
        import tensorflow as tf

        max_bytes = self.max_characters_per_token - 2
        text = valid_utf8(words)
        lengths = tf.minimum(tf.strings.length(text), max_bytes)
        ids = tf.cast(tf.io.decode_raw(text, tf.uint8, fixed_length=max_bytes), tf.int32)
        return delimited(ids + BYTE_OFFSET, lengths, BEGIN_WORD, END_WORD, WORD_PADDING)

    def compute_mask(self, inputs, mask=None):
        return TokenMask(boundaries=True)(inputs)

    def compute_output_shape(self, input_shape):
        num_tokens = input_shape[1] if len(input_shape) == 2 else None
        num_positions = None if num_tokens is None else num_tokens + 2
        return (input_shape[0], num_positions, self.rules.width)

    def compute_output_spec(self, inputs):
        return keras.KerasTensor(self.compute_output_shape(inputs.shape), "int32")

    def get_config(self):
        config = super().get_config()
        del config["dtype"]
        return {**config, "max_characters_per_token": self.max_characters_per_token}


def delimited(ids: Any, lengths: Any, begin: int, end: int, padding: int) -> Any:
    """As `add_boundaries`, in a TensorFlow graph: `lengths[i]` of each row of `ids` `(N, C)`."""
    import tensorflow as tf

    ids = tf.pad(ids, [[0, 0], [1, 1]])
    column, length = tf.range(tf.shape(ids)[1])[None], lengths[:, None]
    ids = tf.where(column == 0, begin, ids)
    ids = tf.where(column == length + 1, end, ids)
    return tf.where(column > length + 1, padding, ids)
