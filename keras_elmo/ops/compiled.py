"""Functions of tensors, compiled."""

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import keras
from keras import ops


class CompiledFunction:
    """A function of tensors and variables, compiled.

    It computes with the current values of the variables. Threads can share it, which Keras'
    `predict` does not allow.

    Args:
        function: Takes tensors, returns a tensor or a nested structure of tensors. Its last
            arguments may be optional.
        variables: The Keras variables that it reads.
        *signature: Shape, with `None` for sizes that vary, and dtype of each argument.
    """

    def __init__(self, function: Callable, variables: list, *signature: tuple) -> None:
        make = {"tensorflow": _tensorflow_call, "jax": _jax_call, "torch": _torch_call}
        self._call = make[keras.backend.backend()](function, variables, signature)

    def __call__(self, *arrays: Any) -> Any:
        """The function's result on NumPy arrays or tensors; JAX may still be computing it."""
        return self._call(*map(ops.convert_to_tensor, arrays))


def without_autograph(function: Callable) -> Callable:
    """Decorates a function that TensorFlow need not rewrite, which would take most of a trace."""
    if keras.backend.backend() != "tensorflow":
        return function
    import tensorflow as tf

    return tf.autograph.experimental.do_not_convert(function)


def one_ahead(
    started: Iterable[tuple[Any, Callable[[], Any]]],
) -> Iterator[tuple[Any, Any]]:
    """Yields each key with what its function returns, which may wait for the device.

    Each pair is taken from `started` before the function of the one before it is called: the device
    then works while the results are used.
    """
    end: list[Any] = [None]
    for (key, wait), _ in itertools.pairwise(itertools.chain(started, end)):
        yield key, wait()


def _tensorflow_call(function, variables, signature):
    import tensorflow as tf

    specs = [tf.TensorSpec(*argument) for argument in signature]
    graph = tf.function(function, autograph=False)
    # Called directly, TensorFlow would warn of many functions.
    traced = functools.cache(lambda count: graph.get_concrete_function(*specs[:count]))
    return lambda *tensors: traced(len(tensors))(*tensors)


def _jax_call(function, variables, signature):
    import jax

    @jax.jit
    def on_values(values, *tensors):
        with keras.StatelessScope(zip(variables, values)):
            return function(*tensors)

    return lambda *tensors: on_values([variable.value for variable in variables], *tensors)


def _torch_call(function, variables, signature):
    import torch

    return torch.no_grad()(function)
