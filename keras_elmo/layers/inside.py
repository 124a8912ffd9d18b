"""The layers inside a layer or model, and the `ElmoLayer` of a saved Keras model."""

import os
from collections.abc import Iterator
from typing import Any

import keras

from keras_elmo.layers.elmo_layer import ElmoLayer
from keras_elmo.pretrained.locate import is_keras_file


def layers_inside(layer: keras.layers.Layer) -> Iterator[keras.layers.Layer]:
    """A layer and the layers inside it: of models, of wrappers, and the mixes of ElmoLayers."""
    yield layer
    inside = []
    if isinstance(layer, ElmoLayer):
        inside = layer.mixes
    elif isinstance(layer, keras.Model):
        inside = layer.layers
    elif isinstance(layer, keras.layers.Wrapper):
        inside = [layer.layer]
    for part in inside:
        yield from layers_inside(part)


def elmo_layer_of(model: Any) -> Any:
    """The `ElmoLayer` of a Keras model, or of the `.keras` file of one; others are returned.

    Raises ValueError if the model does not have exactly one.
    """
    if is_keras_file(model):
        model = keras.models.load_model(os.fspath(model), compile=False)
    if not isinstance(model, keras.Model):
        return model
    layers = [part for part in layers_inside(model) if isinstance(part, ElmoLayer)]
    if len(layers) != 1:
        raise ValueError(
            f"Expected a model with one ElmoLayer; {model.name} has {len(layers)}. Pass the layer "
            "itself."
        )
    return layers[0]
