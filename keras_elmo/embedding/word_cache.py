"""Token vectors of words met before, so that their characters are read only once."""

import collections
import itertools
import os
from collections.abc import Callable

import numpy as np

from keras_elmo.atomic import atomic_write
from keras_elmo.pretrained.hdf5 import read_token_embeddings, write_token_embeddings
from keras_elmo.text.vocabulary import BEGIN, END, SPECIALS, UNKNOWN_KEY, read_words

Key = bytes | str  # a word's UTF-8; or `BEGIN` or `END`, a sentence's boundaries
_FIRST_CAPACITY = 1024
_SPECIAL_KEYS = [BEGIN, END, UNKNOWN_KEY]


class WordCache:
    """Token vectors by word: a least-recently-used cache.

    An `Embedder` fills it as it meets words, a file of bilm-tf's `dump_token_embeddings` at once.

    Args:
        max_words: Maximum number of words to keep.

    Raises:
        ValueError: if `max_words` is not a positive integer.

    Example:

    >>> embedder = Embedder(word_cache=WordCache.from_files("words.h5", "vocabulary.txt"))

    Reference: BILM_TF.md, "Files" (`dump_token_embeddings`).
    """

    def __init__(self, max_words: int = 30_000):
        if not isinstance(max_words, int) or max_words < 1:
            raise ValueError(f"max_words must be an integer of at least 1, got {max_words!r}.")
        self.max_words = max_words
        self.hits = self.misses = 0
        self._rows = {}  # in the order of their last use
        self._vectors = None

    def __len__(self) -> int:
        return len(self._rows)

    @classmethod
    def from_files(
        cls,
        embeddings: str | os.PathLike,
        vocabulary: str | os.PathLike,
        max_words: int | None = None,
    ) -> "WordCache":
        """Reads the token vectors of bilm-tf's `dump_token_embeddings`, or of `save`.

        Args:
            embeddings: The hdf5 file, with the array `embedding` `(num_words, P)`.
            vocabulary: The words in the order of its rows, one a line; `<S>` and `</S>` are a
                sentence's boundaries. The first count as the most recently used.
            max_words: As for the class; by default twice the words in the file.

        Raises:
            FileNotFoundError: if a file is missing.
            ValueError: if the files do not belong together, or are of another kind.
        """
        words = read_words(vocabulary)
        vectors = read_token_embeddings(embeddings)
        if len(words) != len(vectors):
            raise ValueError(
                f"{embeddings} holds {len(vectors):,} vectors, {vocabulary} has {len(words):,} "
                "words: they do not belong together."
            )
        twice = next((word for word, n in collections.Counter(words).items() if n > 1), None)
        if twice is not None:
            raise ValueError(f"{vocabulary}: {twice!r} stands twice. Each word has one row.")
        keys = [word if word in (BEGIN, END) else word.encode() for word in words]
        cache = cls(max_words or 2 * max(len(keys), 1))
        cache.store(keys[: cache.max_words][::-1], vectors[: cache.max_words][::-1])
        return cache

    def save(self, embeddings: str | os.PathLike, vocabulary: str | os.PathLike) -> None:
        """Writes the words and their vectors as bilm-tf's `dump_token_embeddings` does.

        The most recently used words come first, without those that a line of a file cannot hold.

        Args:
            embeddings, vocabulary: The hdf5 file and the text file to write.

        Raises:
            ValueError: if nothing was embedded yet.
        """
        if not all(key in self._rows for key in _SPECIAL_KEYS):
            raise ValueError("The cache lacks <S>, </S> or <UNK>: embed some sentences first.")
        names = [special.encode() for special in SPECIALS]
        words = [key for key in reversed(self._rows) if key not in (BEGIN, END, *names)]
        words = [key for key in words if key.split() == [key]]
        rows = [self._rows[key] for key in _SPECIAL_KEYS + words]
        with atomic_write(vocabulary) as partial, open(partial, "wb") as file:
            file.writelines(key + b"\n" for key in names + words)
            write_token_embeddings(embeddings, self._vectors[rows])

    def fetch(self, keys: list[Key], encode: Callable[[list[Key]], np.ndarray]) -> np.ndarray:
        """Vectors of distinct words, float32 `(len(keys), P)`.

        Args:
            keys: The words.
            encode: Makes the vectors of those that are not in the cache, to be stored.
        """
        rows = np.fromiter((self._rows.get(key, -1) for key in keys), np.int64, len(keys))
        missing = np.flatnonzero(rows < 0)
        self.hits += len(keys) - len(missing)
        self.misses += len(missing)
        for key, row in zip(keys, rows.tolist()):
            if row >= 0:
                self._rows[key] = self._rows.pop(key)
        if not len(missing):
            return self._vectors[rows]
        new = encode([keys[i] for i in missing])
        vectors = np.empty((len(keys), new.shape[1]), np.float32)
        vectors[missing] = new
        if len(missing) < len(keys):
            known = rows >= 0
            vectors[known] = self._vectors[rows[known]]
        kept = missing[: self.max_words]
        self.store([keys[i] for i in kept], vectors[kept])
        return vectors

    def store(self, keys: list[Key], vectors: np.ndarray) -> None:
        """Adds vectors `(n, P)` of at most `max_words` new words, which may evict the oldest."""
        self._make_room(len(self._rows) + len(keys), vectors.shape[1])
        num_free = min(len(keys), len(self._vectors) - len(self._rows))
        rows = list(range(len(self._rows), len(self._rows) + num_free))
        oldest = list(self._rows)[: len(keys) - num_free]
        rows += [self._rows.pop(key) for key in oldest]
        self._rows.update(zip(keys, rows))
        self._vectors[rows] = vectors

    def latest(self, count: int) -> tuple[list[Key], np.ndarray]:
        """The most recently used keys, at most `count`, and their vectors `(n, P)`."""
        keys = list(itertools.islice(reversed(self._rows), count))
        return keys, self._vectors[[self._rows[key] for key in keys]]

    def rename(self, key_of: Callable[[Key], Key]) -> None:
        """Gives words the keys `key_of(key)`, except where that is another word's."""
        rows = {}
        for key, row in self._rows.items():
            new = key_of(key)
            rows[key if new in self._rows or new in rows else new] = row
        self._rows = rows

    def _make_room(self, num_words, dim):
        """Enlarges the table for so many words, as far as it may grow."""
        capacity = 0 if self._vectors is None else len(self._vectors)
        if num_words <= capacity or capacity == self.max_words:
            return
        capacity = min(max(num_words, 2 * capacity, _FIRST_CAPACITY), self.max_words)
        if self._vectors is None:
            self._vectors = np.empty((capacity, dim), np.float32)
        else:
            # In place: a copy would hold two tables in memory for a moment.
            self._vectors.resize((capacity, dim), refcheck=False)
