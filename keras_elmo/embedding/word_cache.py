"""Token vectors of words seen before, so that their characters are encoded only once."""

import collections
import itertools
import os
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np

from keras_elmo.atomic import atomic_write
from keras_elmo.pretrained.hdf5 import read_token_embeddings, write_token_embeddings
from keras_elmo.text.vocabulary import BEGIN, END, SPECIALS, UNKNOWN_KEY, read_words

Key = bytes | str  # a word's UTF-8; or `BEGIN` or `END`, a sentence's boundaries
_SPECIAL_KEYS = [BEGIN, END, UNKNOWN_KEY]


class WordCache:
    """Token vectors by word: a least-recently-used cache.

    An `Embedder` fills it as it meets words; a file of bilm-tf's `dump_token_embeddings` fills it
    at once. Threads and Embedders of the same model can share one. From its first word on it
    belongs to one model: an `Embedder` of another refuses it.

    Args:
        max_words: Maximum number of words to keep.

    Attributes:
        lock: Held while the words are read or changed.
        hits, misses: How many words were found, and how many had to be encoded.

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
        self.lock = threading.RLock()
        # The bytes of each vector, in the order of last use.
        self._vectors: collections.OrderedDict[Key, bytes] = collections.OrderedDict()
        self._rules: str | None = None

    def __len__(self) -> int:
        return len(self._vectors)

    def __getstate__(self):
        with self.lock:
            return {**self.__dict__, "lock": None, "_vectors": self._vectors.copy()}

    def __setstate__(self, state):
        self.__dict__ = {**state, "lock": threading.RLock()}

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
            vocabulary: The words in the order of its rows, one a line; `<S>` and `</S>` are
                boundaries of sentences. The first count as the most recently used.
            max_words: As for the class; by default twice the words in the file.

        Raises:
            FileNotFoundError: if a file is missing.
            ValueError: if the files do not belong together, or are of another kind.
        """
        words = read_words(vocabulary)
        vectors = read_token_embeddings(embeddings, words=words)
        twice = next(
            (word for word, n in collections.Counter(words).items() if word and n > 1), None
        )
        if twice is not None:
            raise ValueError(f"{vocabulary}: {twice!r} is listed twice: each word has one row.")
        keys = [word if word in (BEGIN, END) else word.encode() for word in words]
        cache = cls(max_words or 2 * max(len(keys), 1))
        cache.store(keys[: cache.max_words][::-1], vectors[: cache.max_words][::-1])
        return cache

    def save(self, embeddings: str | os.PathLike, vocabulary: str | os.PathLike) -> None:
        """Writes the words and their vectors as bilm-tf's `dump_token_embeddings` does.

        The most recently used words come first; those that a line cannot hold are left out.

        Args:
            embeddings, vocabulary: The hdf5 file and the text file to write.

        Raises:
            ValueError: if nothing was embedded yet.
        """
        with self.lock:
            if not all(key in self._vectors for key in _SPECIAL_KEYS):
                raise ValueError("The cache lacks <S>, </S> or <UNK>: embed some sentences first.")
            names = [special.encode() for special in SPECIALS]
            keys = [key for key in reversed(self._vectors) if isinstance(key, bytes)]
            keys = [key for key in keys if key not in names and key.split() == [key]]
            vectors = self._rows(_SPECIAL_KEYS + keys)
        words = [key.decode() for key in names + keys]
        with atomic_write(vocabulary) as partial:
            Path(partial).write_bytes(b"".join(key + b"\n" for key in names + keys))
            write_token_embeddings(embeddings, vectors, words)

    def fetch(self, keys: list[Key], encode: Callable[[list[Key]], np.ndarray]) -> np.ndarray:
        """The vectors, read-only float32 `(len(keys), P)`, of one or more distinct words.

        Args:
            keys: The words.
            encode: Makes the vectors of words that are not in the cache; they are added to it.
        """
        with self.lock:
            known = [key for key in keys if key in self._vectors]
            for key in known:
                self._vectors.move_to_end(key)
            self.hits += len(known)
            self.misses += len(keys) - len(known)
            if len(known) < len(keys):
                missing = [key for key in keys if key not in self._vectors]
                self._add(missing, encode(missing))
            vectors = self._rows(keys)
            self._drop_oldest()
            return vectors

    def store(self, keys: list[Key], vectors: np.ndarray) -> None:
        """Adds vectors `(n, P)` of new words, which may drop the oldest."""
        with self.lock:
            self._add(keys, vectors)
            self._drop_oldest()

    def latest(self, count: int) -> tuple[list[Key], np.ndarray]:
        """The most recently used keys, at most `count`, and their vectors `(n, P)`."""
        with self.lock:
            keys = list(itertools.islice(reversed(self._vectors), count))
            return keys, self._rows(keys)

    def adopt(self, rules: str, key_of: Callable[[Key], Key]) -> None:
        """Gives words, those of a file say, the keys of a model; later ones have them already.

        Raises ValueError if the words have the keys of a model with other rules.

        Args:
            rules: What tells apart the rules that models make keys by.
            key_of: From a word to its key.
        """
        with self.lock:
            if self._rules == rules:
                return
            if self._rules is not None and self._vectors:
                raise ValueError(
                    "The word cache is of another model, which reads other parts of a word. Give "
                    "each model a WordCache of its own."
                )
            self._rules, renamed = rules, collections.OrderedDict()
            for key, vector in self._vectors.items():
                new = key_of(key)
                # Unless it is another word's.
                renamed[key if new in self._vectors or new in renamed else new] = vector
            self._vectors = renamed

    def _add(self, keys, vectors):
        rows = np.asarray(vectors, np.float32)
        self._vectors.update((key, row.tobytes()) for key, row in zip(keys, rows))

    def _drop_oldest(self):
        while len(self._vectors) > self.max_words:
            self._vectors.popitem(last=False)

    def _rows(self, keys):
        joined = b"".join(self._vectors[key] for key in keys)
        return np.frombuffer(joined, np.float32).reshape(len(keys), -1)
