"""The gradient that the LSTM brings, against differences of its outputs."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_elmo import ProjectedLSTM

MASK = np.array([[1, 1, 1, 1], [1, 1, 0, 0], [0, 1, 1, 0]], bool)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("units", [5, 3])
@pytest.mark.parametrize("clip", [None, 0.25])
@pytest.mark.parametrize("training", [False, True])
def test_gradient(rng, reverse, masked, units, clip, training):
    if keras.backend.backend() != "tensorflow":
        # JAX has no float64 unless set so, and on PyTorch Keras' matmul goes back to float32.
        tolerance, size, dtype = 2e-3, 1e-2, "float32"
    else:
        tolerance, size, dtype = 1e-7, 1e-6, "float64"
    layer = ProjectedLSTM(units, 3, cell_clip=clip, proj_clip=clip, reverse=reverse, dtype=dtype)
    layer.build((None, None, 2))
    for weight in layer.weights:
        weight.assign(rng.normal(size=weight.shape))
    x = rng.normal(size=(3, 4, 2))
    state = rng.normal(size=(3, 3)) * 0.2, rng.normal(size=(3, units)) * 0.2
    factors = rng.normal(size=(3, 4, 3)), rng.normal(size=(3, 3)), rng.normal(size=(3, units))
    arrays = [x, *state, *(to_numpy64(w.value) for w in layer.weights)]

    def loss(values):
        inputs, h, c, *weights = (ops.convert_to_tensor(v, dtype=dtype) for v in values)
        for variable, value in zip(layer.weights, weights):
            variable.assign(value)
        return to_numpy64(total(layer, inputs, (h, c), masked, factors, dtype, training))

    gradients = gradients_of(layer, arrays, masked, factors, dtype, training)
    middle, compared = loss(arrays), 0
    for i, (array, gradient) in enumerate(zip(arrays, gradients)):
        # Along a random direction, every number of the gradient counts.
        direction = rng.normal(size=array.shape)
        direction /= np.linalg.norm(direction)
        before, after = (
            loss([*arrays[:i], array + step * direction, *arrays[i + 1 :]])
            for step in (-size, size)
        )
        difference, expected = (after - before) / (2 * size), (gradient * direction).sum()
        is_equal = abs(difference - expected) < tolerance * max(1, abs(difference))
        # Where a clip begins within the step, the two sides differ.
        is_corner = clip is not None and abs(after - 2 * middle + before) > 1e-3 * size
        assert is_equal or is_corner
        compared += is_equal
    assert compared > len(arrays) / 2


def total(layer, inputs, state, masked, factors, dtype, training):
    mask = ops.convert_to_tensor(MASK) if masked else None
    outputs, (h, c) = layer(
        inputs, mask=mask, initial_state=state, return_state=True, training=training
    )
    parts = zip((outputs, h, c), factors)
    return sum(ops.sum(part * ops.convert_to_tensor(f, dtype=dtype)) for part, f in parts)


def gradients_of(layer, arrays, masked, factors, dtype, training):
    """Gradients of `total` by input, state and weights, as the backend finds them."""
    x, h, c, *weights = arrays
    for variable, value in zip(layer.weights, weights):
        variable.assign(value)
    backend = keras.backend.backend()
    tensors = [ops.convert_to_tensor(a, dtype=dtype) for a in (x, h, c)]
    if backend == "tensorflow":
        import tensorflow as tf

        variables = [w.value for w in layer.weights]
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            loss = total(layer, tensors[0], tensors[1:], masked, factors, dtype, training)
        return [g.numpy() for g in tape.gradient(loss, [*tensors, *variables])]
    if backend == "torch":
        tensors = [t.detach().requires_grad_() for t in tensors]
        layer.zero_grad()
        total(layer, tensors[0], tensors[1:], masked, factors, dtype, training).backward()
        found = [*tensors, *(w.value for w in layer.weights)]
        return [t.grad.detach().numpy() for t in found]
    import jax

    def function(tensors, values):
        with keras.StatelessScope(zip(layer.weights, values)):
            return total(layer, tensors[0], tensors[1:], masked, factors, dtype, training)

    values = [w.value for w in layer.weights]
    by_tensor, by_weight = jax.grad(function, argnums=(0, 1))(tensors, values)
    return [np.asarray(g) for g in (*by_tensor, *by_weight)]


def to_numpy64(x):
    return np.array(ops.convert_to_numpy(x), "float64")
