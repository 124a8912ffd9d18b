"""Random initializers, which draw nothing where the weights of a file follow."""

import contextlib
import contextvars
from collections.abc import Iterator

import keras

_WEIGHTS_FOLLOW = contextvars.ContextVar("weights_follow", default=False)


@contextlib.contextmanager
def weights_follow() -> Iterator[None]:
    """Layers that are built in this block begin with zeros: drawing takes as long as loading."""
    token = _WEIGHTS_FOLLOW.set(True)
    try:
        yield
    finally:
        _WEIGHTS_FOLLOW.reset(token)


def uniform(limit: float) -> keras.initializers.Initializer:
    """Uniform between -limit and limit."""
    return _drawn(keras.initializers.RandomUniform(-limit, limit))


def normal(stddev: float) -> keras.initializers.Initializer:
    """Normal around 0."""
    return _drawn(keras.initializers.RandomNormal(stddev=stddev))


def glorot_uniform() -> keras.initializers.Initializer:
    """Uniform, by the numbers of inputs and outputs."""
    return _drawn(keras.initializers.GlorotUniform())


def _drawn(initializer):
    return keras.initializers.Zeros() if _WEIGHTS_FOLLOW.get() else initializer
