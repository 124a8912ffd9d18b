"""One loop over time steps for every backend: the heart of the LSTM."""

import functools

import keras


def scan(step, carry, inputs, constants, reverse=False):
    """Runs `step` over the time axis of `inputs`, the first one.

    `keras.ops.scan` wants outputs shaped like the carry on TensorFlow, hence this one.

    Args:
        step: `(carry, inputs at one time, constants) -> (new carry, outputs)`, with tuples of
            tensors `(N, B)`. Has a method `output_shapes(carry)`, the static shapes of its outputs,
            whose dtype is that of the first carry. Hashable by value, for JAX keeps what it
            compiled for an equal one.
        carry: Tuple of tensors, the carry before the first step.
        inputs: Tuple of tensors `(T, N, B)`.
        constants: Tuple of tensors that are the same at all times.
        reverse: Whether to run from the last time step to the first. Outputs keep their places.

    Returns:
        The last carry, and a tuple of the outputs `(T, N, B)`.
    """
    backend = keras.backend.backend()
    loop = {"tensorflow": _tensorflow_loop, "jax": _jax_loop}.get(backend, _python_loop)
    return loop(step, tuple(carry), tuple(inputs), tuple(constants), reverse)


def _tensorflow_loop(step, carry, inputs, constants, reverse):
    import tensorflow as tf

    num_steps = tf.shape(inputs[0])[0]
    shapes = step.output_shapes(carry)
    outputs = tuple(
        tf.TensorArray(carry[0].dtype, num_steps, element_shape=shape) for shape in shapes
    )

    def body(i, carry, outputs):
        time = num_steps - 1 - i if reverse else i
        carry, new = step(carry, tuple(x[time] for x in inputs), constants)
        # Written in the order of the loop: converters to ONNX take that for granted.
        return i + 1, carry, tuple(array.write(i, x) for array, x in zip(outputs, new))

    _, carry, outputs = tf.while_loop(
        lambda i, *_: i < num_steps, body, (0, carry, outputs), maximum_iterations=num_steps
    )
    stacked = [array.stack() for array in outputs]
    if reverse:
        stacked = [tf.reverse(x, axis=[0]) for x in stacked]
    return carry, tuple(
        tf.ensure_shape(x, [inputs[0].shape[0], *shape]) for x, shape in zip(stacked, shapes)
    )


def _jax_loop(step, carry, inputs, constants, reverse):
    return _compiled_jax_loop()(step, carry, inputs, constants, reverse)


@functools.cache
def _compiled_jax_loop():
    import jax

    # Without a jit of its own a loop outside a model would be compiled anew at every call.
    @functools.partial(jax.jit, static_argnames=("step", "reverse"))
    def loop(step, carry, inputs, constants, reverse):
        return jax.lax.scan(
            lambda carry, x: step(carry, x, constants), carry, inputs, reverse=reverse
        )

    return loop


def _python_loop(step, carry, inputs, constants, reverse):
    num_steps = inputs[0].shape[0]
    outputs = [None] * num_steps
    for time in reversed(range(num_steps)) if reverse else range(num_steps):
        carry, outputs[time] = step(carry, tuple(x[time] for x in inputs), constants)
    if not num_steps:
        return carry, tuple(
            keras.ops.zeros((0, *shape), carry[0].dtype) for shape in step.output_shapes(carry)
        )
    return carry, tuple(keras.ops.stack(x) for x in zip(*outputs))
