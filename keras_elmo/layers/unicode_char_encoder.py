"""Strings to character ids inside a TensorFlow graph or a tf.data pipeline."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_elmo.config import ElmoConfig
from keras_elmo.layers.placeholders import as_strings
from keras_elmo.text.characters import (
    BEGIN_WORD,
    BYTE_OFFSET,
    END_WORD,
    WORD_PADDING,
    ByteRules,
    DistinctWords,
    TokenRules,
    split_tokens,
)


@keras.saving.register_keras_serializable("keras_elmo")
class UnicodeCharEncoder(keras.layers.Layer):
    """Encodes strings as the character ids that ELMo reads.

    The same rows as `encode_sentences`, to the bit. String tensors, in a model or in
    `Dataset.map`, need TensorFlow; lists and NumPy arrays of strings are encoded on every backend.

    Args:
        max_characters_per_token: Characters of a token, its begin and end marks included.

    Call arguments:
        inputs: Strings. Sentences are split at ASCII white space; in a row of tokens, empty strings
            at the right end are padding, and so is what a ragged tensor lacks.

    Input shape:
        Strings `(B,)`, one sentence each, or `(B, T)`, one token each.

    Output shape:
        int32 `(B, T + 2, C)`, with T the tokens of the longest sentence, or of the input.

    Raises:
        ValueError: if the inputs are not strings, of another rank, or strings in a model on a
            backend other than TensorFlow.

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
        # Raises ValueError on a bad number.
        ElmoConfig(filters=None, max_characters_per_token=max_characters_per_token)
        self.max_characters_per_token = max_characters_per_token
        self.rules: TokenRules = ByteRules(max_characters_per_token)
        self.supports_masking = True
        # XLA has no strings. On other backends a model never gets any.
        self.supports_jit = keras.backend.backend() != "tensorflow"

    def build(self, input_shape=None):
        """Has no weights."""

    def __call__(self, inputs, *args, **kwargs):
        if is_python_strings(inputs):
            ids = self.rules.encode_sentences(token_lists(inputs))
            return ops.convert_to_tensor(as_wide_as(inputs, ids))
        if hasattr(inputs, "to_tensor"):  # ragged
            inputs = inputs.to_tensor()
        inputs = as_strings(inputs)
        check_string_tensor(inputs, "UnicodeCharEncoder")
        if keras.backend.backend() != "tensorflow":
            return self.call(inputs)  # TensorFlow's own tensors, as in tf.data
        return super().__call__(inputs, *args, **kwargs)

    def call(self, inputs):
        import tensorflow as tf

        ids = tf.gather(*self.encode_distinct(inputs))
        return tf.ensure_shape(ids, self.compute_output_shape(inputs.shape))

    def encode_distinct(self, inputs: Any, widest_filter: int | None = None) -> DistinctWords:
        """Encodes TensorFlow string tensors as `encode_distinct` of the layer's `rules` does.

        Args:
            inputs: As for a call of the layer.
            widest_filter: Width of the widest convolution that reads the rows: padding is truncated
                as far as no maximum over characters changes. `None` for whole rows.
        """
        import tensorflow as tf

        tokens = _ragged_tokens(inputs)
        words, places = tf.unique(tokens.flat_values)
        special = self.rules.special_rows()
        rows = tf.concat([special, self._word_rows(words)], axis=0)
        if widest_filter is not None:
            inside = (rows != self.rules.padding) & (rows != 0)
            longest = tf.reduce_max(tf.where(inside, tf.range(1, rows.shape[1] + 1), 0))
            rows = rows[:, : longest + widest_filter]
        begin = tf.fill([tokens.nrows(), 1], 1)
        places = tokens.with_flat_values(places + len(special))
        index = tf.concat([begin, places, begin + 1], axis=1)
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

        room = self.max_characters_per_token - 2
        text = tf.strings.unicode_transcode(words, "UTF-8", "UTF-8", errors="ignore")
        lengths = tf.minimum(tf.strings.length(text), room)
        ids = tf.cast(tf.io.decode_raw(text, tf.uint8, fixed_length=room), tf.int32) + BYTE_OFFSET
        return delimited(ids, lengths, BEGIN_WORD, END_WORD, WORD_PADDING)

    def compute_mask(self, inputs, mask=None):
        if isinstance(inputs, keras.KerasTensor):
            return None  # strings have no symbolic operations; the mask comes with the data
        return self.encode_distinct(inputs).index != 0

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
    """As `delimited_rows`, in a TensorFlow graph: `lengths[i]` of each row of `ids` `(N, C)`."""
    import tensorflow as tf

    ids = tf.pad(ids, [[0, 0], [1, 1]])
    column, length = tf.range(tf.shape(ids)[1])[None], lengths[:, None]
    ids = tf.where(column == 0, begin, ids)
    ids = tf.where(column == length + 1, end, ids)
    return tf.where(column > length + 1, padding, ids)


