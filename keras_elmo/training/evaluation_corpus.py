"""Batches of a text that is read once, to evaluate a language model."""

import dataclasses
import functools
from collections.abc import Iterator

import numpy as np

from keras_elmo.training.batches import Batch, Packer, TextBatches
from keras_elmo.training.files import raise_no_sentence

_PADDING = -1


@dataclasses.dataclass(eq=False, repr=False, kw_only=True)
class EvaluationCorpus(TextBatches):
    """A text as batches of word windows, read once from its beginning to its end.

    Batches are packed as those of a `LanguageModelCorpus`, in the order of the files. For
    `validation_data` of `BidirectionalLanguageModel.fit` and for `evaluate`.

    Args:
        files, vocabulary, batch_size, ...: As for `LanguageModelCorpus`.
        remainder: What to do with the words left when the text ends within a window: `"pad"` the
            window, so that each word is scored once, or `"drop"` them, as bilm-tf does in its test.

    Iterating yields the dicts of a `LanguageModelCorpus`. With `remainder="pad"` they also have
    `weights`, float32 `(B, T)`: 0.0 at padding, 1.0 elsewhere.

    Raises:
        FileNotFoundError: if a pattern matches no file.
        ValueError: if an argument is bad, or the text has no sentence.

    Example:

    >>> held_out = EvaluationCorpus("heldout.txt", vocabulary, batch_size=128, unroll_steps=20)
    >>> model.fit(corpus, epochs=10, validation_data=held_out)
    >>> model.evaluate(held_out)

    Reference: BILM_TF.md, "Language-model training".
    """

    remainder: str = "pad"

    def __post_init__(self):
        super().__post_init__()
        if self.remainder not in ("pad", "drop"):
            raise ValueError(f"remainder must be 'pad' or 'drop', got {self.remainder!r}.")

    @property
    def has_weights(self) -> bool:
        return self.remainder == "pad"

    def __iter__(self) -> Iterator[Batch]:
        packer = Packer(self)
        for windows in self._windows(packer):
            batch = packer.batch(np.maximum(windows, 0))
            if self.has_weights:
                batch["weights"] = (windows[0] != _PADDING).astype(np.float32)
            yield batch

    @functools.cached_property
    def num_batches(self) -> int:
        """Batches of one iteration; the first access reads the whole text."""
        return sum(1 for _ in self._windows(Packer(self)))

    def _windows(self, packer):
        """Windows int32 `(4, B, T)`, with -1 for padding."""
        sentences = self._sentences(packer)
        while (windows := packer.fill(lambda: next(sentences, None))) is not None:
            if (windows[0] == _PADDING).all():
                return
            yield windows

    def _sentences(self, packer):
        is_empty = True
        for path, part in self.parts():
            for sentence in packer.load_shard(path, part):
                is_empty = False
                yield sentence
        if is_empty:
            raise_no_sentence(self.paths)
        while self.has_weights:
            yield np.full(self.unroll_steps + 1, _PADDING, np.int32)
