"""The model files of ELMoForManyLangs (Che et al. 2018): reading them."""

import contextlib
import os
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn

import numpy as np

from keras_elmo.config import ElmoConfig, read_json
from keras_elmo.pretrained.folder import PICKLED_EMBEDDER, PICKLED_ENCODER, PICKLED_OPTIONS
from keras_elmo.pretrained.hdf5 import check_arrays, variables_and_values
from keras_elmo.pretrained.torch_files import open_state_dict
from keras_elmo.pretrained.weight_table import WeightEntry
from keras_elmo.text.lexicon import CHARACTERS_FILE, WORDS_FILE, Lexicon

_WORD_TABLE = "word_emb_layer.embedding.weight"
_CHARACTER_TABLE = "char_emb_layer.embedding.weight"
# What the files name each field of an `ElmoConfig`.
_ENCODER = {
    "projection_dim": "projection_dim",
    "dim": "lstm_dim",
    "n_layers": "num_layers",
    "cell_clip": "cell_clip",
    "proj_clip": "proj_clip",
}
_TOKEN_EMBEDDER = {
    "activation": "activation",
    "filters": "filters",
    "n_highway": "num_highway",
    "word_dim": "word_dim",
    "char_dim": "char_embedding_dim",
    "max_characters_per_token": "max_characters_per_token",
}
_PUBLISHED_NAMES = ("cnn_50_100_512_4096_sample.json", "cnn_0_100_512_4096_sample.json")
_PUBLISHED = {
    "encoder": {"name": "elmo"}
    | {"projection_dim": 512, "dim": 4096, "n_layers": 2, "cell_clip": 3, "proj_clip": 3},
    "token_embedder": {"name": "cnn", "activation": "relu"}
    | {"n_highway": 2, "word_dim": 100, "char_dim": 50, "max_characters_per_token": 50}
    | {"filters": [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]]},
}
_OTHER_MODEL = (
    "Check that word.dic, char.dic, both .pkl files and the architecture belong to the same model "
    "(without an architecture file, the published one is used), or download the model again."
)


def read_architecture(options: str | os.PathLike) -> tuple[ElmoConfig, Lexicon]:
    """The architecture and the lexicon of the model in the folder of a config.json.

    The architecture's file is looked for where the original does: at the `config_path` of
    config.json, relative to the folder; then in the folder; then it may be the published one.

    Raises FileNotFoundError if a file is missing, and ValueError if one is damaged or the
    architecture is of a different kind.
    """
    folder = Path(options).parent
    fields = _fields(_architecture(folder, read_json(options).get("config_path")))
    lexicon = Lexicon.from_folder(
        folder,
        words=bool(fields["word_dim"]),
        characters=fields["filters"] is not None,
        max_characters_per_token=fields["max_characters_per_token"],
    )
    sizes: dict[str, Any] = {
        "vocabulary_size": lexicon.words and len(lexicon.words),
        "num_characters": lexicon.characters and len(lexicon.characters),
    }
    return ElmoConfig(**fields, **sizes, always_project=True), lexicon


def load_weights(
    backbone: Any, encoder: str | os.PathLike, without_token_encoder: bool = False
) -> None:
    """Loads a model's weights, as `keras_elmo.pretrained.hdf5.load_weights` does.

    Raises FileNotFoundError if a file is missing, and ValueError if an array is missing, unknown or
    misshapen, or a file is damaged or unsafe.
    """
    _check_is_encoder(encoder)
    encoder, config = Path(encoder), backbone.config
    tables = {encoder: _encoder_table(config)}
    if not without_token_encoder:
        tables[encoder.with_name(PICKLED_EMBEDDER)] = _embedder_table(config)
    with contextlib.ExitStack() as stack:
        found = {path: stack.enter_context(open_state_dict(path)) for path in tables}
        for path, entries in tables.items():
            _check_rows(path, entries, found[path])
            check_arrays(path, entries, found[path], _OTHER_MODEL)
        for path, entries in tables.items():
            for entry in entries:
                array = found[path][entry.name].read()
                for variable, value in variables_and_values(backbone, entry, array):
                    variable.assign(value)


def _check_is_encoder(path):
    if Path(path).name == PICKLED_EMBEDDER:
        raise ValueError(
            f"{path} has no LSTMs: the pair of a model of ELMoForManyLangs is {PICKLED_OPTIONS} "
            f"and {PICKLED_ENCODER}; {PICKLED_EMBEDDER} is read from the same folder."
        )


def _embedder_table(config):
    """The arrays of token_embedder.pkl."""
    characters, layers, entries = "token_encoder", [], []
    if config.word_dim:
        shape = (config.vocabulary_size, config.word_dim)
        entries.append(WeightEntry(_WORD_TABLE, shape, ("token_encoder.words.embedding",)))
        layers.append("token_encoder.word_projection")
        characters += ".characters"
    if config.reads_characters:
        entries += _character_entries(config, characters)
        layers.append(f"{characters}.projection")
    # Words have the first columns, characters the others.
    ends = [config.word_dim] if len(layers) == 2 else []
    return [
        *entries,
        WeightEntry(
            "projection.weight",
            (config.projection_dim, config.word_dim + config.num_filters),
            tuple(f"{layer}.kernel" for layer in layers),
            lambda array: [columns.T for columns in np.split(array, ends, axis=1)],
        ),
        WeightEntry("projection.bias", (config.projection_dim,), (f"{layers[-1]}.bias",)),
    ]


