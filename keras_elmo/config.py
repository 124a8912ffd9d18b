"""The architecture of a biLM: reading, checking and writing bilm-tf's options.json."""

import dataclasses
import json
import math
import os
from typing import Any, NoReturn

from keras_elmo.atomic import atomic_write

NUM_CHARACTERS = 261
"""Character ids of a token: 256 bytes, four boundary marks and the padding inside a word."""

_NUM_CHARACTERS_WITH_PADDING = NUM_CHARACTERS + 1
"""What inference files call `n_characters`: the same ids and the padding of a sentence."""

MIN_CHARACTERS_PER_TOKEN = 3
"""Begin of word, one byte or sentence mark, end of word."""

_ACTIVATIONS = ("relu", "tanh")
_CHAR_CNN_KEYS = {
    "activation",
    "embedding",
    "filters",
    "max_characters_per_token",
    "n_characters",
    "n_highway",
}
_LSTM_KEYS = {
    "cell_clip",
    "dim",
    "n_layers",
    "proj_clip",
    "projection_dim",
    "use_skip_connections",
}
_ORIGINAL_FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
_BILM_TF_NAMES = {
    "num_highway": "n_highway",
    "num_layers": "n_layers",
    "vocabulary_size": "n_tokens_vocab",
}
_MISSING = object()


