"""QuantizedBiLM: exact products of rounded kernels, and vectors near those in float32."""

import copy

import numpy as np
import pytest
from keras import ops

from helpers import needs_int8, to_numpy
from keras_elmo import ElmoLayer, Embedder
from keras_elmo.layers.bilm_stack import BiLMStack
from keras_elmo.layers.quantized_bilm import QuantizedBiLM
from keras_elmo.ops.quantization import Int8Kernel

pytestmark = needs_int8
SENTENCES = [["The", "bank", "raised", "its", "rates", "."], ["Hello"], [], ["a", "b"] * 20]


def rounded(x):
    """Integers of at most 127, and what each row of them is to be multiplied by."""
    scales = np.abs(x).max(axis=1, keepdims=True) / 127
    scales[scales == 0] = 1
    return np.rint(x / scales), scales


def test_product(rng):
    kernel, x = rng.normal(size=(64, 33)), rng.normal(size=(5, 33))
    kernel[7], x[2] = 0, 0
    kernel, x = kernel.astype("float32"), x.astype("float32")
    (kernel_integers, kernel_scales), (integers, scales) = rounded(kernel), rounded(x)
    expected = (integers @ kernel_integers.T) * scales * kernel_scales.T
    found = to_numpy(Int8Kernel(kernel)(ops.convert_to_tensor(x)))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert not found[2].any()


def test_largest_numbers_do_not_overflow():
    kernel = np.tile([[1.0], [-1.0]], (16, 512)).astype("float32")
    x = np.ones((2, 512), "float32")
    found = to_numpy(Int8Kernel(kernel)(ops.convert_to_tensor(x)))
    np.testing.assert_allclose(found, x @ kernel.T, rtol=1e-5)


@pytest.mark.parametrize("projection_dim", [16, 32])
@pytest.mark.parametrize("bidirectional", [True, False])
def test_near_float32(rng, projection_dim, bidirectional):
    bilm = BiLMStack(32, projection_dim, num_layers=2, bidirectional=bidirectional)
    bilm.build((None, None, projection_dim))
    x = rng.normal(size=(3, 7, projection_dim)).astype("float32")
    mask = np.arange(7) < np.array([[7], [1], [4]])
    expected = to_numpy(bilm(x, mask=mask))
    quantized = QuantizedBiLM(bilm)
    found = to_numpy(quantized(x, mask=mask))
    np.testing.assert_array_equal(to_numpy(copy.deepcopy(quantized)(x, mask=mask)), found)
    assert found.shape == expected.shape
    error = np.linalg.norm(found - expected) / np.linalg.norm(expected)
    assert 0 < error < 0.02
    # Masked places are as in float32: exactly 0 in the LSTMs' layers.
    assert not found[:, 1:][np.broadcast_to(~mask[:, None], found[:, 1:].shape[:3])].any()


def test_a_sentence_has_the_same_vectors_in_any_batch():
    exact, rounding = Embedder(), Embedder(dtype="int8")
    together = rounding.embed(SENTENCES)
    for sentence, found in zip(SENTENCES, together):
        (alone,) = rounding.embed([sentence])
        np.testing.assert_allclose(found, alone, atol=1e-5)
        (expected,) = exact.embed([sentence])
        if sentence:
            assert 0 < np.linalg.norm(found - expected) / np.linalg.norm(expected) < 0.03


def test_of_an_elmo_layer():
    layer = ElmoLayer()
    (found,) = Embedder(layer, dtype="int8").embed([SENTENCES[0]], output="layers")
    (expected,) = Embedder(layer).embed([SENTENCES[0]], output="layers")
    np.testing.assert_allclose(found[0], expected[0], atol=1e-6)
    assert np.linalg.norm(found - expected) / np.linalg.norm(expected) < 0.03
