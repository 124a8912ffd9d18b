"""The architecture of a biLM: reading, checking and writing bilm-tf's options.json."""

import contextlib
import dataclasses
import json
import os
from collections.abc import Sequence
from typing import Any, NoReturn

from keras_elmo.arguments import check_boolean, check_integer, check_number
from keras_elmo.files import atomic_write, names_file, read_json
from keras_elmo.warn import warn

NUM_CHARACTERS = 261
"""Character ids of a token: 256 bytes, four boundary marks and the padding inside a word."""

# `n_characters` of inference files: the same ids and the padding of a sentence.
_NUM_CHARACTERS_WITH_PADDING = NUM_CHARACTERS + 1

MIN_CHARACTERS_PER_TOKEN = 3
"""Begin of word, one byte or sentence mark, end of word."""

MIN_CODE_POINTS_PER_TOKEN = 7
"""The same for code points: ELMoForManyLangs counts the five characters of a sentence mark."""

_ORIGINAL_FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
_REQUIRED = object()
# The fields of each section of options.json: their names here, and their values where absent.
_LSTM = {
    "cell_clip": ("cell_clip", None),
    "dim": ("lstm_dim", _REQUIRED),
    "n_layers": ("num_layers", 1),
    "proj_clip": ("proj_clip", None),
    "projection_dim": ("projection_dim", _REQUIRED),
    "use_skip_connections": ("use_skip_connections", False),
}
_CHAR_CNN = {
    "activation": ("activation", "relu"),
    "embedding": ("char_embedding_dim", _REQUIRED),
    "filters": ("filters", _REQUIRED),
    "max_characters_per_token": ("max_characters_per_token", 50),
    "n_characters": ("num_characters", NUM_CHARACTERS),
    "n_highway": ("num_highway", 0),
    "projection_after_highway": ("projection_after_highway", True),
}
_LEXICON = {
    "max_characters_per_token": ("max_characters_per_token", 50),
    "n_characters": ("num_characters", None),
    "n_words": ("vocabulary_size", None),
    "word_dim": ("word_dim", 0),
}
# Far beyond any real model, so that no options.json can exhaust the machine.
_MAX_LAYERS, _MAX_UNITS, _MAX_WORDS = 64, 1 << 16, 1 << 30
_RANGES = {
    "char_embedding_dim": (1, _MAX_UNITS),
    "max_characters_per_token": (MIN_CHARACTERS_PER_TOKEN, _MAX_UNITS),
    "num_highway": (0, _MAX_LAYERS),
    "lstm_dim": (1, _MAX_UNITS),
    "projection_dim": (1, _MAX_UNITS),
    "num_layers": (1, _MAX_LAYERS),
    "vocabulary_size": (1, _MAX_WORDS),
    "num_characters": (1, _MAX_WORDS),
    "word_dim": (0, _MAX_UNITS),
}
_OPTIONAL = ("vocabulary_size", "num_characters")  # may be None
_ONLY_WITH_FILTERS = ("activation", "char_embedding_dim", "num_highway")


