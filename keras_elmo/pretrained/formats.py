"""A model's files, of whichever format: its architecture, its lexicon and its weights."""

import os
from pathlib import Path
from typing import Any

from keras_elmo.config import ElmoConfig
from keras_elmo.pretrained import hdf5, many_languages
from keras_elmo.pretrained.archive import is_of_many_languages
from keras_elmo.text.lexicon import Lexicon


def read_architecture(
    options: str | os.PathLike, weights: str | os.PathLike
) -> tuple[ElmoConfig, Lexicon | None]:
    """The architecture of a model, and its lexicon if it has one, from the files of `model_files`.

    Raises FileNotFoundError if a file is missing, and ValueError if one is damaged.
    """
    if is_of_many_languages(Path(weights)):
        config, lexicon = many_languages.read_architecture(options)
        many_languages.check_sizes(config, weights)
        return config, lexicon
    config = ElmoConfig.from_json(options)
    if not config.has_lexicon:
        return config, None
    return config, Lexicon.from_folder(
        Path(options).parent,
        words=config.word_dim > 0,
        characters=config.reads_characters,
        max_characters_per_token=config.max_characters_per_token,
    )


def load_weights(
    backbone: Any, weights: str | os.PathLike, without_token_encoder: bool = False
) -> None:
    """Loads a weights file of `model_files`, as `keras_elmo.pretrained.hdf5.load_weights` does."""
    load = many_languages.load_weights if is_of_many_languages(Path(weights)) else hdf5.load_weights
    load(backbone, weights, without_token_encoder)
