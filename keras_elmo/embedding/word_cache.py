"""Token vectors of words seen before, so that their characters are encoded only once."""

import collections
import threading
from collections.abc import Callable

import numpy as np

Key = bytes | str  # a word's UTF-8; or `BEGIN` or `END`, a sentence's boundaries


class WordCache:
    """The token vectors of the words that were used last. Threads can share it.

    Args:
        max_words: Maximum number of words to keep; 0 for none.
        encode: Returns the vectors float32 `(n, P)` of distinct words.
    """

    def __init__(self, max_words: int, encode: Callable[[list[Key]], np.ndarray]):
        self.max_words = max_words
        self._encode = encode
        self._lock = threading.Lock()
        # The bytes of each vector, in the order of last use.
        self._vectors: collections.OrderedDict[Key, bytes] = collections.OrderedDict()

    def __len__(self) -> int:
        return len(self._vectors)

    def vectors(self, keys: list[Key]) -> np.ndarray:
        """The vectors, float32 `(n, P)`, of distinct words."""
        if not self.max_words or not keys:
            return self._encode(keys)
        with self._lock:
            missing = [key for key in keys if key not in self._vectors]
            if missing:
                rows = self._encode(missing)
                self._vectors.update((key, row.tobytes()) for key, row in zip(missing, rows))
            for key in keys:
                self._vectors.move_to_end(key)
            joined = b"".join(self._vectors[key] for key in keys)
            while len(self._vectors) > self.max_words:
                self._vectors.popitem(last=False)
        return np.frombuffer(joined, np.float32).reshape(len(keys), -1)
