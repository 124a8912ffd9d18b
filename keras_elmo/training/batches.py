"""Batches of word windows, made of an index of a text: bilm-tf's packing, and its arrays."""

import abc
import dataclasses
import functools
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import numpy as np

from keras_elmo.arguments import check_integer
from keras_elmo.config import ElmoConfig
from keras_elmo.text.characters import pad_words, trim_characters
from keras_elmo.text.reader import Files, TextStats
from keras_elmo.text.vocabulary import Vocabulary
from keras_elmo.training.index import CorpusIndex, as_index

SUFFIXES = ("", "_reverse")
"""Endings of the names of a batch's arrays: the forward stream and the backward stream."""

_PREFETCHED = 8
_SENTENCES_AT_ONCE = 1 << 16

_INPUT = ("reads_characters", "max_characters_per_token", "widest_filter", "bidirectional")
"""Properties of an `ElmoConfig` on which the batches depend."""

Batch = dict[str, np.ndarray]


@dataclasses.dataclass(eq=False, repr=False)
class TextBatches(abc.ABC):
    """The base of `LanguageModelCorpus` and `EvaluationCorpus`, which describe the arguments."""

    files: Files | CorpusIndex
    vocabulary: Vocabulary
    config: ElmoConfig | dict[str, Any]
    _: dataclasses.KW_ONLY
    batch_size: int
    unroll_steps: int
    distinct_words: bool = True

    def __post_init__(self):
        for name in ("batch_size", "unroll_steps"):
            setattr(self, name, check_integer(name, getattr(self, name), 1))
        self.config = ElmoConfig.from_dict(self.config)
        self.index = as_index(self.files)
        self._vocabulary_ids = self.index.vocabulary_ids(self.vocabulary)

    @abc.abstractmethod
    def __iter__(self) -> Iterator[Batch]:
        """The batches."""

    @property
    def stats(self) -> TextStats:
        """Counts of the text."""
        return self.index.stats

    def check_model(self, model: Any) -> None:
        """Raises ValueError unless a `BidirectionalLanguageModel` can read the batches."""
        expected = {
            "vocabulary size": model.vocabulary_size,
            **{name: getattr(model.config, name) for name in _INPUT},
            **self._shape_of(model),
        }
        found = {
            **vars(self),
            "vocabulary size": len(self.vocabulary),
            **{name: getattr(self.config, name) for name in _INPUT},
        }
        different = [
            f"{name} is {found[name]} in the corpus, {value} in the model"
            for name, value in expected.items()
            if found[name] != value
        ]
        if different:
            raise ValueError(
                f"The corpus does not fit the model: {'; '.join(different)}. Create both with the "
                "same vocabulary, config and sizes."
            )

    @abc.abstractmethod
    def _shape_of(self, model):
        """The arguments that determine the shape of a batch, as a model needs them."""

    def batch(self, forward: np.ndarray, backward: np.ndarray) -> Batch:
        """The batch of the inputs at these positions in the index, integers `(B, T)`.

        The target of a forward input is the next id; the target of a backward input, the previous.
        """
        ids, config = self.index.ids, cast(ElmoConfig, self.config)
        windows = [ids[forward], ids[forward + 1]]
        if config.bidirectional:
            windows += [ids[backward], ids[backward - 1]]
        names = ("token_ids", "next_token_id", "token_ids_reverse", "next_token_id_reverse")
        batch = dict(zip(names, map(self._vocabulary_ids.__getitem__, windows)))
        if config.reads_characters:
            batch.update(self._characters(np.stack(windows[::2])))
        return batch

    @functools.cached_property
    def _character_ids(self):
        return self.index.characters(self.config.max_characters_per_token)

    def _characters(self, inputs):
        """The characters of the inputs, ids of the index `(directions, B, T)`."""
        # Marking the distinct words in a table is several times as fast as sorting the inputs.
        is_used = np.zeros(len(self._vocabulary_ids), bool)
        is_used[inputs.ravel()] = True
        words = np.flatnonzero(is_used)
        row_of = np.empty(len(is_used), np.int32)
        row_of[words] = np.arange(len(words))
        index = row_of[inputs]
        rows = self._character_ids[words].astype(np.int32)
        if not self.distinct_words:
            return {f"tokens_characters{end}": rows[one] for end, one in zip(SUFFIXES, index)}
        indices = {f"word_index{end}": one for end, one in zip(SUFFIXES, index)}
        rows = trim_characters(rows, self.config.widest_filter)
        return {"word_characters": pad_words(rows, inputs.size), **indices}

    def _dataset(self, source: Callable[[], Iterable[Batch]], count: int | None = None) -> Any:
        """A prefetched `tf.data.Dataset` of the batches of `source()`, whose number is `count`."""
        import tensorflow as tf

        signature = {name: tf.TensorSpec(*one) for name, one in self.signature.items()}
        dataset = tf.data.Dataset.from_generator(source, output_signature=signature)
        # Keras counts the steps of an epoch by it.
        count = tf.data.INFINITE_CARDINALITY if count is None else count
        dataset = dataset.apply(tf.data.experimental.assert_cardinality(count))
        return dataset.prefetch(_PREFETCHED)

    @property
    def signature(self) -> dict[str, tuple[tuple[int | None, ...], str]]:
        """The shape, with `None` for sizes that vary, and dtype of each array of a batch."""
        config = cast(ElmoConfig, self.config)
        shape: tuple[int | None, ...] = (self.batch_size, self.unroll_steps)
        stream = {"token_ids": shape, "next_token_id": shape}
        signature: dict[str, tuple[tuple[int | None, ...], str]] = {}
        if config.reads_characters and self.distinct_words:
            stream["word_index"] = shape
            signature["word_characters"] = (None, None), "int32"
        elif config.reads_characters:
            stream["tokens_characters"] = (*shape, None)
        for suffix in SUFFIXES[: config.num_directions]:
            signature.update({f"{name}{suffix}": (x, "int32") for name, x in stream.items()})
        return signature


