"""Strings to character ids inside a TensorFlow graph or a tf.data pipeline."""

import keras
import numpy as np
from keras import ops

from keras_elmo.config import MIN_CHARACTERS_PER_TOKEN
from keras_elmo.text.characters import (
    BEGIN_SENTENCE,
    BEGIN_WORD,
    BYTE_OFFSET,
    END_SENTENCE,
    END_WORD,
    WORD_PADDING,
    boundary_row,
    encode_sentences,
    split_tokens,
)


@keras.saving.register_keras_serializable("keras_elmo")
class UnicodeCharEncoder(keras.layers.Layer):
    """Encodes strings as the character ids that ELMo reads.

    The same rows as `encode_sentences`, to the bit. String tensors, in a model or in
    `Dataset.map`, need TensorFlow, whatever the Keras backend; lists and NumPy arrays of strings
    are encoded on every backend.

    Args:
        max_characters_per_token: Characters of a token, its begin and end marks included.

    Call arguments:
        inputs: Strings. Sentences are split at ASCII white space; in a row of tokens, empty strings
            at the right end are padding.

    Input shape:
        Strings `(B,)`, one sentence each, or `(B, T)`, one token each.

    Output shape:
        int32 `(B, T + 2, C)`, with T the tokens of the longest sentence, or of the input.

    Raises:
        ValueError: if the inputs are no strings, of another rank, or strings in a model on a
            backend other than TensorFlow.

    Example:

    >>> UnicodeCharEncoder()(tf.constant(["ELMo reads bytes", "Hi"])).shape
    TensorShape([2, 5, 50])
    >>> dataset.map(UnicodeCharEncoder())  # strings in, character ids out

    Reference: BILM_TF.md, "Characters".
    """

    def __init__(self, max_characters_per_token=50, **kwargs):
        # A Sequential model takes its input's dtype from here.
        kwargs["dtype"] = "string"
        super().__init__(autocast=False, **kwargs)
        if max_characters_per_token < MIN_CHARACTERS_PER_TOKEN:
            raise ValueError(
                f"max_characters_per_token must be at least {MIN_CHARACTERS_PER_TOKEN}; "
                f"got {max_characters_per_token!r}."
            )
        self.max_characters_per_token = max_characters_per_token
        self.supports_masking = True
        # XLA has no strings; a model of another backend never gets any.
        self.supports_jit = keras.backend.backend() != "tensorflow"

    def build(self, input_shape=None):
        """Has no weights."""

    def __call__(self, inputs, *args, **kwargs):
        if is_python_strings(inputs):
            sentences = token_lists(inputs)
            return ops.convert_to_tensor(encode_sentences(sentences, self.max_characters_per_token))
        check_string_tensor(inputs, "UnicodeCharEncoder")
        if keras.backend.backend() != "tensorflow":
            return self.call(inputs)  # TensorFlow's own tensors, as in tf.data
        return super().__call__(inputs, *args, **kwargs)

    def call(self, inputs):
        import tensorflow as tf

        tokens, lengths = _tokens_and_lengths(inputs)
        num_tokens = tf.shape(tokens)[1]
        rows = tf.reshape(
            self._token_rows(tf.reshape(tokens, [-1])),
            [-1, num_tokens, self.max_characters_per_token],
        )
        rows = tf.pad(rows, [[0, 0], [1, 1], [0, 0]])
        position = tf.range(num_tokens + 2)[None, :, None]
        last = lengths[:, None, None] + 1
        width = self.max_characters_per_token
        rows = tf.where(position == 0, boundary_row(BEGIN_SENTENCE, width), rows)
        rows = tf.where(position == last, boundary_row(END_SENTENCE, width), rows)
        rows = tf.where(position > last, 0, rows)
        return tf.ensure_shape(rows, self.compute_output_shape(inputs.shape))

    def encode_distinct(self, inputs, widest_filter):
        """Encodes each distinct word once, which saves most of the work behind.

        Args:
            inputs: As for `call`, inside TensorFlow.
            widest_filter: Width of the widest convolution that is to read them. Characters are cut
                to the longest word and so much more, which changes no result of its maximum.

        Returns:
            Character ids int32 `(U + 2, C')` of the sentence's boundaries and U distinct words,
            the place of each position's word among them, int32 `(B, T + 2)`, and the mask
            `(B, T + 2)`.
        """
        import tensorflow as tf

        tokens, lengths = _tokens_and_lengths(inputs)
        num_tokens = tf.shape(tokens)[1]
        words, index = tf.unique(tf.reshape(tokens, [-1]))
        width = self.max_characters_per_token
        marks = (BEGIN_SENTENCE, END_SENTENCE)
        boundaries = np.stack([boundary_row(mark, width) for mark in marks])
        rows = tf.concat([boundaries, self._token_rows(words)], axis=0)
        longest = tf.reduce_max(tf.reduce_sum(tf.cast(rows != WORD_PADDING, tf.int32), axis=1))
        rows = rows[:, : tf.minimum(longest + widest_filter, width)]
        index = tf.pad(tf.reshape(index, [-1, num_tokens]) + 2, [[0, 0], [1, 1]])
        position = tf.range(num_tokens + 2)[None]
        index = tf.where(position == lengths[:, None] + 1, 1, index)
        index = tf.ensure_shape(index, self.compute_output_shape(inputs.shape)[:2])
        return rows, index, tf.sequence_mask(lengths + 2, num_tokens + 2)

    def _token_rows(self, tokens):
        """Rows `(N, C)` of flat tokens `(N,)`."""
        import tensorflow as tf

        room = self.max_characters_per_token - 2
        text = tf.strings.unicode_transcode(tokens, "UTF-8", "UTF-8", errors="ignore")
        length = tf.minimum(tf.strings.length(text), room)[:, None]
        ids = tf.cast(tf.io.decode_raw(text, tf.uint8, fixed_length=room), tf.int32) + BYTE_OFFSET
        ids = tf.pad(ids, [[0, 0], [1, 1]])
        column = tf.range(self.max_characters_per_token)[None]
        ids = tf.where(column == 0, BEGIN_WORD, ids)
        ids = tf.where(column == length + 1, END_WORD, ids)
        return tf.where(column > length + 1, WORD_PADDING, ids)

    def compute_mask(self, inputs, mask=None):
        if isinstance(inputs, keras.KerasTensor):
            return None  # strings have no symbolic operations; the mask comes with the data
        import tensorflow as tf

        tokens, lengths = _tokens_and_lengths(inputs)
        return tf.sequence_mask(lengths + 2, tf.shape(tokens)[1] + 2)

    def compute_output_shape(self, input_shape):
        num_tokens = input_shape[1] if len(input_shape) == 2 else None
        return (
            input_shape[0],
            None if num_tokens is None else num_tokens + 2,
            self.max_characters_per_token,
        )

    def compute_output_spec(self, inputs):
        return keras.KerasTensor(self.compute_output_shape(inputs.shape), "int32")

    def get_config(self):
        config = {
            **super().get_config(),
            "max_characters_per_token": self.max_characters_per_token,
        }
        del config["dtype"]
        return config