@dataclasses.dataclass(frozen=True)
class ElmoConfig:
    """The architecture of a bidirectional language model (biLM), by default the 'original' one.

    Args:
        filters: Convolutions over characters, a sequence of `(width, number)` pairs; `None` for a
            model that reads whole words.
        char_embedding_dim: Size of a character's vector.
        activation: `"relu"` or `"tanh"`, after the convolutions.
        max_characters_per_token: Characters of a token, including its begin and end marks.
        num_highway: Highway layers after the convolutions; 0 for none.
        lstm_dim: Units of an LSTM cell.
        projection_dim: Size of a token's vector in one direction. Unless `always_project`, an LSTM
            with the same `lstm_dim` and a character encoder with as many filters have no
            projection.
        num_layers: LSTM layers.
        cell_clip: Bound on the LSTM cell's values, or `None`.
        proj_clip: Bound on the projected LSTM output, or `None`.
        use_skip_connections: Whether LSTM layers after the first add their input to their output.
        bidirectional: Whether to include the backward direction. `True` where options.json lacks
            it, as bilm-tf reads a trained model; its training then has only the forward one.
        vocabulary_size: Words in the vocabulary, needed by models that read whole words, or in the
            lexicon.
        training_options: The other fields of options.json, such as bilm-tf's training settings;
            kept and written back, not interpreted or compared.
        num_characters: Code points in the lexicon; `None` if it has none, as for bilm-tf's models,
            which read bytes.
        word_dim: Size of a word's vector in the lexicon; 0 if it has none.
        always_project: Whether LSTMs and character encoder have a projection regardless of their
            sizes, as in ELMoForManyLangs.

    Raises:
        ValueError: if a field is invalid, contradicts another, or is too large: more than 64 layers
            of a kind, 65,536 units, filters or characters, or 2**30 words.

    Example:

    >>> config = ElmoConfig(lstm_dim=512, projection_dim=128, num_highway=1)
    >>> config.output_dim
    256

    Reference: the options of bilm-tf, https://github.com/allenai/bilm-tf. The section `lexicon` and
    the field `always_project` are of this package, for models of ELMoForManyLangs.
    """

    filters: Sequence | None = _ORIGINAL_FILTERS
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
    training_options: dict = dataclasses.field(default_factory=dict, compare=False)
    num_characters: int | None = None
    word_dim: int = 0
    always_project: bool = False

    def __post_init__(self) -> None:
        if self.filters is not None:
            object.__setattr__(self, "filters", _checked_filters(self.filters))
        for field, limits in _RANGES.items():
            if field not in _OPTIONAL or getattr(self, field) is not None:
                self._check(field, check_integer, *limits)
        if self.activation not in ("relu", "tanh"):
            _fail("activation", self.activation, "'relu' or 'tanh'")
        for field in ("cell_clip", "proj_clip"):
            if getattr(self, field) is not None:
                self._check(field, check_number, above=0)
        for field in ("use_skip_connections", "bidirectional", "always_project"):
            self._check(field, check_boolean)
        if not isinstance(self.training_options, dict):
            _fail("training_options", self.training_options, "a dict")
        if (self.widest_filter or 0) > self.max_characters_per_token:
            allowed = f"widths of at most max_characters_per_token={self.max_characters_per_token}"
            _fail("filters", list(map(list, self.filters or ())), allowed)
        if self.filters is None:
            width = () if self.has_lexicon else ("max_characters_per_token",)
            for field in (*_ONLY_WITH_FILTERS, *width):
                if (value := getattr(self, field)) != getattr(ElmoConfig, field):
                    _fail(field, value, "no value, since filters=None reads no characters")
        if not self.has_lexicon:
            return
        if (self.num_characters is None) != (self.filters is None):
            allowed = "the number of code points if a lexicon's characters are read, else None"
            _fail("num_characters", self.num_characters, allowed)
        if self.word_dim and self.vocabulary_size is None:
            _fail("vocabulary_size", None, "the number of words in the lexicon")
        if self.filters and self.max_characters_per_token < MIN_CODE_POINTS_PER_TOKEN:
            allowed = f"at least {MIN_CODE_POINTS_PER_TOKEN} where code points are read"
            _fail("max_characters_per_token", self.max_characters_per_token, allowed)

    def _check(self, field, check, *limits, **others):
        object.__setattr__(self, field, check(field, getattr(self, field), *limits, **others))

    @classmethod
    def from_json(cls, path_or_dict: str | os.PathLike | dict) -> "ElmoConfig":
        """Reads the options of bilm-tf.

        Args:
            path_or_dict: The path of an options.json, or its content as a dict.

        Raises:
            FileNotFoundError: if the file does not exist.
            ValueError: if it is not a JSON object of at most 1 MiB, or as `from_dict`.

        Example:

        >>> ElmoConfig.from_json("options.json").projection_dim
        512
        """
        if isinstance(path_or_dict, dict):
            return cls.from_dict(path_or_dict)
        options = read_json(path_or_dict)
        with names_file(path_or_dict):
            return cls.from_dict(options)

    @classmethod
    def from_dict(cls, options: "dict[str, Any] | ElmoConfig") -> "ElmoConfig":
        """Reads bilm-tf's options from a dict, as `to_dict` returns it, without opening a file.

        An `ElmoConfig` is returned unchanged.

        Warns if a field that bilm-tf requires is absent, and of the value that is used.

        Raises:
            ValueError: if it is not a dict, or a field is missing, unknown or invalid.

        Example:

        >>> ElmoConfig.from_dict(ElmoConfig().to_dict()) == ElmoConfig()
        True
        """
        if isinstance(options, ElmoConfig):
            return options
        if not isinstance(options, dict):
            raise ValueError(
                f"Expected the options as a dict, got {options!r:.200}. Read a file with "
                "ElmoConfig.from_json(path)."
            )
        options = dict(options)
        if "lstm" not in options:
            found = ", ".join(map(str, options)) or "no fields"
            raise ValueError(
                f"Expected bilm-tf's options, with the field lstm; found {found:.200}. Pass the "
                "options.json that belongs to the weights."
            )
        fields = _read_section("lstm", options.pop("lstm"), _LSTM)
        char_cnn = options.pop("char_cnn", None)
        fields |= {"filters": None} if char_cnn is None else _character_fields(char_cnn)
        fields["vocabulary_size"] = options.pop("n_tokens_vocab", None)
        if (lexicon := options.pop("lexicon", None)) is not None:
            fields |= _read_section("lexicon", lexicon, _LEXICON)
            if fields["num_characters"] is None and not fields["word_dim"]:
                _fail("lexicon", lexicon, "n_characters, word_dim or both")
        elif char_cnn is not None:
            _warn_of_absent(char_cnn, "activation", "max_characters_per_token")
        return cls(
            **fields,
            bidirectional=options.pop("bidirectional", True),
            always_project=options.pop("always_project", False),
            training_options=options,
        )

    def to_dict(self) -> dict[str, Any]:
        """The options of bilm-tf as a dict, as an inference file has them (`n_characters` 262)."""
        options: dict[str, Any] = {} if self.bidirectional else {"bidirectional": False}
        options |= {"always_project": True} if self.always_project else {}
        if self.filters is not None:
            options["char_cnn"] = {
                "activation": self.activation,
                "embedding": {"dim": self.char_embedding_dim},
                "filters": list(map(list, self.filters)),
                "n_highway": self.num_highway,
            }
            if not self.has_lexicon:
                options["char_cnn"]["n_characters"] = _NUM_CHARACTERS_WITH_PADDING
                options["char_cnn"]["max_characters_per_token"] = self.max_characters_per_token
        options["lstm"] = self._section(_LSTM)
        if self.has_lexicon:
            options["lexicon"] = self._section(_LEXICON)
        elif self.vocabulary_size is not None:
            options["n_tokens_vocab"] = self.vocabulary_size
        return {**options, **self.training_options, **options}

    def _section(self, known):
        return {name: getattr(self, field) for name, (field, _) in known.items()}

    def to_json(self, path: str | os.PathLike) -> None:
        """Writes an options.json that bilm-tf and AllenNLP read, atomically.

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
        """Whether the model reads the characters of a token, not only words."""
        return self.filters is not None

    @property
    def has_lexicon(self) -> bool:
        """Whether tokens are looked up in a lexicon of words, code points or both."""
        return self.num_characters is not None or self.word_dim > 0

    @property
    def reads_text(self) -> bool:
        """Whether each token is a row of ids, `(B, T + 2, row_width)`, read from its text only."""
        return self.reads_characters or self.has_lexicon

    @property
    def row_width(self) -> int:
        """Ids of a token: of its characters, and of its word if the lexicon has words."""
        num_characters = self.max_characters_per_token if self.reads_characters else 0
        return num_characters + (self.word_dim > 0)

    @property
    def num_character_ids(self) -> int:
        """Rows of the character table: bytes and marks, or the lexicon's code points."""
        return self.num_characters or NUM_CHARACTERS

    @property
    def num_filters(self) -> int:
        """Convolution filters over characters, of all widths together."""
        return sum(number for _, number in self.filters or ())

    @property
    def projects_characters(self) -> bool:
        """Whether the character encoder ends in a projection; one of words is added to it."""
        needs_one = self.always_project or self.word_dim > 0
        return needs_one or self.num_filters != self.projection_dim

    @property
    def projects_cells(self) -> bool:
        """Whether the LSTMs have a projection."""
        return self.always_project or self.lstm_dim != self.projection_dim

    @property
    def widest_filter(self) -> int | None:
        """Characters under the widest convolution; `None` for a model that reads whole words."""
        return max((width for width, _ in self.filters or ()), default=None)

    @property
    def num_directions(self) -> int:
        """2 for forward and backward, 1 for only forward."""
        return 2 if self.bidirectional else 1

    @property
    def output_dim(self) -> int:
        """Size of a token's vector: `projection_dim` for each direction."""
        return self.num_directions * self.projection_dim

    def with_word_input(self, vocabulary_size: int) -> "ElmoConfig":
        """The same biLM without its character encoder, reading `vocabulary_size` whole words."""
        unused = (*_ONLY_WITH_FILTERS, "max_characters_per_token")
        return dataclasses.replace(
            self,
            **{field: getattr(ElmoConfig, field) for field in unused},
            filters=None,
            vocabulary_size=vocabulary_size,
            num_characters=None,
            word_dim=0,
        )


