"""Vocabularies: words to ids and back, counting, building and checking."""

import collections
import dataclasses
import hashlib
import itertools
import os
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from keras_elmo.files import atomic_write, names_file
from keras_elmo.text.characters import TokenEncoder, add_boundaries
from keras_elmo.text.reader import Files, TextStats, find_files, open_text, pluralize, read_blocks
from keras_elmo.text.tokenize import Tokenize
from keras_elmo.text.tokens import check_batch, checked_tokens, token_bytes, tokens_of
from keras_elmo.warn import warn

SPECIALS = BEGIN, END, UNKNOWN = "<S>", "</S>", "<UNK>"
"""The boundaries of a sentence and unknown words, as the files spell them.

In dicts, words are UTF-8 `bytes` and boundaries these `str`, so that no word is taken for one.
"""

UNKNOWN_KEY = UNKNOWN.encode()
VOCABULARY_LIMITS = {"min_count": 2, "size": 50_000}
"""How often a word of a text must occur, and how many words at most, to be in the vocabulary that
`train` makes for it without another one, and `vocab` by default."""

_NO_WORD = "!!!MAXTERMID"  # bilm-tf skips this line of a vocabulary, without counting it


class Vocabulary:
    """The words that a language model predicts, by descending count.

    The order matters, since sampled softmax draws its negatives by rank. bilm-tf's files have one
    word per line, `<S>`, `</S>` and `<UNK>` first. A word's id is the number of its line, from 0;
    if it is repeated, of its last line. A blank line, `""`, also has an id: models that were
    trained with one have a row for it.

    Args:
        words: The words in order, the three specials among them.

    Attributes:
        words: List of `str`.
        begin_id, end_id, unknown_id: Ids of `<S>`, `</S>` and `<UNK>`.

    Raises:
        ValueError: if a special is missing, or a word contains white space.

    Example:

    >>> vocabulary = Vocabulary(["<S>", "</S>", "<UNK>", "the", "cat"])
    >>> vocabulary.ids(["the", "dog"])
    [3, 2]

    Reference: BILM_TF.md, "Language-model training"; bilm-tf `Vocabulary`.
    """

    def __init__(self, words: Iterable[str]):
        self.words = [str(word) for word in words]
        _check_lines(self.words, "The vocabulary")
        self._ids = id_table(self.words, needed=SPECIALS)
        self.begin_id, self.end_id = self._ids[BEGIN], self._ids[END]
        self.unknown_id = self._ids[UNKNOWN_KEY]

    @property
    def digest(self) -> str:
        """A hash of the words and their order."""
        return hashlib.blake2b("\n".join(self.words).encode(), digest_size=16).hexdigest()

    @classmethod
    def from_file(cls, path: str | os.PathLike, size: int | None = None) -> "Vocabulary":
        """Reads a vocabulary file of bilm-tf, one word per line.

        Args:
            path: The file.
            size: The number of words of its model, if known. Blank lines at the end of the file
                count up to this number; they do not count where it is `None`.

        Raises:
            FileNotFoundError: if it does not exist.
            ValueError: if it is not UTF-8, or as for `Vocabulary`.

        Example:

        >>> len(Vocabulary.from_file("vocab.txt"))
        60003
        """
        words = read_words(path)
        while words and not words[-1] and len(words) > (size or 0):
            words.pop()
        with names_file(path):
            return cls(words)

    @classmethod
    def from_counts(
        cls, counts: Mapping[str | bytes, int], *, min_count: int = 1, size: int | None = None
    ) -> "Vocabulary":
        """Builds a vocabulary from counted words.

        Words with white space are left out: a vocabulary file has one word per line. Like all
        others outside the vocabulary, they are predicted as `<UNK>`.

        Args:
            counts: Mapping from words (`str` or UTF-8 `bytes`) to their counts. Words of the same
                count are sorted by their bytes.
            min_count: Leave out words that occur less often.
            size: Maximum number of words, including the three specials; `None` for all.

        Raises:
            ValueError: if `size` is less than 4, or no word is left.

        Example:

        >>> Vocabulary.from_counts({"the": 10, "cat": 2, "sat": 1}, min_count=2).words
        ['<S>', '</S>', '<UNK>', 'the', 'cat']
        """
        if size is not None and size <= len(SPECIALS):
            raise ValueError(
                f"The size of a vocabulary must be at least 4, of which 3 are special; got {size}."
            )
        ranked = sorted(
            (-count, word if isinstance(word, bytes) else word.encode())
            for word, count in counts.items()
            if count >= min_count
        )
        words = [key.decode() for _, key in ranked if not _has_space(key)]
        words = [word for word in words if word not in SPECIALS]
        if not words:
            raise ValueError(
                f"No word occurs {min_count} times or more: pass a smaller min_count."
                if counts
                else "No word was counted: is the text empty?"
            )
        return cls([*SPECIALS, *words][:size])

    def write(self, path: str | os.PathLike, overwrite: bool = True) -> None:
        """Writes the file that `from_file` and bilm-tf read, atomically.

        Args:
            path: The file.
            overwrite: Whether to replace an existing file.

        Raises:
            FileExistsError: if it exists, without `overwrite`.
            FileNotFoundError: if its folder does not exist.
        """
        with atomic_write(path, overwrite) as partial, open(partial, "wb") as file:
            file.writelines(f"{word}\n".encode() for word in self.words)

    def __len__(self) -> int:
        return len(self.words)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.words == other.words

    __hash__ = None  # type: ignore[assignment]

    def __contains__(self, token: str | bytes) -> bool:
        """Whether a token is in the vocabulary; boundaries spelled out in a text are not."""
        return token_bytes(token) in self._ids

    def ids(self, tokens: Iterable[str | bytes]) -> list[int]:
        """Ids of tokens; unknown words, and boundaries spelled out in a text, are `<UNK>`."""
        return lookup_ids(map(token_bytes, tokens), self._ids)

    def counts(self, word_counts: "WordCounts") -> np.ndarray:
        """How often each word is predicted in a counted corpus, int64 `(len(vocabulary),)`.

        Each boundary occurs once a sentence; `<UNK>` stands for all other words.
        """
        counts = np.zeros(len(self), np.int64)
        for key, i in self._ids.items():
            counts[i] = word_counts.counts.get(key, 0)
        # A literal <UNK> in the text is among them already.
        ordinary = counts.sum() - counts[self.unknown_id]
        counts[self.unknown_id] = word_counts.stats.tokens - ordinary
        counts[[self.begin_id, self.end_id]] = word_counts.stats.sentences
        return counts

    def known_share(self, counts: np.ndarray) -> float:
        """Share of the tokens of a corpus that are not predicted as `<UNK>`, from its `counts`."""
        return 1 - counts[self.unknown_id] / np.delete(counts, [self.begin_id, self.end_id]).sum()

    def check_order(self, counts: np.ndarray) -> None:
        """Warns if the ranks of the words hardly correlate with their `counts` in a corpus."""
        ordinary = np.delete(counts, [self.begin_id, self.end_id, self.unknown_id])
        if len(ordinary) < 10 or ordinary.min() == ordinary.max():
            return
        ranks = np.log(np.arange(1, len(ordinary) + 1))
        if np.corrcoef(ranks, np.log(ordinary + 1.0))[0, 1] > -0.5:
            warn(
                "The vocabulary is not sorted by descending count in this corpus. Sampled softmax "
                "draws negatives by rank and will train poorly: create it with `keras-elmo vocab`."
            )


