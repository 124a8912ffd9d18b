"""Text shards to batches for training a language model, packed as bilm-tf packs them."""

import collections
import functools
import os
import queue
import threading

import numpy as np

from keras_elmo.text.characters import encode_words, trim_characters
from keras_elmo.text.reader import TextReport, find_files, read_sentences

_REMAINDERS = ("carry", "pad", "drop")
_SNAPSHOTS = 64
_PREFETCHED = 8


class LanguageModelCorpus:
    """A corpus as batches of word windows, forward and backward.

    A batch has `batch_size` independent rows. A row that ran out takes the next sentence, with its
    boundaries; windows of `unroll_steps` words are filled across sentences and nothing is padded.
    The backward stream holds the same sentences in reverse. One shard of word ids is in memory at
    a time.

    Iterating gives one epoch. The order of shards and of the sentences inside each depends on the
    seed and the epoch alone, so that the corpus can go on from any batch: see `state`.

    Args:
        files: Text of one tokenized sentence a line: a path, a glob pattern or a list of such;
            plain, .gz or .xz.
        vocabulary: The `Vocabulary`.
        batch_size: Rows B.
        unroll_steps: Words T of a window.
        max_characters_per_token: Characters C of a word; `None` for a model that reads whole words.
        widest_filter: Width of the model's widest convolution over characters. Then characters are
            cut to the longest word of a batch and so much more, which changes no result.
        distinct_words: Whether a batch has the characters of each distinct word once, which saves
            most of the character encoder's work, or those of every position, as in bilm-tf. A batch
            that is split over devices needs `False`.
        bidirectional: Whether there is a backward stream.
        shuffle: Whether to shuffle; else files are read in the order given.
        seed: Integer; `None` draws one.
        shard: `(index, count)`: read the index-th of count equal parts, for one worker of several.
            Files are dealt out, or sentences where there are fewer files than workers.
        remainder: What to do with the words left when the text ends within a window: `"carry"` them
            into the next epoch, `"pad"` the window, with weights 0 there, or `"drop"` them as
            bilm-tf does in its test. Only `"carry"` can be resumed; the others begin anew each time
            and do not shuffle.

    Iterating yields dicts of NumPy arrays:
        - `token_ids`, `next_token_id`: int32 `(B, T)`, and the same with `_reverse` for the
          backward stream. The input and what is to be predicted from it.
        - `word_characters` int32 `(U, C)` of the distinct words, and `word_index`,
          `word_index_reverse` int32 `(B, T)` into them; or with `distinct_words=False`
          `tokens_characters`, `tokens_characters_reverse` int32 `(B, T, C)`.
        - `weights`: float32 `(B, T)`, with `remainder="pad"`.

    Blank lines and files without a sentence are skipped, bytes that are no UTF-8 are dropped, and
    lines may end in LF or CRLF; `report` counts what was odd.

    Raises:
        FileNotFoundError: if a pattern matches no file.
        ValueError: if an argument is bad, or an epoch has no sentence.

    Example:

    >>> corpus = LanguageModelCorpus("shards/*", vocabulary, batch_size=128, unroll_steps=20)
    >>> next(iter(corpus))["token_ids"].shape
    (128, 20)

    Reference: BILM_TF.md, "Language-model training".
    """

    def __init__(
        self,
        files,
        vocabulary,
        *,
        batch_size,
        unroll_steps,
        max_characters_per_token=50,
        widest_filter=None,
        distinct_words=True,
        bidirectional=True,
        shuffle=True,
        seed=None,
        shard=(0, 1),
        remainder="carry",
    ):
        _check_arguments(batch_size, unroll_steps, shard, remainder)
        self.files = find_files(files)
        self.vocabulary = vocabulary
        self.batch_size = batch_size
        self.unroll_steps = unroll_steps
        self.max_characters_per_token = max_characters_per_token
        self.widest_filter = widest_filter
        self.distinct_words = distinct_words
        self.bidirectional = bidirectional
        self.shuffle = shuffle and remainder == "carry"
        self.seed = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else seed
        self.shard = tuple(shard)
        self.remainder = remainder
        self._stream = _Stream(self)
        # A few states of the past: what is read ahead of the training must be read again.
        self._snapshots = collections.deque(maxlen=_SNAPSHOTS)

    def __iter__(self):
        """One epoch."""
        if self.remainder != "carry":
            self._stream = _Stream(self)
        stream = self._stream
        epoch = stream.epoch
        while self._stream is stream and (batch := self._next_batch(stream, epoch)) is not None:
            yield batch

    def endless(self):
        """Batches of one epoch after the other; only with `remainder="carry"`."""
        self._check_carries()
        stream = self._stream
        # Ends when the corpus has been brought to another place: a reader ahead must not go on.
        while self._stream is stream:
            yield self._next_batch(stream)

    def _next_batch(self, stream, epoch=None):
        """The next batch, or `None` when `epoch` ended before it was full."""
        while True:
            batch = stream.next_batch()
            if stream.snapshot is not None:
                self._snapshots.append(stream.snapshot)
                stream.snapshot = None
            if batch is not None:
                return batch
            if self.remainder != "carry":
                return None
            stream.begin_epoch(stream.epoch + 1)
            if epoch is not None:
                return None

    @property
    def num_batches(self):
        """Batches read since the corpus was made, what was read ahead included."""
        return self._stream.num_batches

    def dataset(self, source=None):
        """The same batches as a `tf.data.Dataset`, read ahead of their use.

        Args:
            source: A function that gives an iterator over batches of this corpus, such as
                `corpus.endless`; `None` for one epoch at a time.

        Returns:
            A dataset of dicts. Iterating it again gives the next epoch.
        """
        import tensorflow as tf

        source = (lambda: iter(self)) if source is None else source
        dataset = tf.data.Dataset.from_generator(source, output_signature=self._signature(tf))
        return dataset.prefetch(_PREFETCHED)

    def _signature(self, tf):
        shape = (self.batch_size, self.unroll_steps)
        signature = {}
        for suffix in ("", "_reverse")[: 1 + self.bidirectional]:
            names = ["token_ids", "next_token_id"]
            if self.max_characters_per_token is not None:
                if self.distinct_words:
                    names.append("word_index")
                    signature["word_characters"] = tf.TensorSpec((None, None), tf.int32)
                else:
                    name = f"tokens_characters{suffix}"
                    signature[name] = tf.TensorSpec((*shape, None), tf.int32)
            signature.update({f"{name}{suffix}": tf.TensorSpec(shape, tf.int32) for name in names})
        if self.remainder == "pad":
            signature["weights"] = tf.TensorSpec(shape, tf.float32)
        return signature

    def count_batches(self):
        """Batches that one iteration gives; reads the whole corpus to know."""
        stream = _Stream(self)
        stream.makes_batches = False
        count = 0
        while stream.next_batch() is not None:
            count += 1
        return count

    @functools.cached_property
    def report(self):
        """A `TextReport` of this worker's files; reads them all, once."""
        report = TextReport()
        for path, _ in self._parts():
            for _ in read_sentences(path, report):
                pass
        return report

    @functools.cached_property
    def batches_per_epoch(self):
        """Full windows in an epoch, rounded down; reads the whole corpus, once."""
        share = 1 if self._deals_files else self.shard[1]
        return self.report.predictions // share // (self.batch_size * self.unroll_steps)

    @property
    def _deals_files(self):
        return len(self.files) >= self.shard[1]

    def _parts(self):
        """Pairs of a file and the (index, count) of its sentences that this worker reads."""
        index, count = self.shard
        if self._deals_files:
            return [(path, (0, 1)) for path in self.files[index::count]]
        return [(path, self.shard) for path in self.files]

    def state(self, num_batches):
        """Where the corpus stood when `num_batches` had been taken from it since it was made.

        What was read ahead does not matter, as long as it is no more than some dozens of batches.

        Args:
            num_batches: Batches used so far, by training steps say.

        Returns:
            A dict that JSON can hold, for `restore`.

        Raises:
            ValueError: if that is too long ago, or was not read yet.
        """
        self._check_carries()
        known = [*self._snapshots, self._stream.snapshot]
        past = [one for one in known if one is not None and one["batch"] <= num_batches]
        if not past or num_batches > self._stream.num_batches:
            raise ValueError(
                f"The state after batch {num_batches} is not known: {self._stream.num_batches} "
                "batches have been read, and only the latest states are kept."
            )
        return {**past[-1], "target": num_batches, "corpus": self._identity()}

    def restore(self, state):
        """Goes on from a state that `state` gave.

        Args:
            state: The dict.

        Raises:
            ValueError: if it is of another corpus, or of other settings.
        """
        self._check_carries()
        own, found = self._identity(), state["corpus"]
        changed = [name for name in own if found.get(name) != own[name] and name != "seed"]
        if changed:
            raise ValueError(
                f"The state is of a corpus with other {' and '.join(changed)}: "
                + "; ".join(f"{name} was {found.get(name)!r:.200}" for name in changed)
                + ". Continue with the same files and settings, or start anew."
            )
        self.seed = found["seed"]
        self._snapshots.clear()
        stream = _Stream(self)
        stream.resume(state)
        stream.makes_batches = False
        while stream.num_batches < state["target"]:
            self._next_batch(stream)
        stream.makes_batches = True
        self._stream = stream

    def go_to(self, num_batches):
        """Goes on from where `num_batches` had been taken, back from what was read ahead.

        Args:
            num_batches: As for `state`.
        """
        if num_batches != self.num_batches:
            self.restore(self.state(num_batches))

    def _check_carries(self):
        if self.remainder != "carry":
            raise ValueError("Only a corpus with remainder='carry' can be resumed or repeated.")

    def _identity(self):
        """What makes the order of batches, JSON-like."""
        return {
            "files": [[os.path.basename(path), os.path.getsize(path)] for path in self.files],
            "vocabulary size": len(self.vocabulary),
            "batch_size": self.batch_size,
            "unroll_steps": self.unroll_steps,
            "shuffle": self.shuffle,
            "shard": list(self.shard),
            "seed": self.seed,
        }

    @functools.cached_property
    def _word_rows(self):
        return self.vocabulary.character_ids(self.max_characters_per_token).astype(np.int16)

    @functools.cached_property
    def _id_table(self):
        return self.vocabulary.id_table()


