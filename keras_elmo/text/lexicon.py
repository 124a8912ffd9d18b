"""Tokens to ids of words and code points in NumPy: the rules of ELMoForManyLangs."""

import itertools
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from keras_elmo.arguments import check_integer
from keras_elmo.config import MIN_CHARACTERS_PER_TOKEN, MIN_CODE_POINTS_PER_TOKEN
from keras_elmo.text.characters import TokenEncoder, add_boundaries
from keras_elmo.text.tokens import token_bytes

WORDS_FILE, CHARACTERS_FILE = "word.dic", "char.dic"

# How the files name the marks. The original begins a word with `<eow>` and ends it with `<bow>`.
BEGIN, END, UNKNOWN, PADDING = "<bos>", "<eos>", "<oov>", "<pad>"
BEGIN_WORD, END_WORD = "<eow>", "<bow>"
_CHARACTER_MARKS = (BEGIN, END, UNKNOWN, PADDING, BEGIN_WORD, END_WORD)
_IDEOGRAPHIC_SPACE = "\u3000"
_FIELDS = ("words", "characters", "max_characters_per_token")


class Lexicon(TokenEncoder):
    """The words and code points that a model of ELMoForManyLangs knows: tokens to rows of ids.

    A row has the token's index among the words plus 1, if there are words; then, if there are
    characters, the indices of its code points plus 1, between two marks and padded. Longer tokens
    are truncated first. Case, digits and Unicode normal forms are kept. A token `"<bos>"` or
    `"<eos>"` is a boundary at any position.

    Args:
        words: The words in the order of their ids, `<oov>` among them; `None` for a model that
            reads none.
        characters: The code points in the order of their ids, with `<bos>`, `<eos>`, `<oov>`,
            `<pad>`, `<bow>` and `<eow>`; `None` for a model that reads none.
        max_characters_per_token: Characters of a token, including its two marks.

    Attributes:
        words, characters: Lists of `str`, or `None`.

    Raises:
        ValueError: if a mark is missing, an entry cannot be written on a line of the files, both
            words and characters are `None`, or `max_characters_per_token` is too small.

    Example:

    >>> lexicon = Lexicon(["<oov>", "<bos>", "<eos>", "<pad>", "chat", "noir"])
    >>> lexicon.encode_sentences([["chat", "bleu"]])[..., 0]
    array([[2, 5, 1, 3]], dtype=int32)

    Reference: ELMoForManyLangs (Che et al. 2018); docs/LANGUAGES.md.
    """

    def __init__(
        self,
        words: Iterable[str] | None = None,
        characters: Iterable[str] | None = None,
        max_characters_per_token: int = 50,
    ) -> None:
        self.words = None if words is None else list(words)
        self.characters = None if characters is None else list(characters)
        if self.words is None and self.characters is None:
            raise ValueError("A lexicon needs words, characters or both; got neither.")
        least = MIN_CHARACTERS_PER_TOKEN if characters is None else MIN_CODE_POINTS_PER_TOKEN
        self.max_characters_per_token = check_integer(
            "max_characters_per_token", max_characters_per_token, least
        )
        self.word_ids = _ids(self.words, (UNKNOWN,), WORDS_FILE)
        self.character_ids = _ids(self.characters, _CHARACTER_MARKS, CHARACTERS_FILE)
        self.width, self.padding = int(self.words is not None), 0
        if self.character_ids is not None:
            self.width += self.max_characters_per_token
            self.padding = self.character_ids[PADDING] + 1

    @classmethod
    def from_folder(
        cls,
        folder: str | os.PathLike,
        *,
        words: bool = True,
        characters: bool = True,
        max_characters_per_token: int = 50,
    ) -> "Lexicon":
        """Reads word.dic and char.dic; each line has an entry, a tab and its id.

        Args:
            folder: The folder of both.
            words, characters: Whether each of them is read.
            max_characters_per_token: As for the class.

        Raises:
            FileNotFoundError: if a file is missing.
            ValueError: if a line or the ids of a file are invalid.

        Example:

        >>> Lexicon.from_folder("many-languages/158").words[:2]
        ['<oov>', '<bos>']
        """
        return cls(
            _read(Path(folder) / WORDS_FILE) if words else None,
            _read(Path(folder) / CHARACTERS_FILE) if characters else None,
            max_characters_per_token,
        )

    @property
    def files(self) -> dict[str, list[str]]:
        """The entries of the files of `from_folder`, by file name."""
        files = {WORDS_FILE: self.words, CHARACTERS_FILE: self.characters}
        return {name: entries for name, entries in files.items() if entries is not None}

    def write(self, name: str, path: str | os.PathLike) -> None:
        """Writes one of the `files` to a path, as `from_folder` reads it."""
        lines = (f"{entry}\t{i}\n" for i, entry in enumerate(self.files[name]))
        Path(path).write_bytes("".join(lines).encode())

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Lexicon":
        """The lexicon of which `to_dict` made `values`."""
        try:
            *texts, width = (values[name] for name in _FIELDS)
            words, characters = (None if text is None else text.split("\n") for text in texts)
        except (AttributeError, KeyError, TypeError):
            raise ValueError(
                f"Expected a dict made by Lexicon.to_dict, with {', '.join(_FIELDS)}; got "
                f"{values!r:.200}."
            ) from None
        return cls(words, characters, width)

    def to_dict(self) -> dict[str, Any]:
        """The lexicon as strings and numbers, for JSON; an entry has no line break in it."""
        lists = (self.words, self.characters)
        texts = (None if entries is None else "\n".join(entries) for entries in lists)
        return dict(zip(_FIELDS, (*texts, self.max_characters_per_token)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lexicon) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]  # its lists can change

    def __repr__(self) -> str:
        num_words, num_characters = (len(x or ()) for x in (self.words, self.characters))
        return f"<Lexicon of {num_words:,} words and {num_characters:,} characters>"

    def key(self, word: bytes) -> bytes:
        return word.decode()[: self.max_characters_per_token - 2].encode()

    def special_rows(self) -> np.ndarray:
        rows = self._rows([BEGIN, END])
        return np.concatenate([np.zeros_like(rows[:1]), rows])

    def encode_words(self, words: Iterable[str | bytes]) -> np.ndarray:
        most = self.max_characters_per_token - 2
        return self._rows([token_bytes(word).decode()[:most] for word in words])

    def _rows(self, texts):
        columns = []
        if self.words is not None:
            ids = [self.word_ids.get(text, self.word_ids[UNKNOWN]) for text in texts]
            columns.append(np.array(ids, np.int32).reshape(-1, 1) + 1)
        if self.characters is not None:
            columns.append(self._character_rows(texts))
        return np.concatenate(columns, axis=1)

    def _character_rows(self, texts):
        ids, unknown = self.character_ids, self.character_ids[UNKNOWN]
        marks = [[text] if text in (BEGIN, END) else text for text in texts]
        values = [ids.get(mark, unknown) for mark in itertools.chain.from_iterable(marks)]
        begin, end, padding = (ids[mark] for mark in (BEGIN_WORD, END_WORD, PADDING))
        lengths, width = list(map(len, marks)), self.max_characters_per_token
        return add_boundaries(lengths, np.array(values, np.int32), begin, end, padding, width) + 1