@dataclasses.dataclass
class WordCounts:
    """How often each word, as UTF-8 `bytes`, occurs in a corpus, and the corpus' `TextStats`."""

    counts: collections.Counter
    stats: TextStats


def count_words(
    files: Files,
    *,
    tokenize: Tokenize = None,
    field: str | None = None,
    show_progress: bool | None = False,
) -> WordCounts:
    """Counts the words of a corpus, which is read as a stream.

    Args:
        files: As for `CorpusIndex.build`.
        tokenize, field: How the text is read, as for `CorpusIndex.build`.
        show_progress: Whether to show a progress bar; `None` if standard error is a terminal.

    Returns:
        A `WordCounts`: its `counts` by word in `bytes`, and its `stats`, a `TextStats`.

    Raises:
        FileNotFoundError: if a pattern matches no file.
        ValueError: if a file is damaged or no text, or a line of it cannot be read.

    Example:

    >>> count_words("shards/*.gz").counts[b"the"]
    3551342
    """
    counts: collections.Counter[bytes] = collections.Counter()
    stats = TextStats()
    blocks = read_blocks(
        find_files(files), stats, tokenize=tokenize, field=field, show_progress=show_progress
    )
    for sentences in blocks:
        counts.update(itertools.chain.from_iterable(sentences))
    return WordCounts(counts, stats)


def encode_token_ids(
    sentences: Iterable[str | bytes | Iterable[str | bytes]],
    vocabulary: str | os.PathLike | Sequence[str],
) -> np.ndarray:
    """Encodes tokenized sentences as ids of whole words.

    A token `"<S>"` is ordinary text, here an unknown word: boundaries depend only on position.

    Args:
        sentences: List of sentences: lists of tokens (`str`, or UTF-8 `bytes`), or strings to be
            split at white space.
        vocabulary: The words in the order of the table's rows, with `<S>` and `</S>`, and with
            `<UNK>` if there may be unknown words: a sequence, or the path of a file of one word a
            line.

    Returns:
        int32 array `(B, T + 2)`: the word's index in the vocabulary plus 1, with `<UNK>` in place
        of unknown words, boundaries added, and 0 for padding.

    Raises:
        ValueError: if the vocabulary lacks a special word that is needed or is not UTF-8, or
            a token is neither `str` nor `bytes`.

    Example:

    >>> encode_token_ids([["a", "b"], ["z"]], ["<S>", "</S>", "<UNK>", "a", "b"])
    array([[1, 4, 5, 2],
           [1, 3, 2, 0]], dtype=int32)

    Reference: BILM_TF.md, "Files" (`dump_token_embeddings`); bilm-tf `TokenBatcher`.
    """
    return rows_of_ids(sentences, id_table(read_words(vocabulary)))


