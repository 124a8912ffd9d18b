"""The model files of ELMoForManyLangs (Che et al. 2018): reading them."""

import os
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from keras_elmo.config import ElmoConfig
from keras_elmo.files import read_json
from keras_elmo.pretrained.weight_table import WeightEntry
from keras_elmo.text.lexicon import CHARACTERS_FILE, WORDS_FILE, Lexicon

OPTIONS, ENCODER, EMBEDDER = "config.json", "encoder.pkl", "token_embedder.pkl"
FILES = (OPTIONS, ENCODER, EMBEDDER, "architecture.json", WORDS_FILE, CHARACTERS_FILE)
"""Names of the files of a model."""

# Sections of an architecture, the kind that is read, and the fields of an `ElmoConfig` in each.
_SECTIONS = {
    "encoder": (
        "elmo",
        {
            "projection_dim": "projection_dim",
            "dim": "lstm_dim",
            "n_layers": "num_layers",
            "cell_clip": "cell_clip",
            "proj_clip": "proj_clip",
        },
    ),
    "token_embedder": (
        "cnn",
        {
            "activation": "activation",
            "filters": "filters",
            "n_highway": "num_highway",
            "word_dim": "word_dim",
            "char_dim": "char_embedding_dim",
            "max_characters_per_token": "max_characters_per_token",
        },
    ),
}
_PUBLISHED_NAMES = ("cnn_50_100_512_4096_sample.json", "cnn_0_100_512_4096_sample.json")
_PUBLISHED = {
    "encoder": {"name": "elmo"}
    | {"projection_dim": 512, "dim": 4096, "n_layers": 2, "cell_clip": 3, "proj_clip": 3},
    "token_embedder": {"name": "cnn", "activation": "relu"}
    | {"n_highway": 2, "word_dim": 100, "char_dim": 50, "max_characters_per_token": 50}
    | {"filters": [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]]},
}


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


def tables(weights: Path, config: ElmoConfig) -> dict[Path, Sequence[WeightEntry]]:
    """The arrays that each file must hold, from the path of encoder.pkl.

    A model that reads stored token vectors needs no token_embedder.pkl.
    """
    embedder = {weights.with_name(EMBEDDER): embedder_table(config)} if config.reads_text else {}
    return {**embedder, weights: encoder_table(config)}


def embedder_table(config: ElmoConfig) -> list[WeightEntry]:
    """The arrays of token_embedder.pkl."""
    characters, layers, entries = "token_encoder", [], []
    if config.word_dim:
        shape: Any = (config.vocabulary_size, config.word_dim)
        path = "token_encoder.words.embedding"
        entries.append(WeightEntry("word_emb_layer.embedding.weight", shape, (path,)))
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
    name, shape = "char_emb_layer.embedding.weight", (config.num_characters, dim)
    yield WeightEntry(name, shape, (f"{encoder}.char_embedding",))
    for i, (width, number) in enumerate(config.filters):
        name, shape = f"convolutions.{i}", (number, dim, width)
        layer = f"{encoder}.{name}"
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


def encoder_table(config: ElmoConfig) -> list[WeightEntry]:
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


def _architecture(folder, config_path):
    """The content of the architecture's file."""
    if not isinstance(config_path, str) or not config_path:
        raise ValueError(
            f"{folder / OPTIONS} has no config_path, which must name the architecture file."
        )
    name = PurePosixPath(config_path).name
    for path in (folder / config_path, folder / name):
        if os.path.isfile(path):  # unlike Path.is_file, False for a name that is too long
            return read_json(path)
    if name in _PUBLISHED_NAMES:
        return _PUBLISHED
    raise FileNotFoundError(
        f"{folder} has no {name}, the architecture that {OPTIONS} names: put it there."
    )


def _fields(architecture):
    """The fields of an `ElmoConfig`, except for the sizes of the lexicon."""
    fields = {}
    for section, (kind, known) in _SECTIONS.items():
        values = architecture.get(section)
        if not isinstance(values, dict) or str(values.get("name")).lower() != kind:
            raise ValueError(
                f"Expected the {section} of the architecture to be an object with the name "
                f"{kind!r}, the only one of published models; got {values!r:.200}."
            )
        if missing := known.keys() - values.keys():
            raise ValueError(f"The architecture has no {section}.{min(missing)}: add it.")
        fields |= {field: values[name] for name, field in known.items()}
    for clip in ("cell_clip", "proj_clip"):
        fields[clip] = fields[clip] or None  # 0 means no clipping, too
    if fields["char_embedding_dim"] == 0:
        del fields["char_embedding_dim"], fields["num_highway"]
        fields["filters"] = None
    return fields
