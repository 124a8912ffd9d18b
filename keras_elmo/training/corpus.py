"""The endless stream of batches that a language model is trained on."""

import collections
import dataclasses
import functools
import hashlib
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from keras_elmo.text.reader import Files
from keras_elmo.text.vocabulary import Vocabulary
from keras_elmo.training.batches import Batch, Packer, TextBatches
from keras_elmo.training.files import changed_files, fingerprints, raise_no_sentence

_SNAPSHOTS = 64


@dataclasses.dataclass(eq=False, repr=False, kw_only=True)
class LanguageModelCorpus(TextBatches):
    """A corpus as an endless stream of batches of word windows, for training.

    A batch has `batch_size` independent rows. A row that ran out takes the next sentence, with its
    boundaries; windows of `unroll_steps` words are filled across sentences and epochs, and nothing
    is padded. The backward stream holds the same sentences in reverse.

    The order of files, and of the sentences in each, depends on the seed and the epoch alone, so
    that the stream can be resumed at any batch: see `state`. To read a text once, for evaluation,
    use an `EvaluationCorpus`.

    Args:
        files: Text of one tokenized sentence a line: a path, a glob pattern or a list of such;
            plain, .gz or .xz.
        vocabulary: The `Vocabulary`.
        batch_size: Rows B.
        unroll_steps: Words T of a window.
        max_characters_per_token: Characters C of a word; `None` for a model that reads whole words.
        widest_filter: Width of the model's widest convolution over characters, a margin to which
            padding is then trimmed; this changes no result.
        distinct_words: Whether a batch has the characters of each distinct word once, which is much
            faster, or those of every position, which a batch split over devices needs.
        bidirectional: Whether there is a backward stream.
        shuffle: Whether to shuffle; else files are read in the order given.
        seed: Integer; `None` draws one.
        shard: `(index, count)`: read the index-th of count equal parts, for one worker of several.

    Iterating gives one epoch, from where the stream is, as dicts of NumPy arrays:
        - `token_ids`, `next_token_id`: int32 `(B, T)`, and the same with `_reverse` for the
          backward stream. The input, and what is to be predicted from it.
        - `word_characters` int32 `(U, C)` of the distinct words, and `word_index`,
          `word_index_reverse` int32 `(B, T)` into them; or with `distinct_words=False`
          `tokens_characters`, `tokens_characters_reverse` int32 `(B, T, C)`.

    Raises:
        FileNotFoundError: if a pattern matches no file.
        ValueError: if an argument is bad, or an epoch has no sentence.

    Example:

    >>> corpus = LanguageModelCorpus("shards/*", vocabulary, batch_size=128, unroll_steps=20)
    >>> next(iter(corpus))["token_ids"].shape
    (128, 20)

    Reference: BILM_TF.md, "Language-model training".
    """

    shuffle: bool = True
    seed: int | None = None

    def __post_init__(self):
        super().__post_init__()
        if self.seed is None:
            self.seed = int(np.random.SeedSequence().generate_state(1)[0])
        self._stream, self._files = _Stream(self), None

    def __iter__(self) -> Iterator[Batch]:
        """One epoch. What is left of it, less than a batch, opens the next epoch's first batch."""
        stream = self._stream
        while self._stream is stream and (batch := stream.next_batch()) is not None:
            yield batch

    def endless(self) -> Iterator[Batch]:
        """Batches without end, epoch after epoch; `restore` and `go_to` end the iteration."""
        stream = self._stream
        while self._stream is stream:
            if (batch := stream.next_batch()) is not None:
                yield batch

    @property
    def num_batches(self) -> int:
        """Batches read since the corpus was made, including those read ahead of their use."""
        return self._stream.num_batches

    @functools.cached_property
    def batches_per_epoch(self) -> int:
        """Full windows in an epoch, rounded down; the first access reads the whole corpus."""
        share = 1 if self.deals_files else self.shard[1]
        return self.report.predictions // share // (self.batch_size * self.unroll_steps)

    def state(self, num_batches: int) -> dict[str, Any]:
        """The place of the corpus after `num_batches`, a JSON-serializable dict for `restore`.

        Batches are counted since the corpus was made. Dozens may have been read ahead since then.

        Raises:
            ValueError: if that is too long ago, or was not read yet.
        """
        snapshot = self._snapshot(num_batches)
        return {**snapshot, "target": num_batches, "corpus": self._identity()}

    def _snapshot(self, num_batches):
        """The last place known before a batch."""
        past = [one for one in list(self._stream.snapshots) if one["batch"] <= num_batches]
        if not past or num_batches > self.num_batches:
            raise ValueError(
                f"The state after batch {num_batches} is not known: {self.num_batches} batches "
                "have been read, and only the latest states are kept."
            )
        return past[-1]

    def restore(self, state: dict[str, Any]) -> None:
        """Resumes at a place that `state` returned, in this worker or in another one.

        Raises:
            ValueError: if it is of another corpus, or of other settings. Content is compared where
                the time of a file's last change differs.
        """
        found = state["corpus"]
        self._files = fingerprints(self.paths, found["files"])
        changed = changed_files(self._files, found["files"])
        problems = [f"these files have changed: {', '.join(changed):.200}"] if changed else []
        own = self._identity()
        own["shard"][0] = found["shard"][0]
        if found.get("words", own["words"]) != own["words"]:  # earlier versions did not keep it
            problems.append("the vocabulary has other words")
        for name in own.keys() - {"files", "seed", "words"}:
            if found.get(name) != own[name]:
                problems.append(f"{name} was {found.get(name)!r}, now {own[name]!r}")
        if problems:
            raise ValueError(
                f"The state is of another corpus: {'; '.join(sorted(problems))}. Continue with the "
                "same files and settings, or start anew."
            )
        self.seed = found["seed"]
        self._move(state if found["shard"] == list(self.shard) else None, state["target"])

    def go_to(self, num_batches: int) -> None:
        """Returns to where `num_batches` had been taken, back from what was read ahead."""
        if num_batches != self.num_batches:
            self._move(self._snapshot(num_batches), num_batches)

    def _move(self, snapshot, num_batches):
        stream = _Stream(self, snapshot)
        stream.skip_to(num_batches)
        self._stream = stream

    def _identity(self):
        """What determines the order of batches, JSON-serializable."""
        if self._files is None:
            self._files = fingerprints(self.paths)
        return {
            "files": self._files,
            "vocabulary size": len(self.vocabulary),
            "words": hashlib.blake2b("\n".join(self.vocabulary.words).encode()).hexdigest()[:32],
            "shard": list(self.shard),
            **{n: getattr(self, n) for n in ("batch_size", "unroll_steps", "shuffle", "seed")},
        }