def _ids(entries, marks, name):
    """The id of each entry; of one listed twice the last, as in the original."""
    if entries is None:
        return None
    for i, entry in enumerate(entries):
        if not _is_entry(entry):
            raise ValueError(
                f"Entry {i} of {name} must be a string that does not begin with white space, "
                f"without tabs and line breaks; got {entry!r:.60}."
            )
    ids = {entry: i for i, entry in enumerate(entries)}
    if missing := [mark for mark in marks if mark not in ids]:
        raise ValueError(f"{name} does not list {' and '.join(missing)}, which a model needs.")
    return ids


def _is_entry(entry):
    """Whether reading a line of a file gives the entry that was written to it."""
    if not isinstance(entry, str) or not entry or not {"\t", "\n", "\r"}.isdisjoint(entry):
        return False
    return entry == _IDEOGRAPHIC_SPACE or not entry[0].isspace()


def _read(path):
    try:
        lines = path.read_text("utf-8").removesuffix("\n").split("\n")
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} does not exist: the model needs it.") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 ({error}). Download or copy it again.") from None
    try:
        # An entry of white space is stripped away; the original takes it for this one.
        parts = (line.strip().rpartition("\t") for line in lines)
        entries = {int(place): entry or _IDEOGRAPHIC_SPACE for entry, _, place in parts}
        return [entries[i] for i in range(len(lines))]
    except (KeyError, ValueError):
        raise ValueError(
            f"{path}: expected on each line an entry, a tab and its id, each id from 0 to "
            f"{len(lines) - 1} once. Download or copy it again."
        ) from None
