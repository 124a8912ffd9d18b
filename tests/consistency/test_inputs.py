"""Every way to pass sentences gives the same vectors, in each class that takes them."""

import json
import pickle
import subprocess
import sys

import h5py
import keras
import numpy as np
import pytest

from helpers import TINY, assert_close, tensorflow_only, to_numpy
from keras_elmo import ElmoLayer, Embedder, UnicodeCharEncoder, encode_sentences
from keras_elmo.cli import main
from keras_elmo.compat import Elmo, ElmoEmbedder, batch_to_ids
from keras_elmo.layers import process

TOKENS = [["the", "cat", "sat"], ["Zoë"]]
TEXTS = [" ".join(tokens) for tokens in TOKENS]
ROWS = [["the", "cat", "sat"], ["Zoë", "", ""]]


def tensorflow():
    return pytest.importorskip("tensorflow")


def pandas():
    return pytest.importorskip("pandas")


def pyarrow():
    return pytest.importorskip("pyarrow")


class Sequence:
    """A plain sequence, such as a column of a data set."""

    def __len__(self):
        return len(TEXTS)

    def __getitem__(self, i):
        return TEXTS[i]


SENTENCES = {
    "list of strings": lambda: TEXTS,
    "list of lists": lambda: TOKENS,
    "padded rows": lambda: ROWS,
    "bytes": lambda: [text.encode() for text in TEXTS],
    "tuple": lambda: tuple(map(tuple, TOKENS)),
    "generator": lambda: (text for text in TEXTS),
    "sequence": Sequence,
    "array of strings": lambda: np.array(TEXTS),
    "array of bytes": lambda: np.array([text.encode() for text in TEXTS]),
    "array of objects": lambda: np.array(TEXTS, dtype=object),
    "array of rows": lambda: np.array(ROWS),
    "array of lists": lambda: pandas().Series(TOKENS).to_numpy(),
    "pandas": lambda: pandas().Series(TEXTS, index=[5, 3]),
    "pandas of dtype string": lambda: pandas().Series(TEXTS, dtype="string"),
    "pandas of lists": lambda: pandas().Series(TOKENS),
    "pyarrow": lambda: pyarrow().array(TEXTS),
    "pyarrow of lists": lambda: pyarrow().array(TOKENS),
    "column of a pyarrow table": lambda: pyarrow().table({"text": TEXTS})["text"],
    "string tensor": lambda: tensorflow().constant(TEXTS),
    "tensor of rows": lambda: tensorflow().constant(ROWS),
    "ragged tensor": lambda: tensorflow().ragged.constant(TOKENS),
}

IDS = {
    "list": lambda: encode_sentences(TOKENS).tolist(),
    "array": lambda: encode_sentences(TOKENS),
    "int64": lambda: encode_sentences(TOKENS).astype("int64"),
    "uint16": lambda: encode_sentences(TOKENS).astype("uint16"),
    "list of arrays": lambda: list(encode_sentences(TOKENS)),
    "tensor": lambda: keras.ops.convert_to_tensor(encode_sentences(TOKENS)),
    "UnicodeCharEncoder": lambda: UnicodeCharEncoder()(TEXTS),
}


@pytest.fixture(scope="module")
def layer():
    return ElmoLayer(TINY)


@pytest.fixture(scope="module")
def embedder(layer):
    return Embedder(layer, progress=False)


@pytest.fixture(scope="module")
def expected(layer):
    return to_numpy(layer(encode_sentences(TOKENS)))


@pytest.mark.parametrize("kind", SENTENCES)
def test_sentences(layer, embedder, expected, kind):
    make = SENTENCES[kind]
    assert_close(to_numpy(layer(make())), expected, 1e-5)
    for found, vectors in zip(embedder.embed(make()), expected, strict=True):
        length = len(found)  # a row of tokens keeps its padding
        assert_close(found, vectors[:length], 1e-5)
        assert not vectors[length:].any()
    ids = keras.ops.convert_to_numpy(UnicodeCharEncoder()(make()))
    np.testing.assert_array_equal(ids, encode_sentences(TOKENS))


@pytest.mark.parametrize("kind", IDS)
def test_ids(layer, expected, kind):
    assert_close(to_numpy(layer(IDS[kind]())), expected, 1e-5)


def test_compat(expected):
    files = TINY / "options.json", TINY / "weights.hdf5"
    (vectors,) = Elmo(*files, 1, dropout=0.0)(batch_to_ids(TOKENS))["elmo_representations"]
    assert_close(to_numpy(vectors), expected, 1e-5)
    for layers, mixed in zip(ElmoEmbedder(*files).embed_batch(TOKENS), expected):
        assert_close(layers.mean(axis=0), mixed[: layers.shape[1]], 1e-5)


@pytest.mark.parametrize("is_tokenized", [False, True])
def test_command_line(tmp_path, expected, is_tokenized):
    text, target = tmp_path / ("a.jsonl" if is_tokenized else "a.txt"), tmp_path / "vectors.h5"
    lines = [json.dumps({"text": tokens}) for tokens in TOKENS] if is_tokenized else TEXTS
    text.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    command = ["embed", "--model", TINY, "--input", text, "--output", target]
    assert main(list(map(str, command))) == 0
    with h5py.File(target) as file:
        for i, vectors in enumerate(expected):
            assert_close(file[str(i)][:], vectors[: len(TOKENS[i])], 1e-5)


