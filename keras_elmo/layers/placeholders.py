"""The floats with which Keras builds a subclassed model, whatever its inputs are."""

from typing import Any

import keras
from keras import ops


def as_ids(inputs: Any) -> Any:
    """The inputs; int32 in place of such floats."""
    return ops.cast(inputs, "int32") if _are_placeholders(inputs) else inputs


def checked_ids(inputs: Any, expected: str, made_with: str) -> Any:
    """The inputs as int32. Raises ValueError, naming the `expected` ones, if not integers."""
    inputs = as_ids(inputs)
    if not keras.backend.is_int_dtype(inputs.dtype):
        dtype, shape = keras.backend.standardize_dtype(inputs.dtype), tuple(inputs.shape)
        raise ValueError(f"{expected}, got dtype {dtype} and shape {shape}. Use {made_with}.")
    return ops.cast(inputs, "int32")


def as_strings(inputs: Any) -> Any:
    """The inputs; TensorFlow strings in place of such floats."""
    if not _are_placeholders(inputs):
        return inputs
    import tensorflow as tf

    return tf.strings.as_string(inputs)


def _are_placeholders(inputs):
    dtype = getattr(inputs, "dtype", None)
    if dtype is None or not keras.backend.is_float_dtype(str(getattr(dtype, "name", dtype))):
        return False
    with keras.SymbolicScope() as scope:
        return scope.original_scope is not None  # Keras is building within one
