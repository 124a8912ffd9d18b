"""The layers inside a layer or model, and the `ElmoLayer` of a saved Keras model."""

import os
from typing import Any

import keras

from keras_elmo.layers.elmo_layer import ElmoLayer
from keras_elmo.pretrained.locate import is_keras_file


def layers_inside(layer: keras.layers.Layer) -> list[keras.layers.Layer]:
    """A layer and all layers in its attributes, also in lists and dictionaries, each once."""
    found: dict[int, Any] = {}
    waiting = [layer]
    for part in waiting:  # which grows meanwhile
        if isinstance(part, (keras.layers.Layer, dict, list, tuple)) and id(part) not in found:
            found[id(part)] = part
            part = vars(part) if isinstance(part, keras.layers.Layer) else part
            # By `iter`: in TensorFlow's lists, which are subclasses, `list` itself sees no items.
            waiting += iter(part.values() if isinstance(part, dict) else part)
    return [part for part in found.values() if isinstance(part, keras.layers.Layer)]


def elmo_layer_of(model: Any) -> Any:
    """The `ElmoLayer` in a Keras layer or model, or the `.keras` file of one; others are returned.

    Raises ValueError if it does not have exactly one, or the file has layers that Keras lacks.
    """
    name = getattr(model, "name", None)
    if is_keras_file(model):
        name = os.fspath(model)
        try:
            model = keras.models.load_model(name, compile=False)
        except TypeError as error:
            raise ValueError(
                f"{name} has layers or functions of your own. In Python, load it with "
                "keras.models.load_model(..., custom_objects=...) and pass its ElmoLayer to "
                "Embedder."
            ) from error
    if not isinstance(model, keras.layers.Layer):
        return model
    layers = [part for part in layers_inside(model) if isinstance(part, ElmoLayer)]
    if len(layers) != 1:
        raise ValueError(
            f"Expected a model with one ElmoLayer; {name} has {len(layers)}. In Python, load a "
            ".keras file with keras.models.load_model, and pass an ElmoLayer to Embedder."
        )
    return layers[0]
