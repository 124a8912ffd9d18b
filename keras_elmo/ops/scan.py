"""The loop over time steps, once for each backend."""

import functools
from collections.abc import Callable, Hashable, Sequence

import keras


def scan(
    step: Callable,
    spec: Hashable,
    carry: tuple,
    inputs: tuple,
    constants: tuple,
    outputs: Sequence[tuple[tuple, str]],
    reverse: bool = False,
) -> tuple[tuple, tuple]:
    """Runs `step` over the first axis of `inputs`, which is time.

    `keras.ops.scan` wants outputs shaped like the carry on TensorFlow, hence this one.

    Args:
        step: Function `(spec, carry, inputs at one time, constants) -> (new carry, outputs)`, with
            tuples of tensors.
        spec: Settings of the step. JAX compiles once for each step and spec that are equal.
        carry: The carry before the first step.
        inputs: Tensors `(T, ...)`, or `None`.
        constants: What is the same at all times: tensors, or `None`.
        outputs: The static shape and the dtype of each of a step's outputs.
        reverse: Whether to run from the last time step to the first. Outputs keep their places.

    Returns the last carry, and a tuple of the outputs `(T, ...)`.
    """
    backend = keras.backend.backend()
    if backend == "jax":
        return _compiled_jax_scan()(step, spec, carry, inputs, constants, reverse)

    def step_at(carry, time):
        at_time = tuple(None if x is None else x[time] for x in inputs)
        return step(spec, carry, at_time, constants)

    loop = _tensorflow_scan if backend == "tensorflow" else _python_scan
    return loop(step_at, tuple(carry), inputs[0], outputs, reverse)


def _tensorflow_scan(step, carry, inputs, outputs, reverse):
    import tensorflow as tf

    num_steps = tf.shape(inputs)[0]
    shapes = [shape for shape, _ in outputs]
    outputs = tuple(tf.TensorArray(dtype, num_steps, element_shape=s) for s, dtype in outputs)

    def body(i, carry, outputs):
        carry, new = step(carry, num_steps - 1 - i if reverse else i)
        # Written in the order of the loop: converters to ONNX take that for granted.
        return i + 1, carry, tuple(array.write(i, x) for array, x in zip(outputs, new))

    _, carry, outputs = tf.while_loop(
        lambda i, *_: i < num_steps, body, (0, carry, outputs), maximum_iterations=num_steps
    )
    stacked = [array.stack() for array in outputs]
    if reverse:
        stacked = [tf.reverse(x, axis=[0]) for x in stacked]
    return carry, tuple(
        tf.ensure_shape(x, [inputs.shape[0], *shape]) for x, shape in zip(stacked, shapes)
    )


@functools.cache
def _compiled_jax_scan():
    import jax

    # Without a jit of its own a loop outside a model would be compiled at every call.
    @functools.partial(jax.jit, static_argnames=("step", "spec", "reverse"))
    def compiled(step, spec, carry, inputs, constants, reverse):
        return jax.lax.scan(
            lambda carry, x: step(spec, carry, x, constants), carry, inputs, reverse=reverse
        )

    return compiled


def _python_scan(step, carry, inputs, outputs, reverse):
    num_steps = len(inputs)
    if not num_steps:
        return carry, tuple(keras.ops.zeros((0, *shape), dtype) for shape, dtype in outputs)
    outputs = [None] * num_steps
    for time in reversed(range(num_steps)) if reverse else range(num_steps):
        carry, outputs[time] = step(carry, time)
    return carry, tuple(keras.ops.stack(x) for x in zip(*outputs))
