"""Functions of tensors, compiled for NumPy arrays."""

import functools
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops, tree


class CompiledFunction:
    """A function of tensors and variables, compiled, as a function of NumPy arrays.

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

    def __call__(self, *arrays: np.ndarray) -> Any:
        """The function's result on these arrays, as NumPy arrays."""
        outputs = self._call(*map(ops.convert_to_tensor, arrays))
        return tree.map_structure(ops.convert_to_numpy, outputs)


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
