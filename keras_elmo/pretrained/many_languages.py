"""The model files of ELMoForManyLangs (Che et al. 2018): reading and writing them."""

import contextlib
import dataclasses
import functools
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn

import numpy as np

from keras_elmo.config import ElmoConfig, read_json
from keras_elmo.pretrained.archive import PICKLED_EMBEDDER, PICKLED_ENCODER, PICKLED_OPTIONS
from keras_elmo.pretrained.hdf5 import check_arrays, values_of, variable_at
from keras_elmo.pretrained.torch_files import open_state_dict, write_state_dict
from keras_elmo.text.lexicon import CHARACTERS_FILE, WORDS_FILE, Lexicon

_ARCHITECTURE_FILE = "architecture.json"

_PUBLISHED = {
    "encoder": {
        "name": "elmo",
        "projection_dim": 512,
        "dim": 4096,
        "n_layers": 2,
        "cell_clip": 3,
        "proj_clip": 3,
    },
    "token_embedder": {
        "name": "cnn",
        "activation": "relu",
        "filters": ElmoConfig().filters,  # those of bilm-tf's original model
        "n_highway": 2,
        "word_dim": 100,
        "char_dim": 50,
        "max_characters_per_token": 50,
    },
}
_PUBLISHED_NAMES = ("cnn_50_100_512_4096_sample.json", "cnn_0_100_512_4096_sample.json")
_OTHER_MODEL = (
    "Check that word.dic, char.dic, both .pkl files and the architecture are of one model (the "
    "published architecture is taken where its file is not there), or download it again."
)


def read_architecture(options: str | os.PathLike) -> tuple[ElmoConfig, Lexicon]:
    """The architecture and the lexicon of the model in a folder.

    The file of the architecture is looked for where the original does: at the `config_path` of
    config.json, seen from the folder; in the folder; then it may be the published one.

    Args:
        options: The folder's config.json.

    Raises:
        FileNotFoundError: if a file is missing.
        ValueError: if a file is damaged, or the architecture is of another kind.
    """
    folder = Path(options).parent
    fields = _fields(_architecture(folder, read_json(options).get("config_path")))
    lexicon = Lexicon.from_folder(
        folder,
        words=fields["word_dim"] > 0,
        characters=fields["filters"] is not None,
        max_characters_per_token=fields["max_characters_per_token"],
    )
    sizes: dict[str, Any] = {
        "vocabulary_size": lexicon.words and len(lexicon.words),
        "num_characters": lexicon.characters and len(lexicon.characters),
    }
    return ElmoConfig(**fields, **sizes, always_project=True), lexicon


def load_weights(
    owner: Any, config: ElmoConfig, encoder: str | os.PathLike, without_token_encoder: bool = False
) -> None:
    """Loads a model's weights; arguments are those of `keras_elmo.pretrained.formats.load_weights`.

    All names and shapes are checked before the first variable changes.

    Raises:
        FileNotFoundError: if a file is missing.
        ValueError: if an array is missing, unknown or misshapen, or a file is damaged or unsafe.
    """
    if Path(encoder).name == PICKLED_EMBEDDER:
        raise ValueError(
            f"{encoder} has no LSTMs: the pair of a model of ELMoForManyLangs is {PICKLED_OPTIONS} "
            f"and {PICKLED_ENCODER}, and {PICKLED_EMBEDDER} is read from beside them."
        )
    tables = {Path(encoder): _encoder_table(config)}
    if not without_token_encoder:
        tables[Path(encoder).with_name(PICKLED_EMBEDDER)] = _embedder_table(config)
    with contextlib.ExitStack() as stack:
        found = {path: stack.enter_context(open_state_dict(path)) for path in tables}
        for path, entries in tables.items():
            _check_rows(path, entries, found[path])
            check_arrays(path, entries, found[path], _OTHER_MODEL)
        for path, entries in tables.items():
            for entry in entries:
                values = entry.split(found[path][entry.name].read().astype("float32", copy=False))
                for path_of_variable, value in zip(entry.variables, values):
                    variable_at(owner, path_of_variable).assign(value)


def write_model(
    folder: str | os.PathLike, owner: Any, config: ElmoConfig, lexicon: Lexicon
) -> None:
    """Writes a model, one with a lexicon, as ELMoForManyLangs reads it, into an empty folder."""
    folder = Path(folder)
    lexicon.to_folder(folder)
    if lexicon.words is None:  # the original's training writes one, too
        (folder / WORDS_FILE).write_text("", encoding="utf-8")
    for name, values in (
        (_ARCHITECTURE_FILE, _values(config)),
        (PICKLED_OPTIONS, {"config_path": _ARCHITECTURE_FILE}),
    ):
        (folder / name).write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
    tables = {PICKLED_ENCODER: _encoder_table(config), PICKLED_EMBEDDER: _embedder_table(config)}
    for name, entries in tables.items():
        arrays = [(e.name, e.shape, functools.partial(_array, owner, e)) for e in entries]
        write_state_dict(folder / name, arrays)