def language_model_dataset(files, vocabulary, *, batch_size, unroll_steps, repeat=False, **options):
    """Text shards as a `tf.data.Dataset` of training batches: `LanguageModelCorpus(...).dataset()`.

    Args:
        files: Text of one tokenized sentence a line: a path, a glob pattern or a list of such.
        vocabulary: The `Vocabulary`.
        batch_size: Rows B.
        unroll_steps: Words T of a window.
        repeat: Whether to go on for ever.
        **options: Other arguments of `LanguageModelCorpus`: `shuffle=True`, `seed=None`,
            `shard=(0, 1)`, `remainder="carry"`, `max_characters_per_token=50`, ...

    Returns:
        A dataset of dicts of int32 tensors, see `LanguageModelCorpus`.

    Raises:
        FileNotFoundError: if a pattern matches no file.
        ValueError: if an argument is bad.

    Example:

    >>> dataset = language_model_dataset("shards/*", vocabulary, batch_size=128, unroll_steps=20)
    >>> model.fit(dataset, epochs=10)
    """
    corpus = LanguageModelCorpus(
        files, vocabulary, batch_size=batch_size, unroll_steps=unroll_steps, **options
    )
    if repeat:
        corpus._check_carries()
    return corpus.dataset(corpus.endless if repeat else None)


