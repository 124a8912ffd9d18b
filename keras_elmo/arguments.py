"""Checks of arguments, one for each type; each raises a ValueError that names the argument."""

import contextlib
import math
import numbers
from typing import Any

import numpy as np

VECTOR_KINDS = ("mix", "layers", "top", "average", "sum", "concat")
"""What `vectors=` may be, beside the number of a layer."""


def check_integer(name: str, value: Any, least: int, most: int | None = None) -> int:
    """The value as an `int`, if it is an integer from `least` to `most`; a boolean is none."""
    is_integer = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not is_integer or value < least or (most is not None and value > most):
        limits = f"of at least {least:,}" if most is None else f"from {least:,} to {most:,}"
        raise ValueError(f"{name} must be an integer {limits}; got {value!r:.200}.")
    return int(value)


def check_number(
    name: str,
    value: Any,
    *,
    least: float = -math.inf,
    above: float = -math.inf,
    below: float = math.inf,
) -> float:
    """The value as a `float`, if it is a finite number in the given range; a boolean is none."""
    number = math.nan
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        with contextlib.suppress(OverflowError):
            number = float(value)
    if not (math.isfinite(number) and number >= least and above < number < below):
        bounds = {"of at least": least, "above": above, "below": below}
        limits = " and ".join(f"{text} {x:g}" for text, x in bounds.items() if math.isfinite(x))
        limits = limits or "that is finite"
        raise ValueError(f"{name} must be a number {limits}; got {value!r:.200}.")
    return number


def check_boolean(name: str, value: Any) -> bool:
    """The value as a `bool`, if it is one."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False; got {value!r:.200}.")
    return bool(value)


def check_mix_weights(name: str, value: Any, num_layers: int) -> np.ndarray:
    """The shares of the layers in a mix, after the softmax, float64 `(num_layers,)`."""
    shares = np.zeros(0)
    with contextlib.suppress(TypeError, ValueError):
        shares = np.array(value, np.float64)
    is_valid = shares.shape == (num_layers,) and (shares >= 0).all()
    if not is_valid or abs(shares.sum() - 1) > 1e-5:
        raise ValueError(
            f"{name} must be {num_layers} numbers of at least 0 with the sum 1, the weights after "
            f"the softmax; got {value!r:.200}."
        )
    return shares


def check_vectors(vectors: Any, num_layers: int | None = None) -> str | int:
    """The kind of vectors, one of `VECTOR_KINDS`, or the number of a layer, 0 to `num_layers`.

    `None` is for a model that is not loaded yet.
    """
    if isinstance(vectors, str) and vectors in VECTOR_KINDS:
        return vectors
    is_integer = isinstance(vectors, numbers.Integral) and not isinstance(vectors, bool)
    largest = math.inf if num_layers is None else num_layers
    if not (is_integer and 0 <= vectors <= largest):
        kinds = ", ".join(map(repr, VECTOR_KINDS))
        layers = "0 or more" if num_layers is None else f"0 to {num_layers}"
        raise ValueError(
            f"vectors must be {kinds} or the number of a layer, {layers}; got {vectors!r:.200}."
        )
    return int(vectors)
