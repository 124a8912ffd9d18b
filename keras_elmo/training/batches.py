"""Windows of words over sentences, packed as bilm-tf packs them, and the batches made of them."""

import abc
import array
import dataclasses
import functools
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from keras_elmo.text.characters import ByteRules, distinct_ids, pad_words, trim_characters
from keras_elmo.text.reader import Files, TextReport, find_files, read_sentences
from keras_elmo.text.vocabulary import Vocabulary

SUFFIXES = ("", "_reverse")
"""Endings of the names of a batch's arrays: the forward stream and the backward stream."""

_PREFETCHED = 8

Batch = dict[str, np.ndarray]


@dataclasses.dataclass(eq=False, repr=False)
class TextBatches(abc.ABC):
    """The base of `LanguageModelCorpus` and `EvaluationCorpus`, which describe the arguments."""

    files: Files
    vocabulary: Vocabulary
    _: dataclasses.KW_ONLY
    batch_size: int
    unroll_steps: int
    max_characters_per_token: int | None = 50
    widest_filter: int | None = None
    distinct_words: bool = True
    bidirectional: bool = True
    shard: tuple[int, int] = (0, 1)

    def __post_init__(self):
        for name in ("batch_size", "unroll_steps"):
            value = getattr(self, name)
            if not isinstance(value, (int, np.integer)) or value < 1:
                raise ValueError(f"{name} must be a positive integer, got {value!r}.")
            setattr(self, name, int(value))  # JSON, which keeps the state, knows no NumPy
        index, count = self.shard
        if not 0 <= index < count:
            expected = "(index, count) with 0 <= index < count"
            raise ValueError(f"shard must be {expected}, got {self.shard!r}.")
        self.paths = find_files(self.files)

    @abc.abstractmethod
    def __iter__(self) -> Iterator[Batch]:
        """The batches."""

    @property
    def has_weights(self) -> bool:
        """Whether batches have `weights`."""
        return False

    @property
    def reads_characters(self) -> bool:
        """Whether batches have the characters of words."""
        return self.max_characters_per_token is not None

    @property
    def deals_files(self) -> bool:
        """Whether workers share the corpus file by file; where files are few, by sentences."""
        return len(self.paths) >= self.shard[1]

    def parts(self) -> list[tuple[str, tuple[int, int]]]:
        """Pairs of a file and the (index, count) of its sentences that this worker reads."""
        index, count = self.shard
        if self.deals_files:
            return [(path, (0, 1)) for path in self.paths[index::count]]
        return [(path, self.shard) for path in self.paths]

    @functools.cached_property
    def report(self) -> TextReport:
        """Counts of this worker's files; the first access reads all of them."""
        report = TextReport()
        for path, _ in self.parts():
            for _ in read_sentences(path, report):
                pass
        return report

    @functools.cached_property
    def id_table(self) -> dict[bytes | str, int]:
        """The id of each word of the vocabulary."""
        return self.vocabulary.id_table()

    @functools.cached_property
    def vocabulary_characters(self) -> np.ndarray:
        """Character ids of the vocabulary, int16 `(V, C)`."""
        return self.vocabulary.character_ids(self.max_characters_per_token or 0).astype(np.int16)

    def dataset(self, source: Callable[[], Iterable[Batch]] | None = None) -> Any:
        """A prefetched `tf.data.Dataset` of the batches, or of those of `source()`."""
        import tensorflow as tf

        dataset = tf.data.Dataset.from_generator(
            source or self.__iter__, output_signature=self._signature(tf)
        )
        return dataset.prefetch(_PREFETCHED)

    def _signature(self, tf):
        shape = (self.batch_size, self.unroll_steps)
        window, characters = (tf.TensorSpec(dims, tf.int32) for dims in (shape, (*shape, None)))
        stream, signature = {"token_ids": window, "next_token_id": window}, {}
        if self.reads_characters and self.distinct_words:
            stream["word_index"] = window
            signature["word_characters"] = tf.TensorSpec((None, None), tf.int32)
        elif self.reads_characters:
            stream["tokens_characters"] = characters
        for suffix in SUFFIXES[: 1 + self.bidirectional]:
            signature.update({f"{name}{suffix}": spec for name, spec in stream.items()})
        if self.has_weights:
            signature["weights"] = tf.TensorSpec(shape, tf.float32)
        return signature


