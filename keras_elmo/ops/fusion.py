"""Element-wise functions that read and write each array once."""

import functools
from collections.abc import Callable, Hashable
from typing import Any

import keras


def fused(function: Callable, spec: Hashable, *args: Any) -> Any:
    """Calls an element-wise function of tensors, compiled by XLA where the backend would not.

    `function` takes `(spec, *args)` and is compiled for each spec and the shapes of the tensors. A
    TensorFlow graph reads and writes whole arrays for each operation, and on a CPU spends most of
    the time of an LSTM's gates on that. JAX compiles everything; PyTorch calls it uncompiled.
    """
    if keras.backend.backend() != "tensorflow" or not _has_xla():
        return function(spec, *args)
    return _compiled(function, spec)(*args)


@functools.cache
def _compiled(function, spec):
    import tensorflow as tf

    return tf.function(functools.partial(function, spec), jit_compile=True, autograph=False)


@functools.cache
def _has_xla():
    """Whether this build of TensorFlow compiles for the CPU by XLA."""
    import tensorflow as tf

    try:
        with tf.init_scope():
            tf.function(lambda x: x + 1, jit_compile=True)(tf.constant(0.0))
    except tf.errors.OpError:
        return False
    return True