def _array(owner, entry):
    return entry.join(values_of(owner, entry.variables))


@dataclasses.dataclass(frozen=True)
class _Entry:
    """One array of a state dict, and the paths of the layers' variables that hold it."""

    name: str
    shape: tuple[int, ...]
    variables: tuple[str, ...]
    split: Callable[[np.ndarray], Sequence[np.ndarray]] = lambda array: [array]
    join: Callable[[Sequence[np.ndarray]], np.ndarray] = lambda values: values[0]


def _embedder_table(config):
    """The arrays of token_embedder.pkl."""
    encoder, dim, entries = "token_encoder", config.projection_dim, []
    if config.word_dim:
        shape = (config.vocabulary_size, config.word_dim)
        entries.append(
            _Entry("word_emb_layer.embedding.weight", shape, (f"{encoder}.word_embedding",))
        )
    layers = [f"{encoder}.word_projection"] if config.word_dim else []
    if config.reads_characters:
        encoder = f"{encoder}.characters" if config.word_dim else encoder
        layers.append(f"{encoder}.projection")
        entries += _character_entries(config, encoder)
    # Words have the first columns, characters the others.
    ends = [config.word_dim] if len(layers) == 2 else []
    shape = (dim, config.word_dim + config.num_filters)
    return [
        *entries,
        _Entry(
            "projection.weight",
            shape,
            tuple(f"{layer}.kernel" for layer in layers),
            lambda array: [columns.T for columns in np.split(array, ends, axis=1)],
            lambda values: np.concatenate([value.T for value in values], axis=1),
        ),
        _Entry("projection.bias", (dim,), (f"{layers[-1]}.bias",)),
    ]


def _character_entries(config, encoder):
    dim, num_filters = config.char_embedding_dim, config.num_filters
    shape = (config.num_characters, dim)
    yield _Entry("char_emb_layer.embedding.weight", shape, (f"{encoder}.char_embedding",))
    for i, (width, number) in enumerate(config.filters):
        name, layer = f"convolutions.{i}", f"{encoder}.convolutions.{i}"
        shape, kernel = (number, dim, width), (f"{layer}.kernel",)
        yield _Entry(f"{name}.weight", shape, kernel, lambda x: [x.T], lambda values: values[0].T)
        yield _Entry(f"{name}.bias", (number,), (f"{layer}.bias",))
    for i in range(config.num_highway):
        layer = f"{encoder}.highways.{i}"
        for name, attribute, shape in (
            ("weight", "kernel", (2 * num_filters, num_filters)),
            ("bias", "bias", (2 * num_filters,)),
        ):
            variables = (f"{layer}.transform.{attribute}", f"{layer}.gate.{attribute}")
            name = f"highways._layers.{i}.{name}"
            yield _Entry(name, shape, variables, _split_highway, _join_highway)


def _encoder_table(config):
    """The arrays of encoder.pkl."""
    units, dim = config.lstm_dim, config.projection_dim
    entries = []
    for i in range(config.num_layers):
        for direction in ("forward", "backward"):
            name, lstm = f"{direction}_layer_{i}", f"bilm.{direction}_lstms.{i}"
            gates = (lambda x: [_swap_gates(x)], lambda values: _swap_gates(values[0]))
            kernel, recurrent = (f"{lstm}.kernel",), (f"{lstm}.recurrent_kernel",)
            bias, projection = (f"{lstm}.bias",), (f"{lstm}.projection_kernel",)
            entries += [
                _Entry(f"{name}.input_linearity.weight", (4 * units, dim), kernel, *gates),
                _Entry(f"{name}.state_linearity.weight", (4 * units, dim), recurrent, *gates),
                _Entry(f"{name}.state_linearity.bias", (4 * units,), bias, _split_bias, _join_bias),
                _Entry(f"{name}.state_projection.weight", (dim, units), projection),
            ]
    return entries


def _swap_gates(array):
    """Their gates i, f, j, o as ours i, j, f, o; and back."""
    return array.reshape(4, -1)[[0, 2, 1, 3]].reshape(array.shape)


