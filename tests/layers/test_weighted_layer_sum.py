"""WeightedLayerSum against the NumPy reference."""

import numpy as np
import pytest

import numpy_reference as reference
from helpers import assert_close, to_numpy
from keras_elmo import WeightedLayerSum
from layer_checks import check_layer

MASK = np.arange(5) < np.array([5, 2, 4])[:, None]
WEIGHTS, GAMMA = np.array([0.3, -0.2, 0.7]), 0.88


@pytest.fixture
def layers(rng):
    # Layers of unlike mean and scale, so that the normalization has something to do.
    scales = np.array([1.0, 3.0, 0.2])[:, None, None]
    return (rng.normal(size=(3, 3, 5, 4)) * scales + scales).astype("float32")


@pytest.mark.parametrize(
    "arguments, weights",
    [({}, 2), ({"use_top_only": True}, 1), ({"layer_norm": True, "l2": 0.1}, 2)],
)
def test_layer(layers, arguments, weights):
    check_layer(lambda **kwargs: WeightedLayerSum(**arguments, **kwargs), layers, weights=weights)


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("use_top_only", [False, True])
@pytest.mark.parametrize("mask", [None, MASK])
def test_numbers(layers, layer_norm, use_top_only, mask):
    mix = WeightedLayerSum(use_top_only=use_top_only, layer_norm=layer_norm)
    mix.build(layers.shape)
    if not use_top_only:
        mix.layer_weights.assign(WEIGHTS)
    mix.gamma.assign([GAMMA])
    outputs = to_numpy(mix(layers, mask=mask))
    expected_mask = np.ones((3, 5), bool) if mask is None else mask
    expected = reference.mix(
        layers.astype("float64"), expected_mask, WEIGHTS, GAMMA, layer_norm, use_top_only
    )
    assert_close(outputs, expected, 5e-6)
    assert not outputs[~expected_mask].any()


def test_a_batch_of_nothing_but_padding(layers):
    outputs = WeightedLayerSum(layer_norm=True)(layers, mask=np.zeros_like(MASK))
    assert not to_numpy(outputs).any()


def test_normalized_weights(layers):
    mix = WeightedLayerSum()
    mix.build(layers.shape)
    np.testing.assert_allclose(mix.normalized_weights, [1 / 3] * 3, atol=1e-7)
    mix.layer_weights.assign(WEIGHTS)
    expected = np.exp(WEIGHTS) / np.exp(WEIGHTS).sum()
    np.testing.assert_allclose(mix.normalized_weights, expected, atol=1e-7)
    top = WeightedLayerSum(use_top_only=True)
    top.build(layers.shape)
    np.testing.assert_array_equal(top.normalized_weights, [0, 0, 1])


@pytest.mark.parametrize("policy, tolerance", [("float32", 1e-6), ("float16", 1e-3)])
@pytest.mark.parametrize("shares", [(0, 1, 0), (0.2, 0.3, 0.5), [0.25, 0, 0.75], (1, 0, 0)])
def test_normalized_weights_that_are_set(layers, shares, policy, tolerance):
    mix = WeightedLayerSum(dtype=policy)
    mix.build(layers.shape)
    mix.set_normalized_weights(shares)
    np.testing.assert_allclose(mix.normalized_weights, shares, atol=tolerance)
    np.testing.assert_array_equal(mix.normalized_weights == 0, np.equal(shares, 0))
    expected = np.einsum("l,bltd->btd", shares, layers)
    assert_close(to_numpy(mix(layers)), expected, 3 * tolerance)


def test_set_weights_and_the_penalty(layers):
    mix = WeightedLayerSum(l2=0.5)
    mix.build(layers.shape)
    mix.set_normalized_weights([1 / 3] * 3)  # as in a new mix, which has no penalty
    np.testing.assert_allclose(to_numpy(mix.layer_weights), 0, atol=1e-7)
    for shares, message in (
        ((0, 1, 0), "pass l2=None or a small weight instead of 0"),
        ((0.5, 0.5), "must be 3 numbers of at least 0 with the sum 1, .* after the softmax"),
        ((-9e10, 1, -9e10), "must be 3 numbers of at least 0"),
        ((1, 1, 1), "with the sum 1"),
        ((np.nan, 0.5, 0.5), "numbers of at least 0"),
    ):
        with pytest.raises(ValueError, match=message):
            mix.set_normalized_weights(shares)


def test_penalty_is_on_the_raw_weights(layers):
    mix = WeightedLayerSum(l2=0.5)
    mix.build(layers.shape)
    mix.layer_weights.assign(WEIGHTS)
    mix(layers)
    np.testing.assert_allclose(sum(map(to_numpy, mix.losses)), 0.5 * (WEIGHTS**2).sum(), rtol=1e-6)
    plain = WeightedLayerSum()
    plain(layers)
    assert plain.losses == []


def test_dropout_is_for_training_alone(layers):
    mix = WeightedLayerSum(dropout=0.5)
    still, trained = to_numpy(mix(layers)), to_numpy(mix(layers, training=True))
    dropped = trained == 0
    assert 0.2 < dropped.mean() < 0.8
    np.testing.assert_allclose(trained[~dropped], 2 * still[~dropped], rtol=1e-5)
    np.testing.assert_array_equal(to_numpy(mix(layers, training=False)), still)


def test_bad_input_is_named(layers):
    with pytest.raises(ValueError, match=r"expected ndim=4, found ndim=3"):
        WeightedLayerSum()(layers[:, 0])
    mix = WeightedLayerSum()
    mix(layers)
    with pytest.raises(ValueError, match=r"axis 1 of input shape to have value 3, but received"):
        mix(layers[:, :1])
    with pytest.raises(ValueError, match="l2 must be a number of at least 0; got -1"):
        WeightedLayerSum(l2=-1)
    with pytest.raises(ValueError, match="dropout must be .* at least 0 and below 1; got 1"):
        WeightedLayerSum(dropout=1)