def _character_entries(config, encoder):
    dim, num_filters = config.char_embedding_dim, config.num_filters
    yield WeightEntry(
        _CHARACTER_TABLE, (config.num_characters, dim), (f"{encoder}.char_embedding",)
    )
    for i, (width, number) in enumerate(config.filters):
        name, layer, shape = (
            f"convolutions.{i}",
            f"{encoder}.convolutions.{i}",
            (number, dim, width),
        )
        yield WeightEntry(f"{name}.weight", shape, (f"{layer}.kernel",), _transposed)
        yield WeightEntry(f"{name}.bias", (number,), (f"{layer}.bias",))
    for i in range(config.num_highway):
        name, layer = f"highways._layers.{i}", f"{encoder}.highways.{i}"
        for theirs, ours, shape in (
            ("weight", "kernel", (2 * num_filters, num_filters)),
            ("bias", "bias", (2 * num_filters,)),
        ):
            variables = (f"{layer}.transform.{ours}", f"{layer}.gate.{ours}")
            yield WeightEntry(f"{name}.{theirs}", shape, variables, _split_highway)


def _encoder_table(config):
    """The arrays of encoder.pkl."""
    units, dim = config.lstm_dim, config.projection_dim
    entries = []
    for i in range(config.num_layers):
        for direction in ("forward", "backward"):
            name, lstm = f"{direction}_layer_{i}", f"bilm.{direction}_lstms.{i}"
            for theirs, ours, shape, *conversions in (
                ("input_linearity.weight", "kernel", (4 * units, dim), _split_gates),
                ("state_linearity.weight", "recurrent_kernel", (4 * units, dim), _split_gates),
                ("state_linearity.bias", "bias", (4 * units,), _split_bias),
                ("state_projection.weight", "projection_kernel", (dim, units)),
            ):
                entries.append(
                    WeightEntry(f"{name}.{theirs}", shape, (f"{lstm}.{ours}",), *conversions)
                )
    return entries


def _transposed(array):
    return [array.T]


def _split_gates(array):
    """Their gates i, f, j, o as ours i, j, f, o."""
    return [array.reshape(4, -1)[[0, 2, 1, 3]].reshape(array.shape)]


def _split_bias(bias):
    """Their bias has the 1 of the forget gate, which this package adds when running."""
    return _split_gates(bias - np.repeat(np.float32([0, 1, 0, 0]), len(bias) // 4))


def _split_highway(array):
    """The transform and the gate, whose sign differs: there it lets the input pass."""
    transform, gate = np.split(array, 2)
    return [transform.T, -gate.T]


def _check_rows(path, entries, found):
    """Raises ValueError if a table has another number of rows than its file of the lexicon."""
    for entry in entries:
        file = {_WORD_TABLE: WORDS_FILE, _CHARACTER_TABLE: CHARACTERS_FILE}.get(entry.name)
        rows = found[entry.name].shape[:1] if entry.name in found else ()
        if file and rows not in ((), entry.shape[:1]):
            raise ValueError(
                f"{file} in {path.parent} lists {entry.shape[0]:,} entries, but the table in "
                f"{path.name} has {rows[0]:,} rows: they belong to different models. {_OTHER_MODEL}"
            )


def _architecture(folder, config_path):
    """The content of the architecture's file."""
    if not isinstance(config_path, str) or not config_path:
        raise ValueError(
            f"{folder / PICKLED_OPTIONS} has no config_path, which must name the architecture file."
        )
    name = PurePosixPath(config_path).name
    for path in (folder / config_path, folder / name):
        if os.path.isfile(path):  # unlike Path.is_file, False for a name that is too long
            return read_json(path)
    if name in _PUBLISHED_NAMES:
        return _PUBLISHED
    raise FileNotFoundError(
        f"{folder} has no {name}, the architecture that {PICKLED_OPTIONS} names: put it there."
    )


def _fields(architecture):
    """The fields of an `ElmoConfig`, except for the sizes of the lexicon."""
    encoder = _section(architecture, "encoder", "elmo", _ENCODER)
    embedder = _section(architecture, "token_embedder", "cnn", _TOKEN_EMBEDDER)
    for clip in ("cell_clip", "proj_clip"):
        encoder[clip] = encoder[clip] or None  # 0 means no clipping, too
    if embedder["char_embedding_dim"] == 0:
        del embedder["char_embedding_dim"], embedder["num_highway"]
        embedder["filters"] = None
    return {**encoder, **embedder}


def _section(architecture, section, kind, known):
    """The fields of an `ElmoConfig` in a section of the architecture, which must be of a kind."""
    values = architecture.get(section)
    if not isinstance(values, dict):
        _fail(section, values, "an object, as ELMoForManyLangs has it")
    for name in ("name", *known):
        if name not in values:
            _fail(f"{section}.{name}", None, "a value: ELMoForManyLangs needs the field")
    if str(values["name"]).lower() != kind:
        _fail(f"{section}.name", values["name"], f"{kind!r}, the only one of published models")
    return {field: values[name] for name, field in known.items()}


def _fail(field: str, value: Any, expected: str) -> NoReturn:
    raise ValueError(f"The architecture has {field} = {value!r:.200}: expected {expected}.")
