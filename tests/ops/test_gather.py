"""Rows of a table, and their gradient, on the backend of this run."""

import keras
import numpy as np
import pytest
from keras import ops

from helpers import to_numpy
from keras_elmo.ops import gather as gather_module
from keras_elmo.ops.gather import gather


class Scaled(keras.layers.Layer):
    """Rows of a table of its own, of which any backend gives the gradient by a step of training."""

    def __init__(self, table, dtype):
        super().__init__()
        self.table = self.add_weight(table.shape, dtype="float32")
        self.table.assign(table)
        self.gathered_in = dtype

    def call(self, ids):
        rows = gather(ops.cast(self.table, self.gathered_in), ids)
        return ops.sum(ops.cast(rows, "float32"), axis=(1, 2))[:, None]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_the_gradient_counts_every_repetition(dtype):
    """In half precision a sum of ones stops at 256 or 2,048."""
    table = np.arange(12, dtype="float32").reshape(4, 3) / 16
    ids = np.array([20_000 * [1] + 3 * [3] + [0]], "int32")
    layer = Scaled(table, dtype)
    model = keras.Sequential([keras.Input((None,), dtype="int32"), layer])
    model.compile(keras.optimizers.SGD(1.0), loss=lambda true, found: found)
    model.train_on_batch(ids, np.zeros((1, 1)))
    found = (table - to_numpy(layer.table))[:, 0]
    np.testing.assert_allclose(found, [1, 20_000, 0, 3], rtol=5e-3, atol=1e-4)


def test_rows_of_any_shape():
    table = np.random.default_rng(0).normal(size=(5, 2)).astype("float32")
    ids = np.array([[[4], [0]], [[2], [2]]], "int64")
    np.testing.assert_array_equal(to_numpy(gather(table, ids)), table[ids])


def test_the_gradient_in_double_precision(rng):
    if keras.backend.backend() != "tensorflow":
        pytest.skip("JAX has no float64 by itself, and Keras' segment_sum on PyTorch sums float32")
    weights, ids = rng.normal(size=(5, 3)), np.array([1, 3, 1, 1, 0], "int32")
    expected = np.zeros((4, 3))
    np.add.at(expected, ids, weights)
    saved = ops.zeros((4, 3), "float64"), ops.convert_to_tensor(ids)
    upstream = (ops.convert_to_tensor(weights, "float64"),)
    gradient = gather_module._take_gradient(None, saved, upstream)[0]
    np.testing.assert_allclose(ops.convert_to_numpy(gradient), expected, rtol=1e-14)
