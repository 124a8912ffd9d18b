"""One loop over time steps for every backend: the heart of the LSTM."""

import functools

import keras


def scan_time(step, carry, inputs, constants, reverse=False):
    """Runs `step` over the time axis of `inputs`.

    `keras.ops.scan` wants outputs shaped like the carry on TensorFlow, hence this one.

    Args:
        step: `(carry, inputs at one time, constants) -> (new carry, output)`, with carries and
            inputs tuples of tensors `(B, N)` and the output one tensor shaped like the first
            carry. Hashable by value, for JAX keeps what it compiled for an equal one.
        carry: Tuple of tensors, the carry before the first step.
        inputs: Tuple of tensors `(B, T, N)`.
        constants: Tuple of tensors that are the same at all times.
        reverse: Whether to run from the last time step to the first. Outputs keep their places.

    Returns:
        The last carry, and the outputs `(B, T, N)`.
    """
    backend = keras.backend.backend()
    loop = {"tensorflow": _tensorflow_loop, "jax": _jax_loop}.get(backend, _python_loop)
    return loop(step, carry, inputs, constants, reverse)


def _tensorflow_loop(step, carry, inputs, constants, reverse):
    import tensorflow as tf

    time_major = [tf.transpose(x, [1, 0, 2]) for x in inputs]
    n_steps = tf.shape(time_major[0])[0]
    arrays = [tf.TensorArray(x.dtype, n_steps).unstack(x) for x in time_major]
    outputs = tf.TensorArray(carry[0].dtype, n_steps, element_shape=carry[0].shape)

    def body(i, carry, outputs):
        time = n_steps - 1 - i if reverse else i
        carry, output = step(carry, tuple(array.read(time) for array in arrays), constants)
        return i + 1, carry, outputs.write(time, output)

    _, carry, outputs = tf.while_loop(
        lambda i, *_: i < n_steps, body, (0, tuple(carry), outputs), maximum_iterations=n_steps
    )
    outputs = tf.transpose(outputs.stack(), [1, 0, 2])
    return carry, tf.ensure_shape(outputs, [*inputs[0].shape[:2], *carry[0].shape[1:]])


def _jax_loop(step, carry, inputs, constants, reverse):
    return _compiled_jax_loop()(step, tuple(carry), inputs, constants, reverse)


@functools.cache
def _compiled_jax_loop():
    import jax

    # Without a jit of its own a loop outside a model would be compiled anew at every call.
    @functools.partial(jax.jit, static_argnames=("step", "reverse"))
    def loop(step, carry, inputs, constants, reverse):
        time_major = tuple(x.swapaxes(0, 1) for x in inputs)
        carry, outputs = jax.lax.scan(
            lambda carry, x: step(carry, x, constants), carry, time_major, reverse=reverse
        )
        return carry, outputs.swapaxes(0, 1)

    return loop


def _python_loop(step, carry, inputs, constants, reverse):
    n_steps = inputs[0].shape[1]
    if not n_steps:
        return carry, keras.ops.zeros((*inputs[0].shape[:2], *carry[0].shape[1:]), carry[0].dtype)
    outputs = [None] * n_steps
    for time in reversed(range(n_steps)) if reverse else range(n_steps):
        carry, outputs[time] = step(carry, tuple(x[:, time] for x in inputs), constants)
    return carry, keras.ops.stack(outputs, axis=1)
