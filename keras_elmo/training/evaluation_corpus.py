"""Batches of a text that is read once, to evaluate a language model."""

import dataclasses
import functools
import itertools
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from keras_elmo.training.batches import (
    Batch,
    TextBatches,
    pack_sentences,
    prefetched,
    token_positions,
)
from keras_elmo.training.devices import num_processes
from keras_elmo.training.index import BEGIN_ID

_PADDING = -1


@dataclasses.dataclass(eq=False, repr=False, kw_only=True)
class EvaluationCorpus(TextBatches):
    """A text as batches of word windows, in which every word is predicted once.

    For `validation_data` of `BidirectionalLanguageModel.fit`, for `evaluate` and `perplexity`. Each
    sentence begins a window, with an LSTM state of zeros, and its last window is padded: the score
    of a sentence depends on no other.

    Args:
        files, vocabulary, config, batch_size, distinct_words: As for `LanguageModelCorpus`.
        unroll_steps: Words T of a window. Changes no result; shorter windows have less padding.
        carry_state: Whether to read as bilm-tf's test does instead: sentences follow one another in
            a row, the LSTM state is carried from each to the next, and when one row runs out, the
            rest of the other rows is not scored.

    Iterating yields the dicts of a `LanguageModelCorpus`, with `weights`, float32 `(B, T)`, 0.0 at
    padding and 1.0 elsewhere; and `begins`, bool `(B,)`: whether the row's LSTM state is reset to
    zero before the window.

    Raises:
        FileNotFoundError: if a pattern matches no file.
        ValueError: if an argument is invalid, or the text has no sentence.

    Example:

    >>> held_out = EvaluationCorpus("heldout.txt", vocabulary, config, batch_size=128)
    >>> model.fit(corpus, epochs=10, validation_data=held_out)
    >>> model.evaluate(held_out)

    Reference: BILM_TF.md, "Language-model training".
    """

    unroll_steps: int = 8
    carry_state: bool = False

    def __iter__(self) -> Iterator[Batch]:
        return (batch for _, batch in self.with_sentence_ids())

    def with_sentence_ids(self) -> Iterator[tuple[np.ndarray, Batch]]:
        """Pairs of the index of the sentence in each row, int64 `(B,)`, and the batch."""
        is_first = True
        for forward, backward in self._carried_windows() if self.carry_state else self._windows():
            weights = (forward != _PADDING).astype(np.float32)
            # Padding reads the first word, whatever it is.
            batch = self.batch(np.maximum(forward, 0), np.maximum(backward, 1))
            first = forward[:, 0]
            begins = self.index.ids[np.maximum(first, 0)] == BEGIN_ID
            if self.carry_state:
                begins = np.full_like(begins, is_first)
            numbers = np.searchsorted(self.index.starts, first, side="right") - 1
            yield numbers, {**batch, "weights": weights, "begins": begins}
            is_first = False

    @functools.cached_property
    def num_batches(self) -> int:
        """Batches of one iteration."""
        return sum(1 for _ in (self._carried_windows() if self.carry_state else self._windows()))

    def for_keras(self) -> Any:
        """The batches as Keras takes them, with their number; only TensorFlow needs tf.data."""
        if not self.num_batches:
            raise ValueError(f"The text does not fill one step of {self.batch_size} rows.")
        if keras.backend.backend() != "tensorflow":
            return _EvaluationBatches(self)
        return self._dataset(self.__iter__, self.num_batches)

    def _shape_of(self, model):
        # Processes that train together have a part of the rows each.
        return {"batch_size": model.batch_size // num_processes()}

    def _windows(self):
        """The positions of inputs in the index, int64 `(B, T)`, forward and backward."""
        starts, shape = self.index.starts, (self.batch_size, self.unroll_steps)
        bounds = zip(starts[:-1].tolist(), (starts[1:] - 1).tolist())
        rows = [(0, 0, 0)] * self.batch_size  # next position, each way; tokens left
        while True:
            windows = np.full((2, *shape), _PADDING)
            for i, (forward, backward, left) in enumerate(rows):
                if not left:
                    forward, backward = next(bounds, (0, 0))
                    left = backward - forward
                count = min(left, self.unroll_steps)
                windows[0, i, :count] = range(forward, forward + count)
                windows[1, i, :count] = range(backward, backward - count, -1)
                rows[i] = forward + count, backward - count, left - count
            if (windows == _PADDING).all():
                return
            yield windows

    def _carried_windows(self):
        # bilm-tf moves by one word at a time, which decides which row takes which sentence.
        order = [np.arange(len(self.index))]
        steps = pack_sentences(self.index.starts, order, self.batch_size, 1)
        while columns := list(itertools.islice(steps, self.unroll_steps)):
            windows = np.full((2, self.batch_size, self.unroll_steps), _PADDING)
            for step, pieces in enumerate(columns):
                windows[:, :, step : step + 1] = token_positions(*pieces, self.batch_size)
            yield windows

    @property
    def signature(self) -> dict[str, tuple[tuple[int | None, ...], str]]:
        shape = (self.batch_size, self.unroll_steps)
        extra = {"weights": (shape, "float32"), "begins": (shape[:1], "bool")}
        return {**super().signature, **extra}


class _EvaluationBatches(keras.utils.PyDataset):
    """The batches of an `EvaluationCorpus`, prefetched without tf.data."""

    def __init__(self, corpus):
        super().__init__()
        self._corpus = corpus
        self._batches = None

    @property
    def num_batches(self):
        return self._corpus.num_batches

    def on_epoch_end(self):
        self._batches = None

    def __getitem__(self, index):
        # Keras asks for one after the other.
        if self._batches is None:
            self._batches = prefetched(self._corpus)
        return (next(self._batches),)
