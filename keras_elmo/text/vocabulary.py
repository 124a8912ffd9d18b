"""The words that a language model predicts."""

import collections
import functools
import os
import warnings

import numpy as np

from keras_elmo.atomic import atomic_write
from keras_elmo.text.characters import (
    BEGIN_SENTENCE,
    END_SENTENCE,
    boundary_row,
    encode_sentences,
    token_bytes,
)
from keras_elmo.text.reader import TextReport, find_files, read_sentences
from keras_elmo.text.token_ids import read_words

BEGIN, END, UNKNOWN = "<S>", "</S>", "<UNK>"
SPECIALS = (BEGIN, END, UNKNOWN)


class Vocabulary:
    """The words that a language model predicts, by falling count.

    The file of bilm-tf: one word a line, `<S>`, `</S>` and `<UNK>` first. Sampled softmax draws its
    negatives by rank, so the order matters.

    Args:
        words: The words in order, the three specials among them.

    Attributes:
        words: List of `str`.
        begin_id, end_id, unknown_id: Ids of `<S>`, `</S>` and `<UNK>`.

    Raises:
        ValueError: if a special is missing, or a word is repeated, empty or has white space in it.

    Example:

    >>> vocabulary = Vocabulary(["<S>", "</S>", "<UNK>", "the", "cat"])
    >>> vocabulary.ids(["the", "dog"])
    [3, 2]

    Reference: BILM_TF.md, "Language-model training"; bilm-tf `Vocabulary`.
    """

    def __init__(self, words):
        self.words = [str(word) for word in words]
        _check(self.words)
        self.begin_id, self.end_id, self.unknown_id = map(self.words.index, SPECIALS)

    @classmethod
    def from_file(cls, path):
        """Reads a vocabulary file of bilm-tf, one word a line.

        Args:
            path: The file, UTF-8.

        Returns:
            A `Vocabulary`.

        Raises:
            FileNotFoundError: if there is no such file.
            ValueError: if it is no UTF-8, or as for `Vocabulary`; the message names lines.

        Warns:
            UserWarning: if the specials are not first, or the words are in alphabetical order.

        Example:

        >>> len(Vocabulary.from_file("vocab.txt"))
        60003
        """
        path = os.fspath(path)
        words = read_words(path)
        while words and not words[-1]:
            words.pop()
        try:
            vocabulary = cls(words)
        except ValueError as error:
            raise ValueError(f"The vocabulary {path} cannot be used. {error}") from None
        if set(words[:3]) != set(SPECIALS):
            _warn(
                f"The vocabulary {path} does not begin with {', '.join(SPECIALS)}. Sampled softmax "
                "takes a word's line for its rank by count: put the three first."
            )
        ordinary = [word for word in words if word not in SPECIALS]
        if len(ordinary) > 10 and ordinary == sorted(ordinary):
            _warn(
                f"The vocabulary {path} is in alphabetical order. Sampled softmax needs it sorted "
                "by falling count: make it with `keras-elmo vocab`."
            )
        return vocabulary

    @classmethod
    def from_counts(cls, counts, *, min_count=1, size=None):
        """Makes a vocabulary of counted words.

        Args:
            counts: Mapping from words (`str` or UTF-8 `bytes`) to how often they occur.
            min_count: Leave out words that occur less often.
            size: Most words to take, the three specials included; `None` for all.

        Returns:
            A `Vocabulary`. Words of the same count are in the order of their bytes.

        Raises:
            ValueError: if `size` has no place for the specials, or no word is left.

        Example:

        >>> Vocabulary.from_counts({"the": 10, "cat": 2, "sat": 1}, min_count=2).words
        ['<S>', '</S>', '<UNK>', 'the', 'cat']
        """
        if size is not None and size <= len(SPECIALS):
            raise ValueError(f"A vocabulary of size {size} has no word besides its 3 specials.")
        special = {word.encode() for word in SPECIALS}
        words = [
            (-count, word if isinstance(word, bytes) else word.encode())
            for word, count in counts.items()
            if count >= min_count
        ]
        words = [word.decode() for _, word in sorted(words) if word not in special]
        if not words:
            raise ValueError(f"No word occurs {min_count} times or more.")
        return cls([*SPECIALS, *words][:size])

    def write(self, path):
        """Writes the file that `from_file` and bilm-tf read, whole or not at all.

        Args:
            path: The file; an existing one is replaced.

        Raises:
            FileNotFoundError: if its folder does not exist.
        """
        with (
            atomic_write(path) as partial,
            open(partial, "w", encoding="utf-8", newline="\n") as file,
        ):
            file.writelines(f"{word}\n" for word in self.words)

    def __len__(self):
        return len(self.words)

    def __eq__(self, other):
        return isinstance(other, Vocabulary) and self.words == other.words

    __hash__ = None

    def ids(self, tokens):
        """Ids of tokens; unknown words, and the boundaries spelled out in a text, are `<UNK>`.

        Args:
            tokens: Iterable of `str` or UTF-8 `bytes`.

        Returns:
            List of `int`.
        """
        return [self._ids.get(token, self.unknown_id) for token in map(token_bytes, tokens)]

    def count_unknown(self, tokens):
        """How many of the tokens, `str` or UTF-8 `bytes`, are not in the vocabulary."""
        return sum(token not in self._ids for token in map(token_bytes, tokens))

    @functools.cached_property
    def _ids(self):
        return self.id_table()

    def id_table(self):
        """Dict from the UTF-8 of each word to its id, a new one at every call.

        `<S>` and `</S>` are not in it: boundaries come from position alone, and in a text they are
        words like any other.
        """
        table = {word.encode(): i for i, word in enumerate(self.words)}
        for boundary in (BEGIN, END):
            del table[boundary.encode()]
        return table

    def character_ids(self, max_characters_per_token=50):
        """Character ids of every word, int32 `(len(vocabulary), max_characters_per_token)`."""
        rows = encode_sentences([self.words], max_characters_per_token)[0, 1:-1]
        rows[self.begin_id] = boundary_row(BEGIN_SENTENCE, max_characters_per_token)
        rows[self.end_id] = boundary_row(END_SENTENCE, max_characters_per_token)
        return rows

    def counts(self, word_counts):
        """How often each word is predicted in a counted corpus.

        Both boundaries are as frequent as sentences, and `<UNK>` stands for all other words.

        Args:
            word_counts: A `WordCounts` of the corpus.

        Returns:
            int64 array `(len(vocabulary),)`.
        """
        counts = np.zeros(len(self), np.int64)
        for word, i in self.id_table().items():
            counts[i] = word_counts.counts.get(word, 0)
        # A literal <UNK> in the text is among them already.
        ordinary = counts.sum() - counts[self.unknown_id]
        counts[self.unknown_id] = word_counts.report.tokens - ordinary
        counts[[self.begin_id, self.end_id]] = word_counts.report.sentences
        return counts

    def check_order(self, word_counts):
        """Warns if the words are not sorted by falling count in a counted corpus.

        Args:
            word_counts: A `WordCounts` of the corpus.

        Warns:
            UserWarning: if rank and count hardly fall together.
        """
        ordinary = np.delete(
            self.counts(word_counts), [self.begin_id, self.end_id, self.unknown_id]
        )
        if len(ordinary) < 10 or ordinary.min() == ordinary.max():
            return
        ranks = np.log(np.arange(1, len(ordinary) + 1))
        if np.corrcoef(ranks, np.log(ordinary + 1.0))[0, 1] > -0.5:
            _warn(
                "The vocabulary is not sorted by falling count in this corpus. Sampled softmax "
                "draws negatives by rank and will learn badly: make it with `keras-elmo vocab`."
            )


