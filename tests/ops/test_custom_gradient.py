"""Functions with a custom gradient, on the backend of this run."""

import gc
import weakref

from helpers import tensorflow_only
from keras_elmo.ops.gather import gather


@tensorflow_only
def test_a_graph_is_freed():
    import tensorflow as tf

    def graph():
        table = tf.Variable(tf.ones((4, 3)))

        @tf.function
        def gradient(ids):
            with tf.GradientTape() as tape:
                rows = gather(table, ids)
            return tape.gradient(rows, table)

        return weakref.ref(gradient.get_concrete_function(tf.TensorSpec([None], "int32")).graph)

    deleted = graph()
    gc.collect()
    assert deleted() is None