@dataclasses.dataclass(frozen=True)
class ElmoConfig:
    """The architecture of a bidirectional language model (biLM).

    The defaults are those of the published 'original' model: 93.6 M parameters.

    Args:
        filters: Convolutions over characters, a sequence of `(width, number)` pairs. `None` for a
            model that reads whole words and has no character encoder.
        char_embedding_dim: Size of a character's vector.
        activation: `"relu"` or `"tanh"`, after the convolutions.
        max_characters_per_token: Characters of a token, its begin and end marks included. Longer
            tokens are truncated.
        num_highway: Highway layers after the convolutions; 0 for none.
        lstm_dim: Units of an LSTM cell.
        projection_dim: Size of a token's vector in one direction. Where it equals `lstm_dim` the
            LSTM has no projection, and where it equals the number of filters the character
            encoder has none.
        num_layers: LSTM layers.
        cell_clip: Bound on the LSTM cell's values, or `None`.
        proj_clip: Bound on the projected LSTM output, or `None`.
        use_skip_connections: Whether LSTM layers after the first add their input to their output.
        bidirectional: Whether there is a backward direction too.
        vocabulary_size: Words in the vocabulary, boundaries included; needed by models that read
            whole words.
        training_options: The other fields of options.json (bilm-tf keeps the settings of the
            training there). Kept and written back, not interpreted.

    Raises:
        ValueError: if a field's value is invalid, or contradicts another field's.

    Example:

    >>> config = ElmoConfig(lstm_dim=512, projection_dim=128, num_highway=1)
    >>> config.output_dim
    256

    Reference: the options of
    [bilm-tf](https://github.com/allenai/bilm-tf) (Peters et al. 2018, section 3).
    """

    filters: tuple | None = _ORIGINAL_FILTERS
    char_embedding_dim: int = 16
    activation: str = "relu"
    max_characters_per_token: int = 50
    num_highway: int = 2
    lstm_dim: int = 4096
    projection_dim: int = 512
    num_layers: int = 2
    cell_clip: float | None = 3.0
    proj_clip: float | None = 3.0
    use_skip_connections: bool = True
    bidirectional: bool = True
    vocabulary_size: int | None = None
    training_options: dict = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.filters is not None:
            object.__setattr__(self, "filters", _checked_filters(self.filters))
        _check_integer("char_embedding_dim", self.char_embedding_dim, 1)
        if self.activation not in _ACTIVATIONS:
            _fail("activation", self.activation, "'relu' or 'tanh'")
        _check_integer(
            "max_characters_per_token", self.max_characters_per_token, MIN_CHARACTERS_PER_TOKEN
        )
        _check_integer("num_highway", self.num_highway, 0)
        _check_integer("lstm_dim", self.lstm_dim, 1)
        _check_integer("projection_dim", self.projection_dim, 1)
        _check_integer("num_layers", self.num_layers, 1)
        for field in ("cell_clip", "proj_clip"):
            object.__setattr__(self, field, _checked_clip(field, getattr(self, field)))
        for field in ("use_skip_connections", "bidirectional"):
            if not isinstance(getattr(self, field), bool):
                _fail(field, getattr(self, field), "true or false")
        if self.vocabulary_size is not None:
            _check_integer("vocabulary_size", self.vocabulary_size, 1)
        if not isinstance(self.training_options, dict):
            _fail("training_options", self.training_options, "a dict")
        if self.filters is not None and self.widest_filter > self.max_characters_per_token:
            _fail(
                "filters",
                list(map(list, self.filters)),
                f"widths of at most max_characters_per_token={self.max_characters_per_token}",
            )

    @classmethod
    def from_json(cls, path_or_dict: str | os.PathLike | dict) -> "ElmoConfig":
        """Reads the options of bilm-tf.

        Args:
            path_or_dict: The path of an options.json, or its content as a dict.

        Returns:
            An `ElmoConfig`.

        Raises:
            FileNotFoundError: if there is no such file.
            ValueError: if the file is not a JSON object, or a field is missing, unknown or invalid;
                the message names the field, its value and what is allowed.

        Example:

        >>> ElmoConfig.from_json("options.json").projection_dim
        512
        """
        if not isinstance(path_or_dict, dict):
            return cls.from_json(_read_json_object(path_or_dict))
        options = dict(path_or_dict)
        lstm = _section(options, "lstm", _LSTM_KEYS)
        fields = {
            "lstm_dim": _required(lstm, "lstm", "dim"),
            "projection_dim": _required(lstm, "lstm", "projection_dim"),
            "num_layers": lstm.get("n_layers", 1),
            "cell_clip": lstm.get("cell_clip"),
            "proj_clip": lstm.get("proj_clip"),
            "use_skip_connections": lstm.get("use_skip_connections") or False,
            "bidirectional": options.pop("bidirectional", True),
            "vocabulary_size": options.pop("n_tokens_vocab", None),
        }
        if options.get("char_cnn") is None:
            options.pop("char_cnn", None)
            fields["filters"] = None
        else:
            fields.update(_character_fields(_section(options, "char_cnn", _CHAR_CNN_KEYS)))
        return cls(**fields, training_options=options)

    def to_dict(self) -> dict[str, Any]:
        """The options of bilm-tf as a dict, as an inference file has them (`n_characters` 262)."""
        options = {}
        if not self.bidirectional:
            options["bidirectional"] = False
        if self.filters is not None:
            options["char_cnn"] = {
                "activation": self.activation,
                "embedding": {"dim": self.char_embedding_dim},
                "filters": [list(pair) for pair in self.filters],
                "max_characters_per_token": self.max_characters_per_token,
                "n_characters": _NUM_CHARACTERS_WITH_PADDING,
                "n_highway": self.num_highway,
            }
        options["lstm"] = {
            "cell_clip": self.cell_clip,
            "dim": self.lstm_dim,
            "n_layers": self.num_layers,
            "proj_clip": self.proj_clip,
            "projection_dim": self.projection_dim,
            "use_skip_connections": self.use_skip_connections,
        }
        if self.vocabulary_size is not None:
            options["n_tokens_vocab"] = self.vocabulary_size
        return {**options, **self.training_options}

    def to_json(self, path: str | os.PathLike) -> None:
        """Writes an options.json that bilm-tf and AllenNLP read, whole or not at all.

        Args:
            path: The file to write; an existing one is replaced.

        Raises:
            FileNotFoundError: if its folder does not exist.
        """
        with atomic_write(path) as partial, open(partial, "w", encoding="utf-8") as file:
            json.dump(self.to_dict(), file, indent=1)
            file.write("\n")

    @property
    def reads_characters(self) -> bool:
        """Whether the model reads the characters of a token; else it reads whole words."""
        return self.filters is not None

    @property
    def num_filters(self) -> int:
        """Convolution filters over characters, of all widths together."""
        return sum(number for _, number in self.filters or ())

    @property
    def widest_filter(self) -> int | None:
        """Characters under the widest convolution; `None` for a model that reads whole words."""
        return max((width for width, _ in self.filters or ()), default=None)

    @property
    def num_directions(self) -> int:
        """2 for forward and backward, 1 for forward alone."""
        return 2 if self.bidirectional else 1

    @property
    def output_dim(self) -> int:
        """Size of a token's vector: `projection_dim` for each direction."""
        return self.num_directions * self.projection_dim

    def with_word_input(self, vocabulary_size: int) -> "ElmoConfig":
        """The same biLM without its character encoder, reading `vocabulary_size` whole words."""
        return dataclasses.replace(self, filters=None, vocabulary_size=int(vocabulary_size))


