"""The floats by which Keras builds a subclassed model, whatever its inputs are."""

from typing import Any

import keras
from keras import ops


def as_ids(inputs: Any) -> Any:
    """The inputs; int32 in the place of such floats."""
    return ops.cast(inputs, "int32") if _are_placeholders(inputs) else inputs


def as_strings(inputs: Any) -> Any:
    """The inputs; strings of TensorFlow in the place of such floats."""
    if not _are_placeholders(inputs):
        return inputs
    import tensorflow as tf

    return tf.strings.as_string(inputs)


def _are_placeholders(inputs):
    with keras.SymbolicScope() as scope:
        is_building = scope.original_scope is not None
    dtype = getattr(inputs, "dtype", None)
    return is_building and keras.backend.is_float_dtype(str(getattr(dtype, "name", dtype)))
