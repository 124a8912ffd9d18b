"""Models saved by an earlier version load and give the same numbers."""

from pathlib import Path

import keras
import numpy as np
import pytest
from packaging.version import Version

import keras_elmo  # noqa: F401 - registers the layers
from helpers import assert_close, to_numpy
from training_models import held_out

SAVED = Path(__file__).parents[1] / "golden" / "saved_before"

pytestmark = pytest.mark.skipif(
    Version(keras.__version__) < Version("3.15"),
    reason="saved with Keras 3.15, whose files older versions of Keras do not read",
)


@pytest.mark.parametrize("name", ["elmo_layer", "single_layers", "words"])
def test_layers(name):
    model = keras.models.load_model(SAVED / f"{name}.keras")
    expected = np.load(SAVED / f"{name}.npz")
    assert_close(to_numpy(model(expected["inputs"])), expected["outputs"])


def test_language_model():
    model = keras.models.load_model(SAVED / "language_model.keras")
    assert model.optimizer.iterations == 8
    results = model.evaluate(held_out(), verbose=0, return_dict=True)
    expected = dict(np.load(SAVED / "language_model.npz"))
    # It was the mean over batches, of which the last are mostly padding.
    expected["loss"] = np.log(expected["perplexity"])
    assert set(results) == set(expected)
    for name, value in results.items():
        assert value == pytest.approx(float(expected[name]), rel=1e-5)
