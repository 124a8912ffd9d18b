"""The mask of a batch of sentences, also in the graph of a Functional model."""

from typing import Any

import keras
from keras import ops

from keras_elmo.text.tokens import dense, is_string_tensor


@keras.saving.register_keras_serializable("keras_elmo")
class TokenMask(keras.Operation):
    """Marks the positions of a batch, in any form that `ElmoLayer` reads, that are not padding.

    A Functional model stores masks as operations of its graph. Without a mask at that time, a layer
    that merges several inputs, such as `Concatenate`, would take all positions for tokens.

    The output is booleans `(B, T)`, or `(B, T + 2)` where the `boundaries` count too.
    """

    def __init__(self, boundaries: bool = False, *, name: str | None = None):
        super().__init__(name=name)
        self.boundaries = boundaries

    def call(self, inputs: Any) -> Any:
        inputs = dense(inputs)
        if is_string_tensor(inputs):
            mask = _mask_of_strings(inputs)
        else:
            mask = ops.not_equal(inputs, 0)
            mask = ops.any(mask, axis=-1) if len(inputs.shape) == 3 else mask
        return mask if self.boundaries else mask_of_tokens(mask)

    def compute_output_spec(self, inputs: Any) -> keras.KerasTensor:
        batch_size, *rest = inputs.shape
        num_positions = rest[0] if rest else None
        if num_positions is not None:
            num_positions += 2 * is_string_tensor(inputs)  # ids have the boundaries already
            num_positions -= 2 * (not self.boundaries)
        return keras.KerasTensor((batch_size, num_positions), "bool")


def mask_of_tokens(mask: Any) -> Any:
    """The mask `(B, T)` of tokens, from that of tokens and boundaries `(B, T + 2)`."""
    # The begin of a sentence is at the first position, the end at the last valid one. This equals
    # mask[:, 2:], but in an export JAX would not know that vectors[:, 1:-1] have the same length.
    return ops.roll(mask, -1, axis=1)[:, 1:-1]


def ragged_tokens(strings: Any) -> Any:
    """The tokens of sentences `(B,)` or of rows of tokens `(B, T)`, a ragged tensor `(B, None)`."""
    import tensorflow as tf

    if len(strings.shape) == 1:
        return tf.strings.split(valid_utf8(strings))
    position = tf.range(1, tf.shape(strings)[1] + 1)
    lengths = tf.reduce_max(tf.where(strings != "", position, 0), axis=1)
    # The maximum of no tokens at all is not 0.
    return tf.RaggedTensor.from_tensor(strings, tf.maximum(lengths, 0), row_splits_dtype=tf.int32)


def valid_utf8(strings: Any) -> Any:
    """TensorFlow strings without malformed bytes, like `token_bytes`."""
    import tensorflow as tf

    return tf.strings.unicode_transcode(strings, "UTF-8", "UTF-8", errors="ignore")


def _mask_of_strings(strings):
    """Booleans `(B, T + 2)`."""
    import tensorflow as tf

    # In a graph of one sentence, Keras' recurrent layers would broadcast a mask of unknown height.
    lengths = tf.ensure_shape(ragged_tokens(strings).row_lengths(), strings.shape[:1]) + 2
    # Rows of tokens keep their width, however much of it is padding.
    width = tf.shape(strings)[1] + 2 if len(strings.shape) == 2 else None
    return tf.sequence_mask(lengths, width)