class WordCounts:
    """How often each word occurs in a corpus.

    Args:
        counts: `collections.Counter` from UTF-8 `bytes` to `int`.
        report: The `TextReport` of the reading.
    """

    def __init__(self, counts, report):
        self.counts = counts
        self.report = report


def count_words(files, progress=None):
    """Counts the words of a corpus in a stream.

    Args:
        files: A path, a glob pattern or a list of such; plain, .gz or .xz.
        progress: Called with each path when it has been read, or `None`.

    Returns:
        A `WordCounts`.

    Raises:
        FileNotFoundError: if a pattern matches no file.
        ValueError: if a compressed file is damaged.

    Example:

    >>> count_words("shards/*.gz").counts[b"the"]
    3551342
    """
    counts, report = collections.Counter(), TextReport()
    for path in find_files(files):
        for tokens in read_sentences(path, report):
            counts.update(tokens)
        if progress is not None:
            progress(path)
    return WordCounts(counts, report)


def _check(words):
    missing = [special for special in SPECIALS if special not in words]
    if missing:
        raise ValueError(
            f"It has no {' and no '.join(missing)}: a vocabulary begins with the lines "
            f"{', '.join(SPECIALS)}, or is made by `keras-elmo vocab`."
        )
    empty = [i for i, word in enumerate(words, start=1) if not word]
    if empty:
        raise ValueError(f"Blank lines: {_listing(empty)}. Remove them.")
    spaced = [i for i, word in enumerate(words, start=1) if len(word.encode().split()) != 1]
    if spaced:
        raise ValueError(
            f"More than one word on the lines {_listing(spaced)}: a vocabulary has one word a line "
            "and no counts."
        )
    repeated = [word for word, count in collections.Counter(words).items() if count > 1]
    if repeated:
        raise ValueError(f"Words that occur twice: {_listing(repeated)}. Remove the later ones.")


def _listing(items):
    return ", ".join(map(str, items[:5])) + (
        f" and {len(items) - 5} more" if len(items) > 5 else ""
    )


def _warn(message):
    warnings.warn(message, UserWarning, stacklevel=3)