def _split_bias(bias):
    # They store the 1 of the forget gate; here it is added when running.
    return [_swap_gates(bias - np.repeat(np.float32([0, 1, 0, 0]), len(bias) // 4))]


def _join_bias(values):
    bias = _swap_gates(values[0])
    return bias + np.repeat(np.float32([0, 1, 0, 0]), len(bias) // 4)


def _split_highway(array):
    """The transform, and the gate, which here lets the transform pass and there the input."""
    size = len(array) // 2
    return [array[:size].T, -array[size:].T]


def _join_highway(values):
    transform, gate = values
    return np.concatenate([transform.T, -gate.T])


def _check_rows(path, entries, found):
    """Raises ValueError if a table has another number of rows than its file of the lexicon."""
    files = {"word_emb_layer": WORDS_FILE, "char_emb_layer": CHARACTERS_FILE}
    for entry in entries:
        name, array = files.get(entry.name.split(".")[0]), found.get(entry.name)
        if name is None or array is None or not array.shape or array.shape[0] == entry.shape[0]:
            continue
        raise ValueError(
            f"{name} in {path.parent} lists {entry.shape[0]:,} entries, but the table in "
            f"{path.name} has {array.shape[0]:,} rows: they are of two models. {_OTHER_MODEL}"
        )


def _architecture(folder, config_path):
    """The content of the file of the architecture."""
    if not isinstance(config_path, str) or not config_path:
        raise ValueError(
            f"{folder / PICKLED_OPTIONS} has no config_path, the file of the architecture."
        )
    name = PurePosixPath(config_path).name
    for path in (folder / config_path, folder / name):
        if os.path.isfile(path):  # unlike Path.is_file, False for a name that is too long
            return read_json(path)
    if name in _PUBLISHED_NAMES:
        return _PUBLISHED
    raise FileNotFoundError(
        f"There is no {name} in {folder}, the architecture that {PICKLED_OPTIONS} names: put it "
        "there."
    )


def _fields(architecture: dict[str, Any]) -> dict[str, Any]:
    """The fields of an `ElmoConfig`, but for the sizes of the lexicon."""
    encoder, embedder = (_section(architecture, x) for x in ("encoder", "token_embedder"))
    if _value(encoder, "encoder", "name") != "elmo":
        _fail("encoder.name", encoder["name"], "'elmo', the only one of published models")
    if str(_value(embedder, "token_embedder", "name")).lower() != "cnn":
        _fail("token_embedder.name", embedder["name"], "'cnn', the only one that reads characters")
    names = {"dim": "lstm_dim", "n_layers": "num_layers", "projection_dim": "projection_dim"}
    fields = {ours: _value(encoder, "encoder", theirs) for theirs, ours in names.items()}
    for clip in ("cell_clip", "proj_clip"):
        fields[clip] = _value(encoder, "encoder", clip) or None  # 0 is none, too
    for name in ("activation", "max_characters_per_token", "word_dim"):
        fields[name] = _value(embedder, "token_embedder", name)
    num_highway, filters = (_value(embedder, "token_embedder", x) for x in ("n_highway", "filters"))
    if (char_dim := _value(embedder, "token_embedder", "char_dim")) == 0:
        return {**fields, "filters": None}
    fields |= {"num_highway": num_highway, "char_embedding_dim": char_dim}
    return {**fields, "filters": filters}


def _values(config):
    """The content of the file of the architecture."""
    encoder = {
        "name": "elmo",
        "projection_dim": config.projection_dim,
        "dim": config.lstm_dim,
        "n_layers": config.num_layers,
        "cell_clip": config.cell_clip or 0,
        "proj_clip": config.proj_clip or 0,
    }
    embedder = {
        "name": "cnn",
        "activation": config.activation,
        "filters": list(map(list, config.filters or ())),
        "n_highway": config.num_highway,
        "word_dim": config.word_dim,
        "char_dim": config.char_embedding_dim if config.reads_characters else 0,
        "max_characters_per_token": config.max_characters_per_token,
    }
    return {"encoder": encoder, "token_embedder": embedder, "dropout": 0.1}


def _section(architecture, name):
    section = architecture.get(name)
    if not isinstance(section, dict):
        _fail(name, section, "an object, as ELMoForManyLangs has it")
    return section


def _value(section, named, key):
    if key not in section:
        _fail(f"{named}.{key}", None, "a value: ELMoForManyLangs needs the field")
    return section[key]


def _fail(field: str, value: Any, expected: str) -> NoReturn:
    raise ValueError(f"The architecture has {field} = {value!r:.200}: expected {expected}.")
