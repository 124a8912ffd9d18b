"""Rows of a table, with a dense gradient."""

from typing import Any

import keras
from keras import ops

from keras_elmo.ops.custom_gradient import call_with_gradient


def gather(table: Any, ids: Any) -> Any:
    """Rows `(..., D)` of a table `(N, D)` at integer ids `(...)`.

    The gradient is dense, and summed in no less than float32: in half precision the sum over a row
    that is taken often stops growing. TensorFlow's own is a list of rows that may repeat: clipping
    by norm and Adagrad's squares would take each repetition by itself instead of their sum.
    """
    table, ids = ops.convert_to_tensor(table), ops.convert_to_tensor(ids)
    return call_with_gradient(_take, _take_gradient, None, table, ids)[0]


def nan_unless(valid: Any, x: Any) -> Any:
    """Vectors `(..., D)`, NaN where `valid`, booleans `(...)`, is `False`.

    For ids that do not exist: backends would clip them, or count them from the end of a table.
    """
    return ops.where(ops.expand_dims(valid, -1), x, float("nan"))


def float32_at_least(dtype: Any) -> str:
    """The dtype of floats, but float32 for half precision, in which long sums lose accuracy."""
    name = keras.backend.standardize_dtype(dtype)
    return "float32" if name in ("float16", "bfloat16") else name


def _take(spec, table, ids):
    return (ops.take(table, ids, axis=0),), (table, ids)


def _take_gradient(spec, saved, upstream):
    table, ids = saved
    dtype = float32_at_least(table.dtype)
    rows = ops.reshape(ops.cast(upstream[0], dtype), (-1, ops.shape(table)[1]))
    total = ops.segment_sum(rows, ops.reshape(ids, (-1,)), num_segments=ops.shape(table)[0])
    return ops.cast(total, table.dtype), None
