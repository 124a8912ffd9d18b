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


@tensorflow_only
def test_each_call_has_a_graph_of_its_own():
    """Since tf2onnx changes a graph as it converts it, no other call may use it."""
    import tensorflow as tf

    graph = tf.function(lambda table, ids: gather(table, ids) + gather(table, ids))
    specs = tf.TensorSpec([4, 3]), tf.TensorSpec([None], "int32")
    operations = graph.get_concrete_function(*specs).graph.get_operations()
    called = [operation.get_attr("f").name for operation in operations if "Call" in operation.type]
    assert len(called) == len(set(called)) == 2
