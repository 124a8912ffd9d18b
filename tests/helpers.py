"""Marks and conversions that several tests share."""

import dataclasses
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_elmo import ElmoConfig

GOLDEN = Path(__file__).parent / "golden" / "inference"
"""Models and outputs of bilm-tf."""

TINY = GOLDEN / "default"
ONE_LAYER = dataclasses.replace(ElmoConfig.from_json(TINY / "options.json"), num_layers=1)
"""Its config with one LSTM layer, for tests that compile much."""

VARIANTS = sorted(path.name for path in GOLDEN.iterdir() if (path / "weights.hdf5").exists())


tensorflow_only = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow",
    reason="strings inside a model need the TensorFlow backend",
)


def compiled(model, optimizer, *losses, **options):
    """Compiles a model; in its first step, TensorFlow would trace that step twice."""
    model.compile(keras.optimizers.get(optimizer), *losses, **options)
    model.optimizer.build(model.trainable_variables)
    return model


def to_numpy(x):
    """A tensor of any backend as a NumPy array, floats of any precision as float32."""
    if keras.backend.is_float_dtype(keras.backend.standardize_dtype(x.dtype)):
        x = keras.ops.cast(x, "float32")
    return keras.ops.convert_to_numpy(x)


def assert_close(actual, expected, tolerance=2e-6):
    """Compares relative to the largest expected magnitude, or 1."""
    actual = np.asarray(actual, "float64")
    assert actual.shape == expected.shape
    scale = max(1.0, np.abs(expected).max(initial=0))
    assert np.abs(actual - expected).max(initial=0) <= tolerance * scale
