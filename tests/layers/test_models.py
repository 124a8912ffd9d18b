"""ElmoLayer in models on raw strings; fit, reload and serve each in a process of their own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

from helpers import tensorflow_only
from keras_elmo import CharCNNEmbedding, ElmoLayer, UnicodeCharEncoder

pytestmark = tensorflow_only
tf = pytest.importorskip("tensorflow")

TINY = Path(__file__).parents[1] / "golden" / "inference" / "default"
STRINGS = ["The bank raised its rates .", "We sat on the bank of the river .", "Zoë paid 3,50 €"]

FIT = """
import sys, json, keras, numpy as np, tensorflow as tf
from keras_elmo import ElmoLayer
strings = tf.constant(json.loads(sys.argv[1]))
model = keras.Sequential([
    ElmoLayer(dropout=0.1), keras.layers.GlobalAveragePooling1D(), keras.layers.Dense(2)
])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(strings, tf.constant([0, 1, 0]), epochs=2, batch_size=2, verbose=0)
model.save("model.keras")
np.save("outputs.npy", model.predict(strings, verbose=0))
"""

RELOAD = """
import sys, json, builtins, h5py, keras, numpy as np, tensorflow as tf
import keras_elmo
from keras_elmo.pretrained import download
def no_files(*_):
    raise AssertionError("a reloaded model must not look for weight files")
download._fetch = no_files
strings = tf.constant(json.loads(sys.argv[1]))
model = keras.models.load_model("model.keras")
np.testing.assert_allclose(model.predict(strings, verbose=0), np.load("outputs.npy"), atol=1e-5)
assert not model.layers[0].trainable_bilm
model.export("exported")
"""

SERVE = """
import sys, json, numpy as np, tensorflow as tf
strings = tf.constant(json.loads(sys.argv[1]))
served = tf.saved_model.load("exported")
np.testing.assert_allclose(served.serve(strings), np.load("outputs.npy"), atol=1e-5)
assert "keras_elmo" not in sys.modules
"""


@pytest.mark.slow
def test_fit_save_reload_and_export_each_in_its_own_process(tmp_path):
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    root = Path(__file__).parents[2]
    environment["PYTHONPATH"] = f"{root}{os.pathsep}{environment.get('PYTHONPATH', '')}"
    for code in (FIT, RELOAD, SERVE):
        finished = subprocess.run(
            [sys.executable, "-c", code, json.dumps(STRINGS)],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert finished.returncode == 0, finished.stderr


def test_sequential_on_strings_of_any_batch_size():
    model = keras.Sequential(
        [ElmoLayer(TINY), keras.layers.GlobalAveragePooling1D(), keras.layers.Dense(1)]
    )
    model.compile("sgd", "mse")
    model.fit(tf.constant(STRINGS), tf.constant([0.0, 1.0, 2.0]), batch_size=2, verbose=0)
    together = model.predict(tf.constant(STRINGS * 3), verbose=0)
    alone = model.predict(tf.constant(STRINGS[1:2]), verbose=0)
    np.testing.assert_allclose(together[1::3], np.repeat(alone, 3, 0), atol=1e-5)
    assert np.isfinite(
        model.evaluate(tf.constant(STRINGS), tf.constant([0.0, 1.0, 2.0]), verbose=0)
    )


def test_sequential_on_character_ids_names_what_is_missing():
    model = keras.Sequential([ElmoLayer(TINY), keras.layers.GlobalAveragePooling1D()])
    model.compile("sgd", "mse")
    with pytest.raises(
        ValueError, match=r"must begin with keras\.Input\(\(None, 50\), dtype='int32'\)"
    ):
        model.fit(np.ones((2, 5, 50), "int32"), np.zeros((2, 24)), verbose=0)


def test_a_data_pipeline_of_strings():
    dataset = tf.data.Dataset.from_tensor_slices((STRINGS, [0.0, 1.0, 2.0])).repeat(2).batch(2)
    model = keras.Sequential([ElmoLayer(TINY), keras.layers.LSTM(3), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    history = model.fit(dataset, epochs=2, shuffle=False, verbose=0)
    assert history.history["loss"][1] < history.history["loss"][0]


def test_the_layers_by_themselves_are_the_whole():
    elmo = ElmoLayer(TINY)
    inputs = keras.Input((), dtype="string")
    x = UnicodeCharEncoder()(inputs)
    x = elmo.token_encoder(x)
    assert isinstance(elmo.token_encoder, CharCNNEmbedding)
    vectors = elmo.mixes[0](elmo.bilm(x))
    model = keras.Model(inputs, vectors)
    outputs = model.predict(tf.constant(STRINGS), verbose=0)
    expected = elmo(STRINGS).numpy()
    lengths = [6, 9, 4]
    for output, vector, length in zip(outputs, expected, lengths):
        np.testing.assert_allclose(output[1 : length + 1], vector[:length], atol=1e-6)
        assert not output[length + 2 :].any()


def test_mixed_precision_on_strings():
    keras.config.set_dtype_policy("mixed_bfloat16")
    model = keras.Sequential(
        [ElmoLayer(TINY), keras.layers.GlobalAveragePooling1D(), keras.layers.Dense(1)]
    )
    model.compile("sgd", "mse")
    history = model.fit(tf.constant(STRINGS), tf.constant([0.0, 1.0, 2.0]), verbose=0)
    assert np.isfinite(history.history["loss"]).all()


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