@tensorflow_only
@pytest.mark.parametrize("kind", ["string tensor", "tensor of rows"])
def test_in_a_graph(layer, expected, kind):
    tf = tensorflow()
    strings = SENTENCES[kind]()
    inputs = keras.Input(strings.shape[1:], dtype="string")
    for use in (tf.function(layer), keras.Model(inputs, layer(inputs)).predict_on_batch):
        assert_close(to_numpy(use(strings)), expected, 1e-5)
    (vectors,) = tf.data.Dataset.from_tensors(strings).map(UnicodeCharEncoder()).map(layer)
    assert_close(to_numpy(vectors), expected, 1e-5)


# --- batches without sentences ----------------------------------------------------------------

EMPTY = {
    "list": (lambda: [], 0),
    "array of strings": (lambda: np.zeros((0, 3), dtype=object), 3),
    "ids": (lambda: np.zeros((0, 5, 50), "int32"), 3),
    "tensor of ids": (lambda: keras.ops.zeros((0, 5, 50), "int32"), 3),
    "string tensor": (lambda: tensorflow().zeros((0,), "string"), 0),
    "tensor of rows": (lambda: tensorflow().zeros((0, 3), "string"), 3),
}


@pytest.mark.parametrize("kind", EMPTY)
def test_no_sentences(layer, embedder, kind):
    make, num_tokens = EMPTY[kind]
    for training in (False, True):
        assert tuple(layer(make(), training=training).shape) == (0, num_tokens, 24)
    if "ids" not in kind:
        assert embedder.embed(make()) == []


@tensorflow_only
def test_no_sentences_in_a_graph_and_its_gradient():
    tf = tensorflow()
    layer = ElmoLayer(TINY, trainable_bilm=True)

    @tf.function(input_signature=[tf.TensorSpec([None, None, 50], tf.int32)])
    def gradients(ids):
        with tf.GradientTape() as tape:
            vectors = layer(ids, training=True)
            loss = tf.reduce_sum(vectors)
        return vectors, tape.gradient(loss, layer.trainable_variables)

    vectors, found = gradients(np.zeros((0, 5, 50), "int32"))
    assert vectors.shape == (0, 3, 24)
    assert not any(tf.convert_to_tensor(gradient).numpy().any() for gradient in found)


RAGGED_LAST_BATCH = """
import keras, numpy as np, tensorflow as tf
from keras_elmo import ElmoConfig, ElmoLayer, encode_sentences
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
ids = encode_sentences([["a", "b"]] * 9)  # batches of 4, 4 and 1: one of two devices gets nothing
with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
    config = ElmoConfig(filters=((1, 4), (3, 4)), lstm_dim=4, projection_dim=4, num_layers=1)
    model = keras.Sequential([
        keras.Input((None, 50), dtype="int32"),
        ElmoLayer(None, config=config, trainable_bilm=True),
        keras.layers.GlobalAveragePooling1D(),
        keras.layers.Dense(1),
    ])
    model.compile(keras.optimizers.SGD(0.1), "mse")
model.fit(ids, np.ones((9, 1)), batch_size=4, verbose=0)
assert model.predict(ids, batch_size=4, verbose=0).shape == (9, 1)
assert np.isfinite(model.evaluate(ids, np.ones((9, 1)), batch_size=4, verbose=0))
"""


@tensorflow_only
def test_a_last_batch_with_fewer_rows_than_devices():
    subprocess.run([sys.executable, "-c", RAGGED_LAST_BATCH], check=True)


# --- what is refused --------------------------------------------------------------------------


def test_symbolic_strings_are_for_the_layer():
    tf = tensorflow()
    dataset = tf.data.Dataset.from_tensor_slices(TEXTS)
    for one in (dataset, dataset.batch(2)):
        with pytest.raises(ValueError, match=r"map\(UnicodeCharEncoder\(\)\)"):
            one.map(encode_sentences)


def test_a_set_has_no_order(layer, embedder):
    for use in (layer, embedder.embed, encode_sentences, UnicodeCharEncoder()):
        with pytest.raises(ValueError, match="got a set, which has no order: pass a list"):
            use({"a b", "c"})


def test_a_tensor_of_keras_2(layer):
    tensor = type("KerasTensor", (), {"__module__": "tf_keras.src.engine.keras_tensor"})()
    for tensor.dtype, tensor.shape in (("string", (None,)), ("int32", (None, None, 50))):
        with pytest.raises(ValueError, match="tensor of tf_keras, which is Keras 2; .* Keras 3"):
            layer(tensor)


# --- forked processes -------------------------------------------------------------------------


def test_unpickling_in_a_forked_process(layer, embedder, monkeypatch):
    pickles = pickle.dumps(layer), pickle.dumps(embedder)
    monkeypatch.setattr(process.os, "getpid", lambda: -1)
    layer, embedder = map(pickle.loads, pickles)
    for use in (layer, embedder.embed, embedder.encode_words):
        with pytest.raises(RuntimeError, match="Forked processes cannot use ELMo layers"):
            use(["a b"])
