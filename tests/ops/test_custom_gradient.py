"""Functions with a custom gradient, on the backend of this run."""

import gc
import weakref

from helpers import tensorflow_only
from keras_elmo.ops.gather import gather


@tensorflow_only
def test_a_graph_is_freed():
    import tensorflow as tf

    def graph():
        function = tf.function(lambda ids: gather(tf.ones((4, 3)), ids))
        return weakref.ref(function.get_concrete_function(tf.TensorSpec([None], "int32")).graph)

    deleted = graph()
    gc.collect()
    assert deleted() is None
