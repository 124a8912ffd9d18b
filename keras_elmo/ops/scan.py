"""The loop over time steps, once for each backend."""

import functools
from collections.abc import Callable, Hashable

import keras


def scan(
    step: Callable,
    spec: Hashable,
    carry: tuple,
    inputs: tuple,
    constants: tuple,
    outputs: Callable,
    reverse: bool = False,
) -> tuple[tuple, tuple]:
    """Runs `step` over the first axis of `inputs`, which is time.

    `keras.ops.scan` requires outputs shaped like the carry on TensorFlow; this one does not.

    Args:
        step: Function `(spec, carry, inputs at one time, constants) -> (new carry, outputs)`, with
            tuples of tensors.
        spec: Settings of the step. JAX compiles once for each step and spec that are equal, and so
            does TensorFlow outside a model.
        carry: The carry before the first step.
        inputs: Tensors `(T, ...)`, or `None`.
        constants: Values that do not change over time: tensors, or `None`.
        outputs: Function `(spec, carry, inputs)` that returns the static shape and the dtype of
            each of a step's outputs.
        reverse: Whether to run from the last time step to the first. Outputs stay in input order.

    Returns the last carry, and a tuple of the outputs `(T, ...)`.
    """
    backend = keras.backend.backend()
    if backend == "jax":
        return _compiled_jax_scan()(step, spec, carry, inputs, constants, reverse)
    if backend == "tensorflow":
        import tensorflow as tf

        if tf.executing_eagerly() and len(inputs[0]):
            # Outside a model, TensorFlow would run the steps of the loop in Python. One trace for
            # all sizes: a trace takes up to a second.
            arguments = tuple(carry), tuple(inputs), tuple(constants)
            signature = tf.nest.map_structure(_any_size, arguments)
            return _compiled_tensorflow_scan(step, spec, outputs, reverse, signature)(*arguments)
        return _tensorflow_scan(step, spec, carry, inputs, constants, outputs, reverse)
    return _python_scan(step, spec, carry, inputs, constants, outputs, reverse)


def _at(time, inputs):
    return tuple(None if x is None else x[time] for x in inputs)


def _tensorflow_scan(step, spec, carry, inputs, constants, outputs, reverse):
    import tensorflow as tf

    num_steps = tf.shape(inputs[0])[0]
    shapes, dtypes = zip(*outputs(spec, carry, inputs))
    arrays = tuple(
        tf.TensorArray(dtype, num_steps, element_shape=shape)
        for shape, dtype in zip(shapes, dtypes)
    )

    def body(i, carry, arrays):
        time = num_steps - 1 - i if reverse else i
        carry, new = step(spec, carry, _at(time, inputs), constants)
        # Written in the order of the loop: converters to ONNX take that for granted.
        return i + 1, carry, tuple(array.write(i, x) for array, x in zip(arrays, new))

    _, carry, arrays = tf.while_loop(
        lambda i, *_: i < num_steps, body, (0, tuple(carry), arrays), maximum_iterations=num_steps
    )
    stacked = [array.stack() for array in arrays]
    if reverse:
        stacked = [tf.reverse(x, axis=[0]) for x in stacked]
    return carry, tuple(
        tf.ensure_shape(x, [inputs[0].shape[0], *shape]) for x, shape in zip(stacked, shapes)
    )


@functools.cache
def _compiled_tensorflow_scan(step, spec, outputs, reverse, signature):
    import tensorflow as tf

    @functools.partial(tf.function, autograph=False)
    def compiled(carry, inputs, constants):
        return _tensorflow_scan(step, spec, carry, inputs, constants, outputs, reverse)

    return compiled.get_concrete_function(*signature)


def _any_size(x):
    """The signature of tensors of the same rank and dtype."""
    import tensorflow as tf

    return None if x is None else tf.TensorSpec([None] * len(x.shape), x.dtype)


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


def _python_scan(step, spec, carry, inputs, constants, outputs, reverse):
    num_steps, carry = len(inputs[0]), tuple(carry)
    if not num_steps:
        empty = [keras.ops.zeros((0, *x), dtype) for x, dtype in outputs(spec, carry, inputs)]
        return carry, tuple(empty)
    found = [None] * num_steps
    for time in reversed(range(num_steps)) if reverse else range(num_steps):
        carry, found[time] = step(spec, carry, _at(time, inputs), constants)
    return carry, tuple(keras.ops.stack(x) for x in zip(*found))
