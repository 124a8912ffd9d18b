"""The dtype of long sums."""

from typing import Any

import keras


def float32_at_least(dtype: Any) -> str:
    """The dtype of floats, but float32 for half precision, in which long sums lose accuracy."""
    name = keras.backend.standardize_dtype(dtype)
    return "float32" if name in ("float16", "bfloat16") else name
