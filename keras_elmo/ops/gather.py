"""Rows of a table, with a dense gradient."""

from typing import Any

from keras import ops

from keras_elmo.ops.custom_gradient import call_with_gradient
from keras_elmo.ops.dtypes import float32_at_least


def gather(table: Any, ids: Any) -> Any:
    """Rows `(..., D)` of a table `(N, D)` at integer ids `(...)`.

    The gradient is dense, and summed in no less than float32: in half precision the sum over a row
    that is taken often stops growing. TensorFlow's own is a list of rows that may repeat: clipping
    by norm and Adagrad's squares would take each repetition by itself instead of their sum.
    """
    table, ids = ops.convert_to_tensor(table), ops.convert_to_tensor(ids)
    return call_with_gradient(_take, _take_gradient, None, table, ids)[0]


def _take(spec, table, ids):
    return (ops.take(table, ids, axis=0),), (table, ids)


def _take_gradient(spec, saved, upstream):
    table, ids = saved
    dtype = float32_at_least(table.dtype)
    rows = ops.reshape(ops.cast(upstream[0], dtype), (-1, ops.shape(table)[1]))
    total = ops.segment_sum(rows, ops.reshape(ids, (-1,)), num_segments=ops.shape(table)[0])
    return ops.cast(total, table.dtype), None
