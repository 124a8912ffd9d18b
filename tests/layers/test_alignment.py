"""The alignment of layer 1 with another language's."""

import keras
import numpy as np
import pytest

from helpers import TINY, assert_close, to_numpy
from keras_elmo import ElmoLayer, Embedder

SENTENCES = [["The", "bank", "raised", "its", "rates"], ["Hello"]]


@pytest.fixture(scope="module")
def plain():
    return ElmoLayer(TINY, output="layers")


@pytest.fixture
def matrix(plain, rng):
    return rng.normal(size=2 * (plain.config.output_dim,)).astype("float32")


def test_layer_1_is_multiplied_by_the_transpose(plain, matrix):
    elmo = ElmoLayer(TINY, output="layers", alignment=matrix)
    expected = to_numpy(plain(SENTENCES)).copy()
    expected[:, 1] = expected[:, 1] @ matrix.T
    assert_close(to_numpy(elmo(SENTENCES)), expected, tolerance=1e-5)
    for array, sentence, layers in zip(
        Embedder(elmo).embed(SENTENCES, output="layers"), SENTENCES, expected
    ):
        assert_close(array, layers[:, : len(sentence)], tolerance=1e-5)


def test_it_is_saved_and_cloned_with_the_model(plain, matrix, tmp_path):
    elmo = ElmoLayer(TINY, output="layers", alignment=matrix)
    ids = np.asarray(plain.char_encoder.rules.encode_sentences(SENTENCES))
    inputs = keras.Input((None, ids.shape[2]), dtype="int32")
    model = keras.Model(inputs, elmo(inputs))
    expected = model.predict(ids, verbose=0)
    model.save(tmp_path / "model.keras")
    for again in (
        keras.models.load_model(tmp_path / "model.keras"),
        keras.models.clone_model(model),
    ):
        np.testing.assert_array_equal(again.predict(ids, verbose=0), expected)


@pytest.mark.parametrize("kind", ["tensor", "array"])
def test_a_file_of_torch_save(kind, matrix, tmp_path):
    torch = pytest.importorskip("torch")
    torch.save(torch.from_numpy(matrix) if kind == "tensor" else matrix, tmp_path / "mapping.pth")
    elmo = ElmoLayer(TINY, alignment=tmp_path / "mapping.pth")
    np.testing.assert_array_equal(to_numpy(elmo.alignment.value), matrix)


def test_what_is_refused(matrix):
    with pytest.raises(ValueError, match=r"alignment must be a matrix \(\d+, \d+\) for this model"):
        ElmoLayer(TINY, alignment=matrix[:-1])
    with pytest.raises(ValueError, match="alignment=True waits for weights that are loaded later"):
        ElmoLayer(TINY, alignment=True)
    config = ElmoLayer(TINY, alignment=matrix).get_config()
    with pytest.raises(ValueError, match="alignment='mapping.pth', but it may name nothing"):
        ElmoLayer.from_config({**config, "alignment": "mapping.pth"})
