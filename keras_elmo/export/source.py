"""The parts of any kind of model, for exports."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

from keras_elmo.config import ElmoConfig
from keras_elmo.layers.elmo_layer import ElmoLayer
from keras_elmo.pretrained.hdf5 import read_softmax
from keras_elmo.pretrained.language_models import find_checkpoint
from keras_elmo.pretrained.locate import ModelSource, find_model_files
from keras_elmo.text.vocabulary import read_words
from keras_elmo.training.language_model import with_training_options
from keras_elmo.training.loading import (
    load_language_model,
    model_details,
    read_vocabulary,
    saved_model,
)


@dataclasses.dataclass(frozen=True)
class Source:
    """A model to export.

    Args:
        layer: The `ElmoLayer`.
        config: Its architecture, with the settings of its training as bilm-tf's options.
        softmax: Kernel and bias of its softmax, if it has one.
        vocabulary: The words of its softmax or word table, if they are known.
        details: Facts for its model card.
        paths: The files that no output may replace.
    """

    layer: ElmoLayer
    config: ElmoConfig
    softmax: tuple[Any, Any] | None = None
    vocabulary: Sequence[str] | None = None
    details: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    paths: tuple[Any, ...] = ()


def find_source(
    model: ModelSource | ElmoLayer, vocabulary: str | os.PathLike | None = None
) -> Source:
    """Loads the parts of a model. The arguments are as for `export_hdf5`."""
    if isinstance(model, ElmoLayer):
        details, paths = {"language": model.language}, model.model_paths
        return Source(model, model.config, None, model.vocabulary, details, paths)
    checkpoint = find_checkpoint(model)
    if checkpoint is None:
        return _of_files(find_model_files(model), vocabulary)
    saved = saved_model(checkpoint)
    language_model, words = load_language_model(saved, vocabulary)
    return Source(
        _layer(language_model),
        with_training_options(language_model.get_config()),
        (language_model.softmax_kernel, language_model.softmax.bias),
        words.words,
        saved.details(),
        (checkpoint, vocabulary or saved.vocabulary),
    )


def layer_of(model: ModelSource | ElmoLayer) -> ElmoLayer:
    """Only the layer of a model."""
    if isinstance(model, ElmoLayer):
        return model
    checkpoint = find_checkpoint(model)
    return ElmoLayer(model) if checkpoint is None else _layer(saved_model(checkpoint).load())


def _of_files(files, vocabulary):
    layer, softmax, words = ElmoLayer(files), None, None
    if files.softmax is not None:
        softmax = read_softmax(files.softmax)
        if vocabulary or files.vocabulary:
            words = read_vocabulary(vocabulary, files.vocabulary, len(softmax[1])).words
            if len(words) != len(softmax[1]):
                raise ValueError(
                    f"The vocabulary has {len(words):,} words, the softmax of {files.place} "
                    f"{len(softmax[1]):,}: pass the one that belongs to it."
                )
    elif not files.config.reads_text:
        words = read_words(vocabulary) if vocabulary else layer.vocabulary
    elif vocabulary:
        raise ValueError(f"{files.place} has no softmax.hdf5, so that it needs no vocabulary.")
    details, paths = model_details(files), (*files.paths, vocabulary)
    return Source(layer, files.config, softmax, words, details, paths)


def _layer(language_model):
    """An `ElmoLayer` with the biLM of a language model."""
    layer = ElmoLayer(None, config=language_model.config)
    layer.backbone.set_weights(language_model.backbone.get_weights())
    return layer
