"""The parts of any kind of model, for exports."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_elmo.config import ElmoConfig
from keras_elmo.layers.elmo_layer import ElmoLayer
from keras_elmo.pretrained.hdf5 import read_softmax
from keras_elmo.pretrained.language_models import find_model_or_checkpoint
from keras_elmo.pretrained.locate import ModelFiles, ModelSource
from keras_elmo.text.vocabulary import read_words
from keras_elmo.training.language_model import with_training_options
from keras_elmo.training.loading import load_language_model, model_details, saved_model


@dataclasses.dataclass(frozen=True)
class Source:
    """A model to export.

    Args:
        layer: The `ElmoLayer`.
        config: Its architecture, with the settings of its training as bilm-tf's options.
        softmax: Kernel and bias of its softmax, if it has one.
        vocabulary: The words of its softmax or word table, if they are known.
        details: Details for its model card.
    """

    layer: ElmoLayer
    config: ElmoConfig
    softmax: tuple[Any, Any] | None = None
    vocabulary: Sequence[str] | None = None
    details: Mapping[str, Any] = dataclasses.field(default_factory=dict)


Found = ElmoLayer | ModelFiles | Path


def find_source(model: ModelSource | ElmoLayer) -> Found:
    """The model to export: a layer, the files of a model, or a checkpoint."""
    return model if isinstance(model, ElmoLayer) else find_model_or_checkpoint(model)


def paths_of(found: Found) -> tuple[Path, ...]:
    """The files of a model, which no output may replace."""
    if isinstance(found, ElmoLayer):
        return found.model_paths
    return found.paths if isinstance(found, ModelFiles) else (found,)


def layer_of(found: Found) -> ElmoLayer:
    """Only the layer of a model."""
    if isinstance(found, ElmoLayer):
        return found
    return ElmoLayer(found) if isinstance(found, ModelFiles) else _layer(saved_model(found).load())


def load_source(found: Found, vocabulary: str | os.PathLike | None = None) -> Source:
    """Loads the parts of a model. `vocabulary` is as for `export_hdf5`."""
    if isinstance(found, ElmoLayer):
        size = None if found.config.reads_text else found.config.vocabulary_size
        words = _words(vocabulary, found.vocabulary, size, "The ElmoLayer")
        return Source(found, found.config, None, words, {"language": found.language})
    if isinstance(found, ModelFiles):
        layer = ElmoLayer(found)
        softmax = None if found.softmax is None else read_softmax(found.softmax)
        size = None if found.config.reads_text else found.config.vocabulary_size
        size = len(softmax[1]) if softmax else size
        words = _words(vocabulary, found.vocabulary, size, found.place)
        return Source(layer, found.config, softmax, words, model_details(found))
    saved = saved_model(found)
    language_model, vocabulary_of_model = load_language_model(saved, vocabulary)
    return Source(
        _layer(language_model),
        with_training_options(language_model.get_config()),
        (language_model.softmax_kernel, language_model.softmax.bias),
        vocabulary_of_model.words,
        saved.details(),
    )


def _words(given, own, size, place):
    """The words of a softmax or a table of `size` words: those given, else the model's own."""
    if given is not None and size is None:
        raise ValueError(
            f"{place} has neither a softmax nor a table of words: leave out the vocabulary."
        )
    source = own if given is None else given
    if source is None or size is None:
        return None
    words = read_words(source)
    while len(words) > size and not words[-1]:
        words.pop()
    if len(words) != size:
        raise ValueError(
            f"The vocabulary has {len(words):,} words, the softmax or table of {place} {size:,}: "
            "pass the one that belongs to it."
        )
    if given is not None and own is not None and words != _words(None, own, size, place):
        raise ValueError(f"{given} differs from the vocabulary of {place}: leave it out.")
    return words


def _layer(language_model):
    """An `ElmoLayer` with the biLM of a language model."""
    layer = ElmoLayer(None, config=language_model.config)
    layer.backbone.set_weights(language_model.backbone.get_weights())
    return layer
