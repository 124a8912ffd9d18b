"""The endless stream of batches that a language model is trained on."""

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from keras_elmo.arguments import check_integer
from keras_elmo.config import ElmoConfig
from keras_elmo.text.reader import Files
from keras_elmo.text.vocabulary import Vocabulary
from keras_elmo.training.batches import (
    Batch,
    TextBatches,
    pack_sentences,
    prefetched,
    token_positions,
)
from keras_elmo.training.index import CorpusIndex

_SHUFFLE_BUFFER = 1 << 22  # sentences; bounds memory and random access to the disk


@dataclasses.dataclass(eq=False, repr=False, kw_only=True)
class LanguageModelCorpus(TextBatches):
    """A corpus as an endless stream of batches of word windows, for training.

    A batch has `batch_size` independent rows. A row takes one sentence after another, with their
    boundaries; windows of `unroll_steps` words are filled across sentences and passes over the
    text, and nothing is padded. The backward stream holds the same sentences in reverse.

    The stream is a function of the text, the arguments and the seed: `batches` can start it at any
    batch. To read a text once, for evaluation, use an `EvaluationCorpus`.

    Args:
        files: Text of one tokenized sentence per line: a path, a glob pattern or a list of these;
            plain, .gz or .xz. It is indexed first, in a temporary folder; or pass a `CorpusIndex`.
        vocabulary: The `Vocabulary`.
        config: The model's architecture, an `ElmoConfig` or a dict of bilm-tf's options. It decides
            whether batches have characters and a backward stream.
        batch_size: Rows B.
        unroll_steps: Words T of a window.
        distinct_words: Whether a batch contains the characters of each distinct word once, without
            most of their padding, which is much faster; or of the word at every position, as
            batches split over devices require.
        shuffle: Whether sentences are read in a new random order in each pass over the text, or in
            the order of the files.
        seed: Integer of at least 0; `None` draws one, and a training run cannot be resumed.
        shard: `(index, count)`: read the index-th of count equal parts, for one worker of several.

    Iterating gives one epoch, the first `batches_per_epoch` batches, as dicts of NumPy arrays:
        - `token_ids`, `next_token_id`: int32 `(B, T)`, and the same with `_reverse` for the
          backward stream. The input and its targets.
        - `word_characters` int32 `(U, C)` of the distinct words, and `word_index`,
          `word_index_reverse` int32 `(B, T)` into them; or with `distinct_words=False`
          `tokens_characters`, `tokens_characters_reverse` int32 `(B, T, C)`.

    Raises:
        FileNotFoundError: if a pattern matches no file.
        ValueError: if an argument is invalid, or the text has no sentence.

    Example:

    >>> corpus = LanguageModelCorpus(
    ...     "shards/*", vocabulary, config, batch_size=128, unroll_steps=20
    ... )
    >>> next(iter(corpus))["token_ids"].shape
    (128, 20)

    Reference: BILM_TF.md, "Language-model training".
    """

    shuffle: bool = True
    seed: int | None = None
    shard: tuple[int, int] = (0, 1)

    def __post_init__(self):
        super().__post_init__()
        index, count = self.shard
        if not 0 <= index < count:
            expected = "(index, count) with 0 <= index < count"
            raise ValueError(f"shard must be {expected}, got {self.shard!r}.")
        if len(self.index) < count:
            raise ValueError(
                f"A text of {len(self.index)} sentences cannot be split into {count} shards."
            )
        if self.seed is None:
            self.seed = int(np.random.SeedSequence().generate_state(1)[0])
        self.seed = check_integer("seed", self.seed, 0)

    @property
    def batches_per_epoch(self) -> int:
        """Full batches in a pass over the text, rounded down."""
        return self.stats.predictions // self.shard[1] // (self.batch_size * self.unroll_steps)

    def __iter__(self) -> Iterator[Batch]:
        return itertools.islice(self.batches(), self.batches_per_epoch)

    def batches(self, first: int = 0) -> Iterator[Batch]:
        """An endless stream of batches, starting with the batch of this number.

        To skip batches, only the lengths of the earlier sentences are read: tens of millions of
        words take about a second.
        """
        size = self.batch_size, self.unroll_steps
        windows = pack_sentences(self.index.starts, self._order(), *size)
        for pieces in itertools.islice(windows, first, None):
            yield self.batch(*token_positions(*pieces, self.batch_size))

    def dataset(self, first: int = 0, repeat: bool = False) -> Any:
        """The batches as a prefetched `tf.data.Dataset`.

        Args:
            first: The index of the first batch.
            repeat: Whether the dataset is endless; otherwise each iteration is the next epoch.
        """
        if repeat:
            return self._dataset(lambda: self.batches(first))
        firsts = itertools.count(first, max(self.batches_per_epoch, 1))
        return self._dataset(
            lambda: itertools.islice(self.batches(next(firsts)), self.batches_per_epoch),
            self.batches_per_epoch,
        )

    def for_keras(self, first: int = 0) -> Any:
        """The endless stream of batches from `first`, in the form that `fit` takes."""
        if keras.backend.backend() == "tensorflow":
            return self.dataset(first, repeat=True)
        return ((batch,) for batch in prefetched(self.batches(first)))

    def identity(self) -> dict[str, Any]:
        """The properties that determine the batches, JSON-serializable: equal for equal streams."""
        settings = ("batch_size", "unroll_steps", "shuffle", "seed")
        return {
            "text": self.index.text_hash,
            "vocabulary": self.vocabulary.digest,
            "num_shards": self.shard[1],
            **{name: getattr(self, name) for name in settings},
        }

    def _shape_of(self, model):
        # Processes that train together have a part of the rows each.
        batch_size = model.batch_size // self.shard[1] if model.carry_state else self.batch_size
        return {"batch_size": batch_size, "unroll_steps": model.unroll_steps}

    def _order(self):
        """The indices of the sentences of this shard, pass after pass, in parts."""
        index, count = self.shard
        edges = [*range(index, len(self.index), _SHUFFLE_BUFFER * count), len(self.index)]
        parts = list(itertools.pairwise(edges))
        for epoch in itertools.count():
            random = np.random.default_rng([self.seed, epoch])
            for i in random.permutation(len(parts)) if self.shuffle else range(len(parts)):
                sentences = np.arange(*parts[i], count)
                yield random.permutation(sentences) if self.shuffle else sentences


def language_model_dataset(
    files: Files | CorpusIndex,
    vocabulary: Vocabulary,
    config: ElmoConfig | dict[str, Any],
    *,
    repeat: bool = False,
    **options: Any,
) -> Any:
    """A text as a `tf.data.Dataset` of training batches: `LanguageModelCorpus(...).dataset()`.

    Args:
        files, vocabulary, config, batch_size, ...: As for `LanguageModelCorpus`.
        repeat: Whether the dataset is endless; otherwise each iteration is the next epoch.

    Returns:
        A dataset of dicts of int32 tensors, see `LanguageModelCorpus`.

    Raises:
        FileNotFoundError: if a pattern matches no file.
        ValueError: if an argument is invalid.

    Example:

    >>> dataset = language_model_dataset(
    ...     "shards/*", vocabulary, config, batch_size=128, unroll_steps=20, repeat=True
    ... )
    >>> model.fit(dataset, epochs=10, steps_per_epoch=1000, shuffle=False)
    """
    return LanguageModelCorpus(files, vocabulary, config, **options).dataset(repeat=repeat)
