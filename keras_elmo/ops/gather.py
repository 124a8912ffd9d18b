"""Rows of a table, with a dense gradient."""

from typing import Any

import keras
from keras import ops


def gather(table: Any, ids: Any) -> Any:
    """Rows of a table at integer ids, with a gradient that every optimizer handles correctly.

    The gradient is dense. TensorFlow's own is a list of rows that may repeat: clipping by norm and
    Adagrad's squares would take each repetition by itself instead of their sum.

    Args:
        table: Tensor or variable `(N, D)`.
        ids: Integers `(...)`.

    Returns:
        Tensor `(..., D)`.
    """
    if keras.backend.backend() != "tensorflow":
        return ops.take(table, ids, axis=0)
    import tensorflow as tf

    @tf.custom_gradient
    def take(table):
        def gradient(upstream):
            return tf.math.unsorted_segment_sum(upstream, ids, tf.shape(table)[0])

        return tf.gather(table, ids), gradient

    ids = tf.convert_to_tensor(ids)
    return take(tf.convert_to_tensor(ops.convert_to_tensor(table)))
