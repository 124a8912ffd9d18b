"""The loop over time steps, called outside a model."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_elmo.ops.scan import scan


def outputs_of(spec, carry, inputs):
    return [(carry[0].shape, "float32")]


@pytest.mark.parametrize("reverse", [False, True])
def test_sums(reverse):
    def step(spec, carry, inputs, constants):
        total = carry[0] * constants[0] + inputs[0]
        return (total,), (total,)

    x = np.random.default_rng(0).normal(size=(5, 2, 3)).astype("float32")
    for steps, rows in ((5, 2), (3, 1), (0, 2)):
        carry, inputs = (ops.zeros((rows, 3)),), (ops.convert_to_tensor(x[:steps, :rows]), None)
        last, (totals,) = scan(
            step, None, carry, inputs, (ops.convert_to_tensor(0.5), None), outputs_of, reverse
        )
        expected, total = np.zeros((steps, rows, 3)), np.zeros((rows, 3))
        for i in reversed(range(steps)) if reverse else range(steps):
            expected[i] = total = total * 0.5 + x[i, :rows]
        np.testing.assert_allclose(ops.convert_to_numpy(totals), expected, atol=1e-6)
        np.testing.assert_allclose(ops.convert_to_numpy(last[0]), total, atol=1e-6)


@pytest.mark.skipif(keras.backend.backend() == "torch", reason="PyTorch runs each step in Python")
def test_a_direct_call_is_compiled():
    calls = []

    def step(spec, carry, inputs, constants):
        calls.append(spec)
        return (carry[0] + inputs[0],), (carry[0],)

    carry = (ops.zeros((2,)),)
    for steps in (30, 30, 30, 30):
        scan(step, "spec", carry, (ops.ones((steps, 2)),), (), outputs_of)
    assert len(calls) < 10  # traced, instead of 120 steps
