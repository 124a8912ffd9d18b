"""The gradient that the LSTM brings, against differences of its outputs."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_elmo import ProjectedLSTM

MASK = np.array([[1, 1, 1, 1], [1, 1, 0, 0], [0, 1, 1, 0]], bool)


@pytest.mark.parametrize(
    "masked, units, clip, reverse, training",  # each value of one with each of any other
    [
        (False, 3, None, False, False),
        (False, 3, 0.25, False, True),
        (False, 5, None, True, False),
        (False, 5, 0.25, True, True),
        (True, 3, None, True, True),
        (True, 3, 0.25, True, False),
        (True, 5, None, False, True),
        (True, 5, 0.25, False, False),
    ],
)
def test_gradient(rng, masked, units, clip, reverse, training):
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
    mask = MASK if masked else None

    def total(x, h, c):
        outputs, (h, c) = layer(
            x, mask=mask, initial_state=(h, c), return_state=True, training=training
        )
        parts = zip((outputs, h, c), factors)
        return sum(ops.sum(part * ops.convert_to_tensor(f, dtype=dtype)) for part, f in parts)

    backends = {"tensorflow": by_tensorflow, "jax": by_jax, "torch": by_torch}
    on_tensors = backends[keras.backend.backend()](layer, total)

    def run(arrays):
        for weight, value in zip(layer.weights, arrays[3:]):
            weight.assign(value)
        loss, gradients = on_tensors([ops.convert_to_tensor(a, dtype=dtype) for a in arrays[:3]])
        return to_numpy64(loss), list(map(to_numpy64, gradients))

    (middle, gradients), compared = run(arrays), 0
    for i, (array, gradient) in enumerate(zip(arrays, gradients)):
        # Along a random direction, every number of the gradient counts.
        direction = rng.normal(size=array.shape)
        direction /= np.linalg.norm(direction)
        before, after = (
            run([*arrays[:i], array + step * direction, *arrays[i + 1 :]])[0]
            for step in (-size, size)
        )
        difference, expected = (after - before) / (2 * size), (gradient * direction).sum()
        is_equal = abs(difference - expected) < tolerance * max(1, abs(difference))
        # Where a clip begins within the step, the two sides differ.
        is_corner = clip is not None and abs(after - 2 * middle + before) > 1e-3 * size
        assert is_equal or is_corner
        compared += is_equal
    assert compared > len(arrays) / 2


def by_tensorflow(layer, total):
    """A function from inputs and state to `total` and its gradients, by weights too."""
    import tensorflow as tf

    @tf.function
    def run(tensors):
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            loss = total(*tensors)
        return loss, tape.gradient(loss, [*tensors, *(w.value for w in layer.weights)])

    return run


def by_torch(layer, total):
    def run(tensors):
        tensors = [t.detach().requires_grad_() for t in tensors]
        layer.zero_grad()
        loss = total(*tensors)
        loss.backward()
        return loss.detach(), [t.grad for t in (*tensors, *(w.value for w in layer.weights))]

    return run


def by_jax(layer, total):
    import jax

    def function(tensors, values):
        with keras.StatelessScope(zip(layer.weights, values)):
            return total(*tensors)

    compiled = jax.jit(jax.value_and_grad(function, argnums=(0, 1)))

    def run(tensors):
        loss, (by_tensor, by_weight) = compiled(tensors, [w.value for w in layer.weights])
        return loss, [*by_tensor, *by_weight]

    return run


def to_numpy64(x):
    return np.array(ops.convert_to_numpy(x), "float64")
