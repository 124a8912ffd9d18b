"""The one check that every layer's test begins with."""

import json
import math
import tempfile
from pathlib import Path

import keras
import numpy as np
import pytest

from helpers import assert_close, compiled, to_numpy


def check_layer(make_layer, inputs, *, weights, trainable=None, output_mask=None):
    """Checks what Keras asks of any layer.

    Args:
        make_layer: Makes a new layer; takes `dtype` as a keyword.
        inputs: NumPy array to call it on; its first axis is the batch.
        weights: Number of weights it must have.
        trainable: How many of them are trainable; all where `None`.
        output_mask: The mask that the output must carry when the inputs have none.
    """
    trainable = weights if trainable is None else trainable
    _check_config(make_layer)
    with pytest.raises(ValueError, match="dtype is that of the computation.* leave out dtype"):
        make_layer(dtype="int32")
    layer = make_layer()
    layer.build(inputs.shape)
    assert (len(layer.weights), len(layer.trainable_weights)) == (weights, trainable)
    outputs = to_numpy(layer(inputs))
    assert layer.compute_output_shape(inputs.shape) == outputs.shape
    assert (len(layer.weights), len(layer.trainable_weights)) == (weights, trainable)

    model = _model_of(layer, inputs)
    assert model.output.dtype == keras.backend.standardize_dtype(layer(inputs).dtype)
    assert len(model.output.shape) == outputs.ndim
    assert_close(model.predict(inputs, verbose=0), outputs)
    _check_mask(layer, inputs, output_mask)
    _check_save_and_reload(model, inputs, outputs)
    _check_precision(make_layer, inputs, layer, outputs)
    _check_fit(make_layer, inputs, outputs.shape)


def _model_of(layer, inputs):
    symbolic = keras.Input(inputs.shape[1:], dtype=str(inputs.dtype))
    return keras.Model(symbolic, layer(symbolic))


def _check_config(make_layer):
    layer = make_layer()
    config = _arguments(layer)
    assert _arguments(type(layer).from_config(layer.get_config())) == config
    again = keras.layers.deserialize(json.loads(json.dumps(keras.layers.serialize(layer))))
    assert json.dumps(_arguments(again)) == json.dumps(config)


def _arguments(layer):
    """A layer's config, without what tells it from other layers of this process."""
    return {name: x for name, x in layer.get_config().items() if name != "weights_of"}


def _check_mask(layer, inputs, expected):
    mask = getattr(layer(inputs), "_keras_mask", None)
    if expected is None:
        assert mask is None
    else:
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(mask), expected)


def _check_save_and_reload(model, inputs, outputs):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.keras"
        model.save(path)
        again = keras.models.load_model(path)
    assert_close(to_numpy(again(inputs)), outputs)


def _check_precision(make_layer, inputs, exact_layer, exact):
    for policy, bound in (("mixed_bfloat16", 0.05), ("float16", 0.01)):
        layer = make_layer(dtype=policy)
        layer.build(inputs.shape)
        layer.set_weights([keras.ops.convert_to_numpy(w) for w in exact_layer.weights])
        half = layer(inputs)
        assert keras.backend.standardize_dtype(half.dtype) == policy.removeprefix("mixed_")
        assert np.abs(to_numpy(half) - exact).max() <= bound * max(1, np.abs(exact).max())


def _check_fit(make_layer, inputs, shape):
    layer = make_layer()
    model = compiled(_model_of(layer, inputs), keras.optimizers.SGD(0.5), "mse")
    targets = np.random.default_rng(1).normal(size=shape)
    before = [keras.ops.convert_to_numpy(weight).copy() for weight in layer.trainable_weights]
    history = model.fit(inputs, targets, verbose=0)
    assert math.isfinite(history.history["loss"][0])
    for old, weight in zip(before, layer.trainable_weights):
        assert not np.array_equal(old, keras.ops.convert_to_numpy(weight)), weight.path
