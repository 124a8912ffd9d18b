"""Rows of a table, with a dense gradient."""

from typing import Any

import keras
from keras import ops


def gather(table: Any, ids: Any) -> Any:
    """Rows `(..., D)` of a table `(N, D)` at integer ids `(...)`.

    The gradient is dense. TensorFlow's own is a list of rows that may repeat: clipping by norm and
    Adagrad's squares would take each repetition by itself instead of their sum.
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