class _Stream:
    """The rows of a corpus and the place in its text; makes batches."""

    def __init__(self, corpus):
        self.corpus = corpus
        self.makes_batches = True
        self.num_batches = 0
        self.oov = []
        self.rows = [(np.zeros(0, np.int32),) * 2] * corpus.batch_size
        self._windows = None
        self._finished = False
        self.begin_epoch(0)
        self.snapshot = self.take_snapshot()

    def begin_epoch(self, epoch, shard=0, sentence=0):
        """Goes to a sentence of an epoch: the shard in the epoch's order, the sentence in its."""
        self.epoch = epoch
        self.shard = shard
        self.sentences = iter(())
        self.sentence = 0
        self._skip = sentence
        self._order = self._parts_in_order()
        self._is_new_shard = False
        self._epoch_has_text = bool(shard)

    def _parts_in_order(self):
        parts = list(enumerate(self.corpus._parts()))
        if self.corpus.shuffle:
            np.random.default_rng([self.corpus.seed, self.epoch]).shuffle(parts)
        return parts

    def next_batch(self):
        """The next full batch, or `None` when the epoch's text has ended before."""
        if self._finished:
            return None
        if self._windows is None:
            if self._is_new_shard:
                self.snapshot = self.take_snapshot()
                self._is_new_shard = False
            shape = (4, self.corpus.batch_size, self.corpus.unroll_steps)
            self._windows = np.zeros(shape, np.int32)
            self._weights = np.ones(shape[1:], np.float32)
            self._row, self._position = 0, 0
        if not self._fill():
            return None
        windows, self._windows = self._windows, None
        self.num_batches += 1
        return self._batch(windows) if self.makes_batches else {}

    def _fill(self):
        """Fills the windows row by row, from where it stopped; whether they are full."""
        pad = self.corpus.remainder == "pad"
        num_steps = self.corpus.unroll_steps
        while self._row < len(self.rows):
            forward, backward = self.rows[self._row]
            windows = self._windows[:, self._row]
            while self._position < num_steps:
                if len(forward) <= 1:
                    sentence = self._next_sentence()
                    if sentence is None:
                        self.rows[self._row] = forward, backward
                        if not pad:
                            return False
                        self._weights[self._row, self._position :] = 0
                        break
                    forward, backward = sentence, sentence[::-1]
                start = self._position
                count = min(len(forward) - 1, num_steps - start)
                stop = start + count
                windows[0, start:stop] = forward[:count]
                windows[1, start:stop] = forward[1 : count + 1]
                windows[2, start:stop] = backward[:count]
                windows[3, start:stop] = backward[1 : count + 1]
                forward, backward = forward[count:], backward[count:]
                self._position = stop
            self.rows[self._row] = forward, backward
            self._row, self._position = self._row + 1, 0
        # A padded batch without a single word is the end.
        self._finished = pad and not self._weights.any()
        return not self._finished

    def _next_sentence(self):
        """Ids of the next sentence with its boundaries, or `None` at the end of the epoch."""
        while (sentence := next(self.sentences, None)) is None:
            if self.shard == len(self._order):
                if not self._epoch_has_text:
                    raise ValueError(
                        f"There is no sentence in {len(self._order)} files such as "
                        f"{self.corpus.files[0]}."
                    )
                return None
            self._load_shard()
        self._epoch_has_text = True
        self.sentence += 1
        return sentence

    def _load_shard(self):
        file_index, (path, part) = self._order[self.shard]
        tokens = _Tokens(self.corpus)
        # What the rows still hold keeps its words: they get ids among the new shard's.
        self.rows = [tuple(tokens.translate(ids, self.oov) for ids in row) for row in self.rows]
        if self._windows is not None:
            self._windows = tokens.translate(self._windows, self.oov)
        ids, starts = tokens.read(path, part)
        self.oov, self.oov_rows = tokens.oov, tokens.oov_rows()
        order = np.arange(len(starts) - 1)
        if self.corpus.shuffle:
            seed = [self.corpus.seed, self.epoch, file_index]
            np.random.default_rng(seed).shuffle(order)
        order = order[self._skip :]
        self.sentences = (ids[starts[i] : starts[i + 1]] for i in order)
        self.sentence, self._skip = self._skip, 0
        self.shard += 1
        self._is_new_shard = True

    def _batch(self, windows):
        corpus = self.corpus
        num_words = len(corpus.vocabulary)
        streams = windows if corpus.bidirectional else windows[:2]
        ids = np.where(streams < num_words, streams, np.int32(corpus.vocabulary.unknown_id))
        names = ("token_ids", "next_token_id", "token_ids_reverse", "next_token_id_reverse")
        batch = dict(zip(names, ids))
        if corpus.max_characters_per_token is not None:
            batch.update(self._characters(streams[::2]))
        if corpus.remainder == "pad":
            batch["weights"] = self._weights
        return batch

    def _characters(self, inputs):
        suffixes = ("", "_reverse")
        words, index = np.unique(inputs, return_inverse=True)
        index = index.reshape(inputs.shape).astype(np.int32)
        known = int(np.searchsorted(words, len(self.corpus.vocabulary)))
        unknown = (words[known:] - len(self.corpus.vocabulary)).tolist()
        # Their ids depend on where reading began; a batch must not, to the last bit of a sum.
        order = sorted(range(len(unknown)), key=lambda i: self.oov[unknown[i]])
        places = np.arange(len(words), dtype=np.int32)
        places[known + np.array(order, np.int64)] = np.arange(known, len(words))
        index = places[index]
        unknown = [unknown[i] for i in order]
        rows = np.concatenate([self.corpus._word_rows[words[:known]], self.oov_rows[unknown]])
        rows = rows.astype(np.int32)
        if self.corpus.widest_filter is not None:
            rows = trim_characters(rows, self.corpus.widest_filter)
        if not self.corpus.distinct_words:
            named = zip(suffixes, index)
            return {f"tokens_characters{suffix}": rows[one] for suffix, one in named}
        # Few different sizes: a compiled model is compiled anew for each.
        step = max(16, -(-inputs.size // 32))
        padding = -len(rows) % step
        rows = np.pad(rows, ((0, padding), (0, 0)))
        return {
            "word_characters": rows,
            **{f"word_index{suffix}": one for suffix, one in zip(suffixes, index)},
        }

    def take_snapshot(self):
        """What `resume` needs, between two batches."""
        words = [word.decode() for word in self.oov]
        return {
            "batch": self.num_batches,
            "epoch": self.epoch,
            "shard": self.shard,
            "sentence": self.sentence,
            "rows": [self._named(row[0], words) for row in self.rows],
            "rows_reverse": [self._named(row[1], words) for row in self.rows],
        }

    def _named(self, ids, words):
        num_words = len(self.corpus.vocabulary)
        return [int(i) if i < num_words else words[i - num_words] for i in ids]

    def resume(self, snapshot):
        # The shard counts as read once its sentences are at hand: it is opened again.
        shard = max(snapshot["shard"] - 1, 0)
        self.begin_epoch(snapshot["epoch"], shard, snapshot["sentence"])
        self.num_batches = snapshot["batch"]
        tokens = _Tokens(self.corpus)
        named = zip(snapshot["rows"], snapshot["rows_reverse"])
        self.rows = [tuple(map(tokens.ids_of_named, row)) for row in named]
        self.oov = tokens.oov
        if snapshot["shard"]:
            self._load_shard()
            self._is_new_shard = False
            self._epoch_has_text = True
        # The snapshot this came from serves again.
        self.snapshot = {name: snapshot[name] for name in self.take_snapshot()}


class _Tokens(dict):
    """Words to ids: those of the vocabulary, and further ones for the unknown words of a shard."""

    def __init__(self, corpus):
        super().__init__(corpus._id_table)
        self.vocabulary = corpus.vocabulary
        self.width = corpus.max_characters_per_token
        self.oov = []

    def __missing__(self, word):
        # Whole-word models have no use for an unknown word but that it is unknown.
        if self.width is None:
            return self.vocabulary.unknown_id
        self[word] = new = len(self.vocabulary) + len(self.oov)
        self.oov.append(word)
        return new

    def read(self, path, part):
        """The sentences of a file: ids int32 in one array, and where each sentence starts."""
        begin, end = self.vocabulary.begin_id, self.vocabulary.end_id
        ids, starts = [], [0]
        buffer, get = [], self.__getitem__
        for tokens in _part(read_sentences(path), part):
            buffer.append(begin)
            buffer.extend(map(get, tokens))
            buffer.append(end)
            starts.append(starts[-1] + len(tokens) + 2)
            if len(buffer) > 100_000:
                ids.append(np.array(buffer, np.int32))
                buffer.clear()
        ids.append(np.array(buffer, np.int32))
        return np.concatenate(ids), np.array(starts)

    def translate(self, ids, oov):
        """Ids in which an unknown word was a place in another list `oov`, to ids of this one."""
        num_words = len(self.vocabulary)
        if not oov or not (ids >= num_words).any():
            return ids
        translated = ids.copy()
        for before in np.unique(ids[ids >= num_words]).tolist():
            translated[ids == before] = self[oov[before - num_words]]
        return translated

    def ids_of_named(self, row):
        ids = [item if isinstance(item, int) else self[item.encode()] for item in row]
        return np.array(ids, np.int32)

    def oov_rows(self):
        """Character ids int16 `(number of unknown words, C)`."""
        if self.width is None:
            return None
        return encode_words(self.oov, self.width).astype(np.int16)


def _part(sentences, part):
    index, count = part
    if count == 1:
        return sentences
    return (sentence for i, sentence in enumerate(sentences) if i % count == index)


def prefetched(iterator):
    """Runs an iterator in a thread, a few items ahead; needs no TensorFlow."""
    items, stop, done = queue.Queue(_PREFETCHED), threading.Event(), object()

    def put(item):
        while not stop.is_set():
            try:
                items.put(item, timeout=0.1)
                return
            except queue.Full:
                continue

    def work():
        try:
            for item in iterator:
                put((item, None))
                if stop.is_set():
                    return
            put((done, None))
        except BaseException as error:
            put((None, error))

    threading.Thread(target=work, daemon=True).start()
    try:
        while True:
            item, error = items.get()
            if error is not None:
                raise error
            if item is done:
                return
            yield item
    finally:
        stop.set()


def _check_arguments(batch_size, unroll_steps, shard, remainder):
    for name, value in (("batch_size", batch_size), ("unroll_steps", unroll_steps)):
        if not isinstance(value, (int, np.integer)) or value < 1:
            raise ValueError(f"{name} must be a positive integer, got {value!r}.")
    index, count = shard
    if not 0 <= index < count:
        raise ValueError(f"shard must be (index, count) with 0 <= index < count, got {shard!r}.")
    if remainder not in _REMAINDERS:
        raise ValueError(f"remainder must be one of {', '.join(_REMAINDERS)}, got {remainder!r}.")