def _character_fields(char_cnn):
    num_characters = char_cnn.get("n_characters", NUM_CHARACTERS)
    allowed = (NUM_CHARACTERS, _NUM_CHARACTERS_WITH_PADDING)
    if num_characters not in allowed:
        _fail("char_cnn.n_characters", num_characters, " or ".join(map(str, allowed)))
    embedding = _required(char_cnn, "char_cnn", "embedding")
    if not isinstance(embedding, dict):
        _fail("char_cnn.embedding", embedding, 'an object such as {"dim": 16}')
    return {
        "filters": _required(char_cnn, "char_cnn", "filters"),
        "char_embedding_dim": _required(embedding, "char_cnn.embedding", "dim"),
        "activation": char_cnn.get("activation", "relu"),
        "max_characters_per_token": char_cnn.get("max_characters_per_token", 50),
        "num_highway": char_cnn.get("n_highway") or 0,
    }


def _read_json_object(path):
    path = os.fspath(path)
    with open(path, encoding="utf-8") as file:
        try:
            options = json.load(file)
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{path} is not a JSON file: {error}") from None
    if not isinstance(options, dict):
        raise ValueError(f"{path} must hold a JSON object, found {type(options).__name__}.")
    return options


def _section(options, name, known):
    section = options.pop(name, None)
    if not isinstance(section, dict):
        _fail(name, section, f"an object with the fields {', '.join(sorted(known))}")
    unknown = sorted(set(section) - known)
    if unknown:
        raise ValueError(
            f"Unknown field {name}.{unknown[0]} = {section[unknown[0]]!r} in the options; "
            f"known fields of {name}: {', '.join(sorted(known))}."
        )
    return section


def _required(section, name, field):
    value = section.get(field, _MISSING)
    if value is _MISSING:
        raise ValueError(
            f"The options have no field {name}.{field}; found {name} = {dict(section)!r}."
        )
    return value


def _checked_filters(filters):
    allowed = "a list of [width, number] pairs of positive integers, such as [[1, 32], [2, 64]]"
    try:
        pairs = tuple((width, number) for width, number in filters)
    except (TypeError, ValueError):
        _fail("filters", filters, allowed)
    if not pairs or not all(_is_integer(n) and n >= 1 for pair in pairs for n in pair):
        _fail("filters", filters, allowed)
    return pairs


def _checked_clip(field, value):
    if value is None:
        return None
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not 0 < value < math.inf:
        _fail(field, value, "a positive number, or null for no clipping")
    return float(value)


def _check_integer(field, value, smallest):
    if not _is_integer(value) or value < smallest:
        _fail(field, value, f"an integer of at least {smallest}")


def _is_integer(value):
    return isinstance(value, int) and not isinstance(value, bool)


def _fail(field: str, value: Any, allowed: str) -> NoReturn:
    named = f" ({_BILM_TF_NAMES[field]} in options.json)" if field in _BILM_TF_NAMES else ""
    raise ValueError(f"Bad option {field}{named} = {value!r}: expected {allowed}.")
