"""Words to token vectors, each distinct word once."""

import collections
import threading
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from keras import ops

from keras_elmo.layers.elmo_layer import ElmoLayer
from keras_elmo.ops.compiled import CompiledFunction, one_ahead
from keras_elmo.text.characters import trim_characters
from keras_elmo.text.tokens import token_bytes
from keras_elmo.text.vocabulary import encode_vocabulary, id_table, lookup_ids

Key = bytes | str  # a word's UTF-8; or `BEGIN` or `END`, a sentence's boundaries

# Words of a group: few, since the smallest text is a group, and enough for the speed of large ones.
_GROUP, _GROUP_ON_GPU = 64, 512


class WordVectors:
    """The token vectors of words: the input of the LSTMs. Threads can share it.

    Args:
        layer: The `ElmoLayer`.
        vocabulary: The words of a model that reads whole words, else `None`.
        max_words: Number of words to cache vectors for; not used for whole words.

    Raises:
        ValueError: if the vocabulary's size is not the table's.
    """

    def __init__(self, layer: ElmoLayer, vocabulary: Sequence[str] | None, max_words: int):
        encoder, self._config = layer.token_encoder, layer.config
        reads_text = self._config.reads_text
        self._text_encoder = layer.text_encoder
        self._ids = {} if reads_text else self._ids_of_words(vocabulary or [])
        self._encoder = CompiledFunction(
            lambda ids: ops.cast(encoder(ids), "float32"),
            encoder.variables,
            ((None, None) if reads_text else (None,), "int32"),
        )
        is_on_cpu = "cpu" in str(ops.convert_to_tensor(0.0).device).lower()
        self._group = _GROUP if is_on_cpu else _GROUP_ON_GPU
        self._cache = WordCache(max_words if reads_text else 0, self.encode)

    def _ids_of_words(self, words):
        ids, size = id_table(words), self._config.vocabulary_size
        num_words = max((i for i, word in enumerate(words, start=1) if word), default=0)
        if not num_words <= size <= len(words):  # blank lines at the end may be rows or not
            raise ValueError(
                f"The vocabulary has {num_words:,} words, the model's table {size:,}: pass the "
                "words in the order of the table's rows."
            )
        return ids

    def keys(self, words: Iterable[str | bytes]) -> list[Key]:
        """The keys of words: UTF-8 with at least the bytes that the encoder reads."""
        keys = map(token_bytes, words)
        return list(keys if self._text_encoder is None else map(self._text_encoder.key, keys))

    def vectors(self, keys: list[Key]) -> np.ndarray:
        """The vectors, float32 `(n, P)`, of distinct keys."""
        return self._cache.vectors(keys)

    def encode(self, keys: Sequence[Key]) -> np.ndarray:
        """The vectors, float32 `(n, P)`, of distinct keys, computed by the model."""
        vectors = np.empty((len(keys), self._config.projection_dim), np.float32)
        # Words of similar lengths together: their characters are trimmed to the longest.
        order = sorted(range(len(keys)), key=lambda i: len(keys[i]))
        groups = [order[i : i + self._group] for i in range(0, len(order), self._group)]
        started = ((group, self._start([keys[i] for i in group])) for group in groups)
        for group, found in one_ahead(started):
            vectors[group] = found
        return vectors

    def _start(self, keys):
        """Starts to compute the vectors of a group: a function that waits for them.

        Each group has the same number of rows, since products of other sizes are rounded
        differently: so a word has the same vector whatever is encoded with it.
        """
        ids = self._encode_keys(keys)
        padding = ((0, self._group - len(ids)),) + ((0, 0),) * (ids.ndim - 1)
        vectors = self._encoder(np.pad(ids, padding))
        return lambda: ops.convert_to_numpy(vectors)[: len(ids)]

    def _encode_keys(self, keys):
        """The ids of keys, `(n, C)`, or of whole words `(n,)`."""
        if self._text_encoder is None:
            return np.array(lookup_ids(keys, self._ids), np.int32) + 1
        rows = encode_vocabulary(keys, self._text_encoder)
        return trim_characters(rows, self._config.widest_filter, self._text_encoder.padding)


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
