"""The formats of models: the names of their files, how to read their architecture and arrays.

A model has at least two files, options and weights. A new format is a `ModelFormat` in `FORMATS`,
and its test.
"""

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from keras_elmo.config import ElmoConfig
from keras_elmo.pretrained import many_languages
from keras_elmo.pretrained.hdf5 import open_arrays
from keras_elmo.pretrained.torch_files import read_state_dict
from keras_elmo.pretrained.weight_table import WeightEntry, weight_table
from keras_elmo.text.lexicon import CHARACTERS_FILE, WORDS_FILE, Lexicon

OPTIONS, WEIGHTS = "options.json", "weights.hdf5"
SOFTMAX, VOCABULARY = "softmax.hdf5", "vocabulary.txt"


class ModelFormat(NamedTuple):
    """A format of models."""

    options: tuple[str, ...]
    """Patterns of the names of the options file, of which the first that matches decides."""
    weights: tuple[str, ...]
    """The same for the weights file."""
    files: tuple[str, ...]
    """Names of all files of a model, as it is published."""
    lstms: tuple[str, ...]
    """How the names of the LSTMs' arrays begin; those of the token encoder begin differently."""
    read_architecture: Callable[[Path], tuple[ElmoConfig, Lexicon | None]]
    """The architecture and the lexicon, from the options file."""
    tables: Callable[[Path, ElmoConfig], dict[Path, Sequence[WeightEntry]]]
    """The arrays that each file must hold, from the path of the weights file."""
    open: Callable[[Path], contextlib.AbstractContextManager[Mapping[str, Any]]]
    """Yields the arrays of a file by name."""
    suffixes: tuple[str, ...] = ()
    """Suffixes of weights files that only this format has."""
    reads_any_json: bool = False
    """Whether a file of the architecture may have any name, and may be in a folder."""


def format_of(weights: PurePath) -> ModelFormat:
    """The format of a weights file; bilm-tf's unless its suffix belongs to another one."""
    return next((found for found in FORMATS if weights.suffix in found.suffixes), FORMATS[0])


def _read_options(options):
    config = ElmoConfig.from_json(options)
    if not config.has_lexicon:
        return config, None
    lexicon = Lexicon.from_folder(
        options.parent,
        words=config.word_dim > 0,
        characters=config.reads_characters,
        max_characters_per_token=config.max_characters_per_token,
    )
    return config, lexicon


def _open_state_dict(path):
    return contextlib.nullcontext(read_state_dict(path))


FORMATS = (
    ModelFormat(
        options=(r"options\.json", r".*options(262)?\.json"),
        weights=(r"weights\.hdf5", r"model\.hdf5", r".*weights\.(hdf5|h5)", r".*\.(hdf5|h5)"),
        files=(OPTIONS, WEIGHTS, SOFTMAX, VOCABULARY, WORDS_FILE, CHARACTERS_FILE),
        lstms=("RNN_",),
        read_architecture=_read_options,
        tables=lambda weights, config: {weights: weight_table(config)},
        open=open_arrays,
    ),
    ModelFormat(
        options=(re.escape(many_languages.OPTIONS),),
        weights=(re.escape(many_languages.ENCODER),),
        files=many_languages.FILES,
        lstms=("forward_layer_", "backward_layer_"),
        read_architecture=many_languages.read_architecture,
        tables=many_languages.tables,
        open=_open_state_dict,
        suffixes=(".pkl",),
        reads_any_json=True,
    ),
)
"""bilm-tf's format, which this package writes, and that of ELMoForManyLangs."""

EXPECTED = (
    f"{OPTIONS} and {WEIGHTS}, or files whose names end in these, or .hdf5 or .h5; or "
    f"{many_languages.OPTIONS} and {many_languages.ENCODER} of ELMoForManyLangs"
)
"""The formats, for error messages."""

PUBLISHED_NAMES = tuple(dict.fromkeys(name for found in FORMATS for name in found.files))
"""Names of a model's files in a repository of the Hugging Face Hub."""