class Packer:
    """Fills windows row by row: a row that has run out takes the next sentence.

    Words outside the vocabulary have ids from `len(vocabulary)` on, which hold until the next shard
    is loaded: only one shard's words and sentences are in memory.

    Attributes:
        rows: For each row the ids, int32, that are left of its sentence: forward and backward.
        words: The `ShardWords` of the shard that was loaded last.
    """

    def __init__(self, text: TextBatches):
        self.text = text
        self.words = ShardWords(text)
        self.rows: list[tuple[np.ndarray, ...]] = [(np.zeros(0, np.int32),) * 2] * text.batch_size
        self._windows: np.ndarray | None = None

    @property
    def is_between_batches(self) -> bool:
        """Whether no batch has been begun."""
        return self._windows is None

    def load_shard(self, path: str, part: tuple[int, int]) -> "ShardSentences":
        """Reads the sentences of a file, or with `part` (index, count) a share of them."""
        words, previous = ShardWords(self.text), self.words.unknown
        # What the rows still hold keeps its words: they get ids among the new shard's.
        self.rows = [tuple(words.translate(ids, previous) for ids in row) for row in self.rows]
        if self._windows is not None:
            self._windows[:] = words.translate(self._windows, previous)
        sentences = words.read(path, part)
        self.words = words
        return sentences

    def fill(self, next_sentence: Callable[[], np.ndarray | None]) -> np.ndarray | None:
        """The next windows: inputs and targets, forward and backward, int32 `(4, B, T)`.

        `next_sentence` returns the ids of a sentence with its boundaries. Where it returns `None`,
        so does this; the next call continues there.
        """
        num_rows, num_steps = len(self.rows), self.text.unroll_steps
        if self._windows is None:
            self._windows = np.zeros((4, num_rows, num_steps), np.int32)
            self._row = self._step = 0
        while self._row < num_rows:
            if not self._fill_row(num_steps, next_sentence):
                return None
            self._row, self._step = self._row + 1, 0
        windows, self._windows = self._windows, None
        return windows

    def _fill_row(self, num_steps, next_sentence):
        windows = self._windows[:, self._row]
        forward, backward = self.rows[self._row]
        start = self._step
        while start < num_steps:
            if len(forward) <= 1:
                sentence = next_sentence()
                if sentence is None:
                    self.rows[self._row], self._step = (forward, backward), start
                    return False
                forward, backward = sentence, sentence[::-1]
            count = min(len(forward) - 1, num_steps - start)
            for i, ids in enumerate((forward, forward[1:], backward, backward[1:])):
                windows[i, start : start + count] = ids[:count]
            forward, backward = forward[count:], backward[count:]
            start += count
        self.rows[self._row] = forward, backward
        return True

    def batch(self, windows: np.ndarray) -> Batch:
        """The batch of windows that `fill` returned last."""
        text, vocabulary = self.text, self.text.vocabulary
        streams = windows if text.bidirectional else windows[:2]
        ids = np.where(streams < len(vocabulary), streams, np.int32(vocabulary.unknown_id))
        names = ("token_ids", "next_token_id", "token_ids_reverse", "next_token_id_reverse")
        batch = dict(zip(names, ids))
        if text.reads_characters:
            batch.update(self._characters(streams[::2]))
        return batch

    def _characters(self, inputs):
        """The characters of the inputs `(directions, B, T)`."""
        text = self.text
        # In the order of their first place: ids of unknown words depend on where reading began,
        # and a batch must not, to the last bit of a sum.
        words, index = distinct_ids(inputs.ravel())
        index = index.reshape(inputs.shape)
        rows = self._rows(words)
        if text.widest_filter is not None:
            rows = trim_characters(rows, text.widest_filter)
        if not text.distinct_words:
            return {f"tokens_characters{end}": rows[one] for end, one in zip(SUFFIXES, index)}
        indices = {f"word_index{end}": one for end, one in zip(SUFFIXES, index)}
        return {"word_characters": pad_words(rows, inputs.size), **indices}

    def _rows(self, ids):
        """Character ids int32 `(N, C)` of words."""
        num_words = len(self.text.vocabulary)
        known = self.text.vocabulary_characters[np.minimum(ids, num_words - 1)]
        rows, is_unknown = known.astype(np.int32), ids >= num_words
        rows[is_unknown] = self.words.unknown_characters[ids[is_unknown] - num_words]
        return rows


class ShardWords(dict):
    """Words to ids: those of the vocabulary, and further ids for the unknown words of a shard.

    `unknown` lists the latter, UTF-8, in the order of their ids.
    """

    def __init__(self, text: TextBatches):
        super().__init__(text.id_table)
        self.unknown: list[bytes] = []
        self._vocabulary: Vocabulary = text.vocabulary
        self._width = text.max_characters_per_token

    def __missing__(self, word):
        # A model of whole words needs to know only that a word is unknown.
        if self._width is None:
            return self._vocabulary.unknown_id
        self[word] = new = len(self._vocabulary) + len(self.unknown)
        self.unknown.append(word)
        return new

    def read(self, path: str, part: tuple[int, int]) -> "ShardSentences":
        """The ids of the sentences of a part of a file: see `Packer.load_shard`."""
        begin, end, get = self._vocabulary.begin_id, self._vocabulary.end_id, self.__getitem__
        ids, stops = array.array("i"), [0]
        index, count = part
        for tokens in itertools.islice(read_sentences(path), index, None, count):
            ids.append(begin)
            ids.extend(map(get, tokens))
            ids.append(end)
            stops.append(len(ids))
        return ShardSentences(np.array(ids, np.int32), np.array(stops))

    def translate(self, ids: np.ndarray, unknown: list[bytes]) -> np.ndarray:
        """Ids of another shard, whose unknown words are `unknown`, to ids of this one."""
        num_words = len(self._vocabulary)
        if not unknown or not (ids >= num_words).any():
            return ids
        translated = ids.copy()
        for before in np.unique(ids[ids >= num_words]).tolist():
            translated[ids == before] = self[unknown[before - num_words]]
        return translated

    @functools.cached_property
    def unknown_characters(self) -> np.ndarray:
        """Character ids of the unknown words, int16 `(len(unknown), C)`, once all are read."""
        return ByteRules(self._width or 0).encode_words(self.unknown).astype(np.int16)


class ShardSentences(Sequence):
    """The sentences of a shard, each as int32 ids with its boundaries, in one array."""

    def __init__(self, ids: np.ndarray, stops: np.ndarray):
        self._ids, self._stops = ids, stops

    def __len__(self) -> int:
        return len(self._stops) - 1

    def __getitem__(self, i):
        return self._ids[self._stops[i] : self._stops[i + 1]]


def prefetched(items: Iterable[Any]) -> Iterator[Any]:
    """Iterates in a thread, a few items ahead; needs no TensorFlow."""
    iterator, end = iter(items), object()
    pool = ThreadPoolExecutor(max_workers=1)
    try:
        ahead = deque(pool.submit(next, iterator, end) for _ in range(_PREFETCHED))
        while (item := ahead.popleft().result()) is not end:
            ahead.append(pool.submit(next, iterator, end))
            yield item
    finally:
        pool.shutdown(cancel_futures=True)
