"""CharCNNEmbedding against the NumPy reference."""

import keras
import numpy as np
import pytest

import numpy_reference as reference
from helpers import assert_close, to_numpy
from keras_elmo import CharCNNEmbedding, encode_sentences
from layer_checks import check_layer

FILTERS = ((1, 3), (2, 5), (4, 8))
IDS = encode_sentences([["Zoë", "paid", "3,50"], ["a" * 60]])


def options_of(activation="relu", num_highway=1, projection_dim=6):
    return {
        "char_cnn": {
            "activation": activation,
            "embedding": {"dim": 4},
            "filters": FILTERS,
            "n_highway": num_highway,
        },
        "lstm": {"dim": 8, "projection_dim": projection_dim, "n_layers": 1},
    }


def set_weights(layer, weights):
    layer.char_embedding.assign(weights["char_embed"])
    for i, convolution in enumerate(layer.convolutions):
        convolution.kernel.assign(weights[f"CNN/W_cnn_{i}"][0])
        convolution.bias.assign(weights[f"CNN/b_cnn_{i}"])
    for i, highway in enumerate(layer.highways):
        for part, dense in (("carry", highway.gate), ("transform", highway.transform)):
            dense.kernel.assign(weights[f"CNN_high_{i}/W_{part}"])
            dense.bias.assign(weights[f"CNN_high_{i}/b_{part}"])
    if layer.projection is not None:
        layer.projection.kernel.assign(weights["CNN_proj/W_proj"])
        layer.projection.bias.assign(weights["CNN_proj/b_proj"])


def test_layer():
    check_layer(
        lambda **kwargs: CharCNNEmbedding(
            filters=FILTERS, char_embedding_dim=4, projection_dim=6, num_highway=1, **kwargs
        ),
        IDS,
        weights=1 + 6 + 4 + 2,
        output_mask=IDS.any(-1),
    )


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("num_highway, projection_dim", [(0, 6), (1, 16), (2, 6)])
def test_numbers(rng, activation, num_highway, projection_dim):
    options = options_of(activation, num_highway, projection_dim)
    weights = reference.random_weights(options, rng)
    layer = CharCNNEmbedding(FILTERS, 4, activation, num_highway, projection_dim)
    layer.build(IDS.shape)
    assert (layer.projection is None) == (projection_dim == 16)
    set_weights(layer, weights)
    long = np.concatenate([IDS, IDS[::-1], IDS], axis=-1)
    for ids in (IDS, IDS[0], IDS[:, None], long):  # padding has the zero character
        expected = reference.encode_tokens(ids, weights, options)
        for layer.uses_pool in (False, keras.backend.backend() == "tensorflow"):
            assert_close(to_numpy(layer(ids)), expected)


def test_keras_image_data_format_changes_nothing():
    keras.utils.set_random_seed(0)
    expected = CharCNNEmbedding(FILTERS, 4, projection_dim=6)(IDS)
    before = keras.config.image_data_format()
    try:
        keras.config.set_image_data_format("channels_first")
        keras.utils.set_random_seed(0)
        found = CharCNNEmbedding(FILTERS, 4, projection_dim=6)(IDS)
    finally:
        keras.config.set_image_data_format(before)
    np.testing.assert_array_equal(to_numpy(found), to_numpy(expected))


def test_initial_values():
    layer = CharCNNEmbedding(((1, 64), (3, 64)), 32, "relu", 1, 64)
    layer.build((None, 50))
    assert 0.99 < np.abs(to_numpy(layer.char_embedding)).max() <= 1
    assert 0.049 < np.abs(to_numpy(layer.convolutions[1].kernel)).max() <= 0.05
    assert (to_numpy(layer.highways[0].gate.bias) == -2).all()
    assert abs(to_numpy(layer.highways[0].gate.kernel).std() - 128**-0.5) < 0.01
    assert abs(to_numpy(layer.projection.kernel).std() - 128**-0.5) < 0.01
    tanh = CharCNNEmbedding(((4, 64),), 16, "tanh", 0, 64)
    tanh.build((None, 50))
    assert abs(to_numpy(tanh.convolutions[0].kernel).std() - 64**-0.5) < 0.01


def test_bad_input_is_named():
    layer = CharCNNEmbedding(FILTERS, projection_dim=6)
    with pytest.raises(ValueError, match="integer character ids .* got .* of dtype float32"):
        layer(np.zeros((2, 3, 50), "float32"))
    with pytest.raises(ValueError, match=r"C of at least 4, the widest filter; got shape \(2, 3\)"):
        layer(np.zeros((2, 3), "int32"))
    with pytest.raises(ValueError, match="activation = 'gelu': expected 'relu' or 'tanh'"):
        CharCNNEmbedding(activation="gelu")
    with pytest.raises(ValueError, match="filters = .*expected a list of at most 64 "):
        CharCNNEmbedding(filters=((0, 3),))
    with pytest.raises(ValueError, match="needs filters"):
        CharCNNEmbedding(filters=None)