def is_python_strings(inputs):
    """Whether `inputs` are strings outside any framework: `str`, lists or NumPy arrays of them."""
    if isinstance(inputs, np.ndarray):
        return inputs.dtype.kind in "SUT" or (
            inputs.dtype.kind == "O" and isinstance(next(inputs.flat, None), (str, bytes))
        )
    if isinstance(inputs, (list, tuple)):
        return len(inputs) == 0 or any(map(is_python_strings, inputs))
    return isinstance(inputs, (str, bytes))


def token_lists(strings):
    """Lists of tokens from Python or NumPy strings, under the rules for string tensors."""
    if isinstance(strings, (str, bytes)):
        raise ValueError(
            f"Expected a batch of strings, got the single string {strings[:60]!r}. Put it into a "
            "list: [sentence]."
        )
    strings = strings.tolist() if isinstance(strings, np.ndarray) else list(strings)
    if not strings:
        raise ValueError("Expected at least one sentence, got an empty list.")
    if all(isinstance(sentence, (str, bytes)) for sentence in strings):
        return [split_tokens(sentence) for sentence in strings]
    if not all(isinstance(sentence, (list, tuple)) for sentence in strings):
        raise ValueError(
            "Expected either sentences, a list of strings, or tokens, a list of lists of strings; "
            f"got {strings[:3]!r}."
        )
    return [_without_padding(sentence) for sentence in strings]


def _without_padding(tokens):
    tokens = list(tokens)
    while tokens and tokens[-1] in ("", b""):
        tokens.pop()
    return tokens


def check_string_tensor(inputs, name):
    """Raises ValueError unless `inputs` is a string tensor of rank 1 or 2 that can be read here."""
    dtype = str(getattr(getattr(inputs, "dtype", None), "name", getattr(inputs, "dtype", "")))
    rank = len(inputs.shape) if getattr(inputs, "shape", None) is not None else None
    if dtype != "string" or rank not in (1, 2):
        raise ValueError(
            f"{name} expects strings of shape (B,), a sentence each, or (B, T), a token each; got "
            f"{_described(inputs, dtype)}."
        )
    if isinstance(inputs, keras.KerasTensor) and keras.backend.backend() != "tensorflow":
        raise ValueError(
            f"{name} cannot take strings inside a model on the {keras.backend.backend()} backend. "
            "Give the model character ids, keras.Input((None, 50), dtype='int32'), made with "
            "keras_elmo.encode_sentences or, in tf.data, with UnicodeCharEncoder."
        )


def _described(inputs, dtype):
    if not dtype:
        return f"{type(inputs).__name__}"
    return f"dtype {dtype} and shape {tuple(inputs.shape)}"


def _tokens_and_lengths(strings):
    """Tokens `(B, T)`, padded with empty strings, and the number of tokens in each row `(B,)`."""
    import tensorflow as tf

    if len(strings.shape) == 1:
        ragged = tf.strings.split(strings)
        return ragged.to_tensor(), tf.cast(ragged.row_lengths(), tf.int32)
    position = tf.range(1, tf.shape(strings)[1] + 1)
    lengths = tf.reduce_max(tf.where(strings != "", position, 0), axis=1)
    return strings, tf.maximum(lengths, 0)  # the maximum of no tokens at all is no zero
