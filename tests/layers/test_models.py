"""ElmoLayer in models on raw strings."""

import keras
import numpy as np
import pytest

from helpers import ONE_LAYER, tensorflow_only
from keras_elmo import CharCNNEmbedding, ElmoLayer, UnicodeCharEncoder

pytestmark = tensorflow_only
tf = pytest.importorskip("tensorflow")

STRINGS = ["The bank raised its rates .", "We sat on the bank of the river .", "Zoë paid 3,50 €"]

TARGETS = tf.constant([0.0, 1.0, 2.0])


@pytest.mark.parametrize(
    "policy", ["float32", pytest.param("mixed_bfloat16", marks=pytest.mark.slow)]
)
def test_sequential_on_strings_is_trained_saved_and_exported(policy, tmp_path):
    keras.config.set_dtype_policy(policy)
    model = keras.Sequential(
        [
            ElmoLayer(None, config=ONE_LAYER),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(1),
        ]
    )
    model.compile("sgd", "mse")
    data = tf.data.Dataset.from_tensor_slices((STRINGS, TARGETS)).repeat(2).batch(2)
    losses = model.fit(data, epochs=2, shuffle=False, verbose=0).history["loss"]
    assert losses[1] < losses[0]
    assert np.isfinite(model.fit(tf.constant(STRINGS), TARGETS, verbose=0).history["loss"]).all()
    together = model.predict(tf.constant(STRINGS * 3), verbose=0)
    single = model.predict(tf.constant(STRINGS[1:2]), verbose=0)
    tolerance = 1e-5 if policy == "float32" else 2e-2
    np.testing.assert_allclose(together[1::3], np.repeat(single, 3, 0), atol=tolerance)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    found = tf.cast(again(tf.constant(STRINGS)), tf.float32)
    np.testing.assert_allclose(found, together[:3], atol=tolerance)
    assert not again.layers[0].trainable_bilm
    again.export(tmp_path / "exported", verbose=False)
    served = tf.saved_model.load(tmp_path / "exported")
    found = tf.cast(served.serve(tf.constant(STRINGS)), tf.float32)
    np.testing.assert_allclose(found, together[:3], atol=tolerance)


def test_sequential_on_character_ids_names_what_is_missing():
    model = keras.Sequential(
        [ElmoLayer(None, config=ONE_LAYER), keras.layers.GlobalAveragePooling1D()]
    )
    model.compile("sgd", "mse")
    with pytest.raises(
        ValueError, match=r"model after keras\.Input\(\(None, 50\), dtype='int32'\)"
    ):
        model.fit(np.ones((2, 5, 50), "int32"), np.zeros((2, 24)), verbose=0)


def test_a_functional_model_reads_ragged_tokens():
    inputs = keras.Input((None,), dtype="string")
    model = keras.Model(inputs, keras.layers.LSTM(3)(ElmoLayer(None, config=ONE_LAYER)(inputs)))
    ragged = tf.ragged.constant([["the", "cat", "sat"], ["Hi"]])
    dataset = tf.data.Dataset.from_tensor_slices(ragged).ragged_batch(2)
    expected = model(ragged.to_tensor(""))
    for batch in (ragged, dataset):
        np.testing.assert_allclose(model.predict(batch, verbose=0), expected, atol=1e-6)


@pytest.mark.parametrize("kind", ["sentences", "tokens", "ragged tokens"])
def test_a_recurrent_layer_reads_one_sentence(kind):
    inputs = keras.Input(() if kind == "sentences" else (None,), dtype="string")
    model = keras.Model(inputs, keras.layers.LSTM(3)(ElmoLayer(None, config=ONE_LAYER)(inputs)))
    ragged = tf.strings.split(STRINGS)
    texts = {"sentences": tf.constant(STRINGS), "tokens": ragged.to_tensor()}.get(kind, ragged)
    found = model.predict(texts[1:2], verbose=0)  # before others, for a graph of this batch size
    np.testing.assert_allclose(found, model(texts)[1:2], atol=1e-6)


def test_the_layers_by_themselves_are_the_whole():
    elmo = ElmoLayer(None, config=ONE_LAYER)
    inputs = keras.Input((), dtype="string")
    x = UnicodeCharEncoder()(inputs)
    x = elmo.token_encoder(x)
    assert isinstance(elmo.token_encoder, CharCNNEmbedding)
    vectors = elmo.mixes[0](elmo.bilm(x))
    outputs = keras.Model(inputs, vectors)(tf.constant(STRINGS)).numpy()
    expected = elmo(STRINGS).numpy()
    lengths = [6, 9, 4]
    for output, vector, length in zip(outputs, expected, lengths):
        np.testing.assert_allclose(output[1 : length + 1], vector[:length], atol=1e-6)
        assert not output[length + 2 :].any()


@keras.saving.register_keras_serializable("test_models")
class OfParts(keras.Model):
    def __init__(self, **arguments):
        super().__init__(**arguments)
        self.encoder = UnicodeCharEncoder(12)
        self.embedding = CharCNNEmbedding(filters=((1, 4), (2, 8)), projection_dim=6)
        self.dense = keras.layers.Dense(2)

    def call(self, inputs):
        return self.dense(self.embedding(self.encoder(inputs)))


def test_a_subclassed_model_of_the_parts_comes_back_whole(tmp_path):
    model, strings = OfParts(), tf.constant(STRINGS)
    expected = model(strings)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(again(strings), expected, atol=1e-6)
