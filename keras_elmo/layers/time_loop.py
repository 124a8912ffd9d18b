"""One loop over time steps for every backend: the heart of the LSTM."""

import keras


def scan_time(step, carry, inputs, reverse=False):
    """Runs `step` over the time axis of `inputs`.

    `keras.ops.scan` wants outputs shaped like the carry on TensorFlow, hence this one.

    Args:
        step: `(carry, inputs at one time) -> (new carry, output)`, with carries and inputs tuples
            of tensors `(B, ...)` and the output one tensor `(B, ...)`.
        carry: Tuple of tensors, the carry before the first step.
        inputs: Tuple of tensors `(B, T, ...)`.
        reverse: Whether to run from the last time step to the first. Outputs keep their places.

    Returns:
        The last carry, and the outputs `(B, T, ...)`.
    """
    backend = keras.backend.backend()
    loop = {"tensorflow": _tensorflow_loop, "jax": _jax_loop}.get(backend, _python_loop)
    return loop(step, carry, inputs, reverse)


def _tensorflow_loop(step, carry, inputs, reverse):
    import tensorflow as tf

    time_major = [tf.experimental.numpy.swapaxes(x, 0, 1) for x in inputs]
    n_steps = tf.shape(time_major[0])[0]
    arrays = [tf.TensorArray(x.dtype, n_steps).unstack(x) for x in time_major]
    outputs = tf.TensorArray(carry[0].dtype, n_steps, element_shape=carry[0].shape)

    def body(i, carry, outputs):
        time = n_steps - 1 - i if reverse else i
        carry, output = step(carry, tuple(array.read(time) for array in arrays))
        return i + 1, carry, outputs.write(time, output)

    _, carry, outputs = tf.while_loop(
        lambda i, *_: i < n_steps, body, (0, tuple(carry), outputs), maximum_iterations=n_steps
    )
    outputs = tf.experimental.numpy.swapaxes(outputs.stack(), 0, 1)
    return carry, tf.ensure_shape(outputs, [*inputs[0].shape[:2], *carry[0].shape[1:]])


def _jax_loop(step, carry, inputs, reverse):
    import jax

    time_major = tuple(x.swapaxes(0, 1) for x in inputs)
    carry, outputs = jax.lax.scan(step, tuple(carry), time_major, reverse=reverse)
    return carry, outputs.swapaxes(0, 1)


def _python_loop(step, carry, inputs, reverse):
    n_steps = inputs[0].shape[1]
    if not n_steps:
        return carry, keras.ops.zeros((*inputs[0].shape[:2], *carry[0].shape[1:]), carry[0].dtype)
    outputs = [None] * n_steps
    for time in reversed(range(n_steps)) if reverse else range(n_steps):
        carry, outputs[time] = step(carry, tuple(x[:, time] for x in inputs))
    return carry, keras.ops.stack(outputs, axis=1)
