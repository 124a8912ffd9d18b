"""Backbone: token encoder and biLM as one layer, with the weights of a file."""

import keras
import numpy as np
import pytest

from helpers import ONE_LAYER, TINY, assert_close, to_numpy
from keras_elmo import Backbone, ElmoConfig, ElmoLayer, encode_sentences
from keras_elmo.pretrained.weights import load_weights, write_model
from layer_checks import check_layer

IDS = encode_sentences([["the", "cat", "sat"], ["on"]])
WORDS = np.array([[1, 4, 5, 2], [1, 3, 2, 0]], "int32")
CONFIG = ElmoConfig.from_json(TINY / "options.json")


def test_layer():
    check_layer(
        lambda **kwargs: Backbone(ONE_LAYER, **kwargs),
        IDS,
        weights=27,
        output_mask=np.repeat(IDS.any(-1)[:, None], 2, axis=1),
    )


def test_a_model_of_whole_words():
    backbone = Backbone(CONFIG.with_word_input(7))
    vectors = to_numpy(backbone(WORDS))
    assert (len(backbone.weights), vectors.shape) == (17, (2, 3, 4, 24))
    assert_close(to_numpy(backbone(WORDS[1:, :3]))[0], vectors[1, :, :3])
    assert not vectors[1, :, 3:].any()


def test_weights_files_are_those_of_an_elmo_layer(tmp_path):
    backbone = Backbone(CONFIG.to_dict())
    backbone.build()
    load_weights(backbone, TINY / "weights.hdf5")
    expected = to_numpy(ElmoLayer(TINY, vectors="layers")(IDS))
    assert_close(to_numpy(backbone(IDS))[:, :, 1:-1] * IDS.any(-1)[:, None, 2:, None], expected)
    write_model(tmp_path, backbone)
    assert_close(to_numpy(ElmoLayer(tmp_path, vectors="layers")(IDS)), expected)


def test_a_mask_replaces_that_of_the_ids():
    backbone = Backbone(CONFIG)
    mask = np.array([[True, True, False, False, False], [True, True, True, False, False]])
    vectors = to_numpy(backbone(IDS, mask=mask))
    assert_close(vectors[:1, :, :2], to_numpy(backbone(IDS[:1, :2])))
    assert not vectors[0, :, 2:].any()


def test_state_is_returned_and_read():
    backbone = Backbone(CONFIG)
    layers, state = backbone(IDS, return_state=True)
    assert [tuple(part.shape[1:]) for part in state] == list(backbone.state_shapes)
    again, last = backbone(IDS, initial_state=state, return_state=True)
    expected, end = backbone.bilm(
        backbone.token_encoder(IDS), mask=IDS.any(-1), initial_state=state, return_state=True
    )
    assert not np.allclose(to_numpy(again), to_numpy(layers), atol=1e-4)
    assert_close(to_numpy(again), to_numpy(expected))
    for one, other in zip(last, end):
        assert_close(to_numpy(one), to_numpy(other))
    inputs = keras.Input(IDS.shape[1:], dtype="int32")
    model = keras.Model(inputs, backbone(inputs, return_state=True))
    assert_close(to_numpy(model(IDS)[1][0]), to_numpy(state[0]))


def test_dropout_is_applied_in_training_only():
    dropped, plain = Backbone(ONE_LAYER, dropout=0.5), Backbone(ONE_LAYER)
    for layer in (dropped, plain):
        layer.build()
    plain.set_weights(dropped.weights[: len(plain.weights)])
    assert_close(to_numpy(dropped(IDS)), to_numpy(plain(IDS)))
    assert not np.allclose(to_numpy(dropped(IDS, training=True)), to_numpy(plain(IDS)), atol=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lstm_dim": 2**16, "projection_dim": 2**16}, "137,.* numbers; at most 536,870,912"),
        ({"filters": None}, "no n_tokens_vocab"),
    ],
)
def test_bad_configs_are_refused_before_anything_is_allocated(options, message):
    with pytest.raises(ValueError, match=message):
        Backbone(ElmoConfig(**options))