def is_python_strings(inputs: Any) -> bool:
    """Whether `inputs` are `str`, `bytes`, or lists or NumPy arrays of them."""
    if isinstance(inputs, np.ndarray):
        is_string = isinstance(next(inputs.flat, None), (str, bytes))
        return inputs.dtype.kind in "SUT" or (inputs.dtype.kind == "O" and is_string)
    if isinstance(inputs, (list, tuple)):
        return len(inputs) == 0 or any(map(is_python_strings, inputs))
    return isinstance(inputs, (str, bytes))


def token_lists(strings: Any) -> list[list[str | bytes]]:
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
        return [[*split_tokens(sentence)] for sentence in strings]
    if not all(isinstance(sentence, (list, tuple)) for sentence in strings):
        raise ValueError(
            "Expected either sentences, a list of strings, or tokens, a list of lists of strings; "
            f"got {strings[:3]!r}."
        )
    return list(map(_without_padding, strings))


def as_wide_as(strings: Any, ids: np.ndarray) -> np.ndarray:
    """Ids `(B, T + 2, ...)` of strings, with the padding that a NumPy array `(B, T)` ends in."""
    if not isinstance(strings, np.ndarray) or strings.ndim != 2:
        return ids
    missing = strings.shape[1] + 2 - ids.shape[1]
    return np.pad(ids, ((0, 0), (0, missing)) + ((0, 0),) * (ids.ndim - 2))


def _without_padding(tokens):
    last = max((i for i, token in enumerate(tokens) if token not in ("", b"")), default=-1)
    return list(tokens[: last + 1])


def check_string_tensor(inputs: Any, name: str) -> None:
    """Raises ValueError unless `inputs` is a string tensor of rank 1 or 2 that can be read here."""
    shape, dtype = getattr(inputs, "shape", None), getattr(inputs, "dtype", None)
    dtype = str(getattr(dtype, "name", dtype))
    if shape is None or dtype != "string" or len(shape) not in (1, 2):
        found = (
            type(inputs).__name__ if shape is None else f"dtype {dtype} and shape {tuple(shape)}"
        )
        raise ValueError(
            f"{name} expects strings of shape (B,), a sentence each, or (B, T), a token each; got "
            f"{found}."
        )
    if isinstance(inputs, keras.KerasTensor) and keras.backend.backend() != "tensorflow":
        raise ValueError(
            f"{name} cannot take strings inside a model on the {keras.backend.backend()} backend. "
            "Give the model character ids, keras.Input((None, 50), dtype='int32'), made with "
            "keras_elmo.encode_sentences or, in tf.data, with UnicodeCharEncoder."
        )


def _ragged_tokens(strings):
    """The tokens of each sentence, a ragged tensor `(B, None)`."""
    import tensorflow as tf

    if len(strings.shape) == 1:
        return tf.strings.split(strings)
    position = tf.range(1, tf.shape(strings)[1] + 1)
    lengths = tf.reduce_max(tf.where(strings != "", position, 0), axis=1)
    # The maximum of no tokens at all is not 0.
    return tf.RaggedTensor.from_tensor(strings, tf.maximum(lengths, 0), row_splits_dtype=tf.int32)