def rows_of_ids(
    sentences: Iterable[str | bytes | Iterable[str | bytes]], ids: Mapping[bytes | str, int]
) -> np.ndarray:
    """The result of `encode_token_ids`, computed with an `id_table`."""
    check_batch(sentences)
    lists = list(map(tokens_of, sentences))
    keys = (token_bytes(token) for tokens in lists for token in tokens)
    values = np.array(lookup_ids(keys, ids), np.int32) + 1
    return add_boundaries(list(map(len, lists)), values, ids[BEGIN] + 1, ids[END] + 1)


def encode_vocabulary(words: Sequence[str | bytes], rules: TokenEncoder) -> np.ndarray:
    """Rows of ids of words, of which `BEGIN` and `END` are boundaries, int32 `(N, width)`."""
    rows, (_, *boundaries) = rules.encode_words(words), rules.special_rows()
    for mark, boundary in zip((BEGIN, END), boundaries):
        rows[[i for i, word in enumerate(words) if word == mark]] = boundary
    return rows


def id_table(words: Iterable[str], needed: Sequence[str] = (BEGIN, END)) -> dict[bytes | str, int]:
    """The index of each word of a vocabulary, by its UTF-8; of boundaries, by their `str`.

    A repeated word has its last index, as in bilm-tf. Raises ValueError if one of the special words
    `needed` is missing. A language model needs all three; to look words up, `<UNK>` is needed only
    for unknown words.
    """
    ids: dict[bytes | str, int] = {token_bytes(word): i for i, word in enumerate(words)}
    if missing := [special for special in needed if special.encode() not in ids]:
        raise ValueError(
            f"The vocabulary has no {' and no '.join(missing)}: it must begin with <S>, </S>, "
            "<UNK>, or have them in the order of the table of a model that reads whole words."
        )
    for boundary in (BEGIN, END):
        ids[boundary] = ids.pop(boundary.encode())
    return ids


def lookup_ids(keys: Iterable[bytes | str], ids: Mapping[bytes | str, int]) -> list[int]:
    """The indices of words, by their keys in an `id_table`; unknown words have that of `<UNK>`.

    Raises ValueError if a word is unknown and the vocabulary has no `<UNK>`. (In this case bilm-tf
    encodes the word as padding.)
    """
    if (unknown := ids.get(UNKNOWN_KEY)) is not None:
        return [ids.get(key, unknown) for key in keys]
    keys = list(keys)
    if missing := [key for key in keys if key not in ids]:
        raise ValueError(
            f"The word {token_bytes(missing[0]).decode()!r} is not in the vocabulary, which has no "
            "<UNK> for unknown words: use a vocabulary that has either of them, and the table of "
            "token vectors that belongs to it."
        )
    return [ids[key] for key in keys]


def read_words(vocabulary: str | os.PathLike | Iterable[str]) -> list[str]:
    """The words of a vocabulary: of a UTF-8 file with one word per line, or of a sequence."""
    if not isinstance(vocabulary, (str, os.PathLike)):
        return [token_bytes(word).decode() for word in checked_tokens(vocabulary)]
    with open_text(vocabulary) as (_, lines):
        try:
            # Other white space, such as the no-break space, is part of words.
            words = [line.decode().strip(" \t\r\n") for line in lines]
        except UnicodeDecodeError as error:
            message = f"The vocabulary {vocabulary} is not UTF-8 ({error}). Save it as UTF-8."
            raise ValueError(message) from None
    words = [word for word in words if word != _NO_WORD]
    _check_lines(words, f"The vocabulary {vocabulary}")
    return words


def _has_space(key):
    """Whether a word in UTF-8 cannot stand on a line of a vocabulary file."""
    return bool(key) and key.split() != [key]


def _check_lines(words, name):
    if not any(words):
        raise ValueError(f"{name} is empty: expected a word on each line.")
    keys = map(str.encode, words)
    if spaced := [i for i, key in enumerate(keys, start=1) if _has_space(key)]:
        raise ValueError(
            f"{name} has white space in {pluralize(len(spaced), 'line')}, of which the first is "
            f"line {spaced[0]}, {words[spaced[0] - 1]!r:.60}: expected one word per line, without "
            "white space or counts."
        )