def pack_sentences(
    starts: np.ndarray, order: Iterable[np.ndarray], batch_size: int, unroll_steps: int
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Packs sentences into windows as bilm-tf does: an exhausted row takes the next sentence.

    Args:
        starts: `CorpusIndex.starts`.
        order: Arrays of sentence indices, in the order in which they are read.
        batch_size: Rows.
        unroll_steps: Words of a window.

    Yields:
        For each batch the pieces of sentences that fill its windows, row after row: the position in
        the index at which each starts, forward and backward, and its length. `token_positions`
        takes them.
    """
    sentences = itertools.chain.from_iterable(map(functools.partial(_bounds, starts), order))
    rows = [(0, 0, 0)] * batch_size  # next position, forward and backward; tokens left
    while True:
        forwards, backwards, counts = [], [], []
        for row, (forward, backward, left) in enumerate(rows):
            missing = unroll_steps
            while missing:
                if not left:
                    bounds = next(sentences, None)
                    if bounds is None:
                        return
                    forward, backward = bounds
                    left = backward - forward
                count = left if left < missing else missing
                forwards.append(forward)
                backwards.append(backward)
                counts.append(count)
                forward += count
                backward -= count
                left -= count
                missing -= count
            rows[row] = forward, backward, left
        yield np.array(forwards), np.array(backwards), np.array(counts)


def _bounds(starts, sentences):
    """Pairs of the positions of the boundaries of each sentence."""
    for part in np.split(sentences, range(_SENTENCES_AT_ONCE, len(sentences), _SENTENCES_AT_ONCE)):
        yield from zip(starts[part].tolist(), (starts[part + 1] - 1).tolist())


def token_positions(
    forwards: np.ndarray, backwards: np.ndarray, counts: np.ndarray, batch_size: int
) -> tuple[np.ndarray, np.ndarray]:
    """The position in the index of each input of a batch, forward and backward, int64 `(B, T)`."""
    ends = np.cumsum(counts)
    within = np.arange(ends[-1]) - np.repeat(ends - counts, counts)
    forward = np.repeat(forwards, counts) + within
    backward = np.repeat(backwards, counts) - within
    return forward.reshape(batch_size, -1), backward.reshape(batch_size, -1)


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