def language_model_dataset(
    files: Files,
    vocabulary: Vocabulary,
    *,
    batch_size: int,
    unroll_steps: int,
    repeat: bool = False,
    **options: Any,
) -> Any:
    """Text shards as a `tf.data.Dataset` of training batches: `LanguageModelCorpus(...).dataset()`.

    Args:
        files, vocabulary, batch_size, ...: As for `LanguageModelCorpus`.
        repeat: Whether the dataset is endless; else each iteration over it gives the next epoch.

    Returns:
        A dataset of dicts of int32 tensors, see `LanguageModelCorpus`.

    Raises:
        FileNotFoundError: if a pattern matches no file.
        ValueError: if an argument is bad.

    Example:

    >>> dataset = language_model_dataset(
    ...     "shards/*", vocabulary, batch_size=128, unroll_steps=20, repeat=True
    ... )
    >>> model.fit(dataset, epochs=10, steps_per_epoch=1000, shuffle=False)
    """
    corpus = LanguageModelCorpus(
        files, vocabulary, batch_size=batch_size, unroll_steps=unroll_steps, **options
    )
    return corpus.dataset(corpus.endless if repeat else None)


class _Stream:
    """A place in a corpus: the epoch, the shard, the sentence, and what the rows hold.

    `snapshots` are the latest places, taken between two batches whenever a shard was loaded: what
    was read ahead of the training must be read again.
    """

    def __init__(self, corpus, snapshot=None):
        self.corpus = corpus
        self.lock = threading.Lock()  # several iterators may share a corpus
        self.num_batches = 0
        self.snapshots = collections.deque(maxlen=_SNAPSHOTS)
        self._packer = Packer(corpus)
        if snapshot is None:
            self._begin_epoch(0)
            self.snapshots.append(self._snapshot())
        else:
            self._resume(snapshot)

    def next_batch(self):
        """The next batch, or `None` when the epoch's text ended before it was full."""
        with self.lock:
            windows = self._next_windows()
            return None if windows is None else self._packer.batch(windows)

    def skip_to(self, num_batches):
        """Reads without making batches until so many have been read."""
        while self.num_batches < num_batches:
            self._next_windows()

    def _next_windows(self):
        if self._packer.is_between_batches and self._is_new_shard:
            self.snapshots.append(self._snapshot())
            self._is_new_shard = False
        windows = self._packer.fill(self._next_sentence)
        if windows is None:
            self._begin_epoch(self._epoch + 1)
        else:
            self.num_batches += 1
        return windows

    def _begin_epoch(self, epoch, shard=0):
        self._epoch, self._shard = epoch, shard
        self._sentences, self._sentence = iter(()), 0
        self._is_new_shard = False
        self._has_text = bool(shard)
        self._order = list(enumerate(self.corpus.parts()))
        if self.corpus.shuffle:
            np.random.default_rng([self.corpus.seed, epoch]).shuffle(self._order)

    def _next_sentence(self):
        """Ids of the next sentence with its boundaries, or `None` at the end of the epoch."""
        while (sentence := next(self._sentences, None)) is None:
            if self._shard == len(self._order):
                if not self._has_text:
                    raise_no_sentence(self.corpus.paths)
                return None
            self._load_shard()
        self._has_text = True
        self._sentence += 1
        return sentence

    def _load_shard(self, first_sentence=0):
        file_index, (path, part) = self._order[self._shard]
        sentences = self._packer.load_shard(path, part)
        order = np.arange(len(sentences))
        if self.corpus.shuffle:
            np.random.default_rng([self.corpus.seed, self._epoch, file_index]).shuffle(order)
        self._sentences = map(sentences.__getitem__, order[first_sentence:])
        self._sentence = first_sentence
        self._has_text |= first_sentence > 0
        self._shard += 1
        self._is_new_shard = True

    def _snapshot(self):
        """This place, between two batches."""
        rows, reverse = zip(*self._packer.rows)
        return {
            "batch": self.num_batches,
            "epoch": self._epoch,
            "shard": self._shard,
            "sentence": self._sentence,
            "rows": list(map(self._named, rows)),
            "rows_reverse": list(map(self._named, reverse)),
        }

    def _named(self, ids):
        """Ids as a list in which unknown words stand by themselves."""
        num_words, unknown = len(self.corpus.vocabulary), self._packer.words.unknown
        return [int(i) if i < num_words else unknown[i - num_words].decode() for i in ids]

    def _ids(self, named):
        words = self._packer.words
        ids = [item if isinstance(item, int) else words[item.encode()] for item in named]
        return np.array(ids, np.int32)

    def _resume(self, snapshot):
        self.num_batches = snapshot["batch"]
        pairs = zip(snapshot["rows"], snapshot["rows_reverse"])
        self._packer.rows = [(self._ids(row), self._ids(reverse)) for row, reverse in pairs]
        # A shard counts from when it was loaded: it is loaded again.
        self._begin_epoch(snapshot["epoch"], max(snapshot["shard"] - 1, 0))
        if snapshot["shard"]:
            self._load_shard(snapshot["sentence"])
            self._is_new_shard = False
        self.snapshots.append(self._snapshot())
