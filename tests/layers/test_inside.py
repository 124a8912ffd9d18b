"""The ElmoLayer of a model, and of its file."""

import keras
import numpy as np
import pytest

from helpers import TINY
from keras_elmo import ElmoLayer, Embedder, cli

LOAD = "In Python, load .* with keras.models.load_model.* pass .* ElmoLayer to Embedder"


class Own(keras.layers.Add):
    """A layer that only its program knows."""


def saved(path, layers, last):
    inputs = keras.Input((None, 50), dtype="int32")
    keras.Model(inputs, last([layer(inputs) for layer in layers])).save(path)
    return path


def test_a_file_with_layers_of_its_program(tmp_path, capsys):
    """The message says what to do also on the command line, where no layer can be passed."""
    elmo = ElmoLayer(TINY, gamma=3)
    path = saved(tmp_path / "task.keras", [elmo, elmo], Own())
    with pytest.raises(ValueError, match=f"task.keras has layers or functions of your own. {LOAD}"):
        Embedder(path)
    assert cli.main(["embed", "a", "--model", str(path)]) == 1
    assert len(capsys.readouterr().err) < 300 + len(str(path))
    model = keras.models.load_model(path, custom_objects={"Own": Own})
    (found,) = Embedder(model).embed(["a"])
    np.testing.assert_allclose(found, 3 * Embedder(TINY).embed(["a"])[0], rtol=1e-5)


@pytest.mark.parametrize("number", [0, 2])
def test_a_file_without_one_elmo_layer(tmp_path, number):
    layers = [ElmoLayer(TINY) for _ in range(number)] or [keras.layers.Dense(2)] * 2
    path = saved(tmp_path / "task.keras", layers, keras.layers.Add())
    with pytest.raises(ValueError, match=f"with one ElmoLayer; .*keras has {number}. {LOAD}"):
        Embedder(path)
