"""Warnings that point to the line of the user's program."""

import inspect
import warnings

_PACKAGES = ("keras_elmo", "keras", "tensorflow", "torch", "jax")


def warn(message: str) -> None:
    """Warns at the line that called this package, directly or through Keras and its backend."""
    frame, level = inspect.currentframe(), 1
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in _PACKAGES:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, UserWarning, stacklevel=level)