def _character_fields(char_cnn):
    fields = _read_section("char_cnn", char_cnn, _CHAR_CNN)
    allowed = (NUM_CHARACTERS, _NUM_CHARACTERS_WITH_PADDING)
    if (num_characters := fields.pop("num_characters")) not in allowed:
        _fail("char_cnn.n_characters", num_characters, " or ".join(map(str, allowed)))
    if not fields.pop("projection_after_highway"):
        _fail("char_cnn.projection_after_highway", False, "true, which is what bilm-tf computes")
    embedding = fields["char_embedding_dim"]
    if not isinstance(embedding, dict):
        _fail("char_cnn.embedding", embedding, 'an object such as {"dim": 16}')
    return {**fields, "char_embedding_dim": embedding.get("dim")}


def _read_section(section, values, known):
    if not isinstance(values, dict):
        _fail(section, values, f"an object with the fields {', '.join(known)}")
    if unknown := sorted(values.keys() - known.keys()):
        raise ValueError(
            f"Unknown field {section}.{unknown[0]} = {values[unknown[0]]!r:.200} in the options; "
            f"known fields of {section}: {', '.join(known)}."
        )
    fields = {}
    for name, (field, absent) in known.items():
        value = values.get(name)
        fields[field] = absent if value is None else value
        if fields[field] is _REQUIRED:
            raise ValueError(
                f"The options have no field {section}.{name}; found {section} = {values!s:.200}."
            )
    return fields


def _warn_of_absent(char_cnn, *names):
    for name in names:
        if char_cnn.get(name) is None:
            warn(
                f"The options have no char_cnn.{name}, which bilm-tf requires: "
                f"{_CHAR_CNN[name][1]!r} is used, as in the published models."
            )


def _checked_filters(filters):
    with contextlib.suppress(TypeError, ValueError):
        pairs = tuple(tuple(check_integer("", n, 1, _MAX_UNITS) for n in pair) for pair in filters)
        if 0 < len(pairs) <= _MAX_LAYERS and {*map(len, pairs)} == {2}:
            return pairs
    allowed = (
        f"a list of at most {_MAX_LAYERS} [width, number] pairs of integers from 1 to "
        f"{_MAX_UNITS:,}, such as [[1, 32], [2, 64]]"
    )
    _fail("filters", filters, allowed)


def _fail(field: str, value: Any, allowed: str) -> NoReturn:
    raise ValueError(f"Invalid option {field} = {value!r:.200}: expected {allowed}.")
