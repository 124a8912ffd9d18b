"""The values of tensors, if they are known."""

from typing import Any

import keras
import numpy as np
from keras import ops


def known_values(x: Any) -> np.ndarray | None:
    """A tensor's values; `None` while a function is traced or compiled, where it has none."""
    if isinstance(x, keras.KerasTensor):
        return None
    if keras.backend.backend() == "jax":
        import jax

        is_known = not isinstance(x, jax.core.Tracer)
    elif keras.backend.backend() == "torch":
        import torch

        is_meta = getattr(getattr(x, "device", None), "type", "") == "meta"
        is_known = not is_meta and not torch.compiler.is_compiling()
    else:
        is_known = isinstance(x, np.ndarray) or hasattr(x, "numpy")
    return ops.convert_to_numpy(x) if is_known else None


def nan_unless(valid: Any, x: Any) -> Any:
    """Vectors `(..., D)`, NaN where `valid`, booleans `(...)`, is `False`.

    For ids that do not exist: backends would clip them, or count them from the end of a table.
    """
    return ops.where(ops.expand_dims(valid, -1), x, float("nan"))
