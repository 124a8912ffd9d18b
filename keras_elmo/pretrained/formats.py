"""Loading the weights of a model, in whichever format they are."""

import os
from pathlib import Path
from typing import Any

from keras_elmo.pretrained import hdf5, many_languages
from keras_elmo.pretrained.folder import is_of_many_languages


def load_weights(
    backbone: Any, weights: str | os.PathLike, without_token_encoder: bool = False
) -> None:
    """Loads a weights file of `locate`, as `keras_elmo.pretrained.hdf5.load_weights` does."""
    load = many_languages.load_weights if is_of_many_languages(Path(weights)) else hdf5.load_weights
    load(backbone, weights, without_token_encoder)
